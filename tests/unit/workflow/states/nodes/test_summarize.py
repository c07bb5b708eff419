"""`summarize_conversation_node`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from statewright.errors import ModelError
from statewright.messages import Message
from statewright.models import ScriptedModel
from statewright.workflow.states.handlers import Call
from statewright.workflow.states.nodes import NodeResources

KIND = "summarize_conversation_node"


def test_2_10_a_model_summarizes_the_history(run: Callable[..., Any], call_with: Callable[..., Call]) -> None:
    model = ScriptedModel(["in short"])
    call = call_with(history=[Message("do it"), Message("done", role="assistant")], prompt="In one line.")
    outcome = run(KIND, None, call, NodeResources(state_id="own", find_model=lambda name: model))
    assert (outcome.output, outcome.calls) == ("in short", 1)
    assert model.requests[0].messages[0].text == "In one line.\n\nuser: do it\n\nassistant: done"


def test_2_9_a_long_history_is_summarized_in_parts(run: Callable[..., Any], call_with: Callable[..., Call]) -> None:
    model = ScriptedModel(["one", "two"])
    long = "x" * 300_000
    outcome = run(
        KIND,
        None,
        call_with(history=[Message(long), Message(long)]),
        NodeResources(state_id="own", find_model=lambda name: model),
    )
    assert (outcome.output, outcome.calls) == ("one\n\ntwo", 2)


def test_an_empty_history_needs_no_model(run: Callable[..., Any]) -> None:
    assert run(KIND).output == ""


def test_the_error_for_a_missing_model_names_the_state(run: Callable[..., Any], call_with: Callable[..., Call]) -> None:
    with pytest.raises(ModelError, match="State 'own'"):
        run(KIND, None, call_with(history=[Message("x")]))


def test_settings_without_effect_are_warnings(faults_of: Any) -> None:
    assert faults_of(KIND, {"length": 3}) == [(("config", "length"), False)]
