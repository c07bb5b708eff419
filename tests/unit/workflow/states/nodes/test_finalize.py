"""`result_finalizer_node`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from statewright.errors import ModelError
from statewright.messages import Message
from statewright.models import ScriptedModel
from statewright.workflow.states.engine.visit import ANSWER, Visit
from statewright.workflow.states.handlers import Call
from statewright.workflow.states.nodes import NodeResources

KIND = "result_finalizer_node"


def test_2_10_a_model_writes_the_result(run: Callable[..., Any], call_with: Callable[..., Call]) -> None:
    model = ScriptedModel(["final", "final"])
    resources = NodeResources(state_id="own", find_model=lambda name: model)
    history = [Message("do it"), Message("done", role="assistant")]
    assert run(KIND, None, call_with(history=history, prompt="Write it."), resources).output == "final"
    assert [message.text for message in model.requests[0].messages] == ["do it", "done", "Write it."]
    run(KIND, None, call_with(), resources)
    assert model.requests[1].messages[0].text == "Write the final answer."


def test_2_10_without_a_model_the_last_output_is_the_result(
    run: Callable[..., Any], call_with: Callable[..., Call]
) -> None:
    visits = [Visit("1", "a", "first"), Visit("2", "b", {"n": 2}), Visit("3", ANSWER, "go on")]
    assert run(KIND, None, call_with(visits=visits)).output == {"n": 2}
    assert run(KIND, None, call_with(task="the input")).output == "the input"


def test_a_named_model_must_exist(run: Callable[..., Any]) -> None:
    with pytest.raises(ModelError, match="needs the model 'big'"):
        run(KIND, model="big")


def test_settings_without_effect_are_warnings(faults_of: Any) -> None:
    assert faults_of(KIND, {"length": 3}) == [(("config", "length"), False)]
