"""Who does the work of each state."""

from typing import Any

import pytest

from statewright.errors import InvalidConfig, ModelError
from statewright.models import ScriptedModel
from statewright.workflow.states import load_workflow
from statewright.workflow.states.handlers.assistant import AssistantStateHandler
from statewright.workflow.states.handlers.scripted import ScriptedStateHandler
from statewright.workflow.states.resources.chat_models import NamedModel
from statewright.workflow.states.resources.handler_factory import HandlerFactory

TEXT = """
assistants:
- {id: a, system_prompt: p, model: fast}
- {id: b, system_prompt: p}
tools: [{id: t, tool: anything}]
states:
- {id: s, assistant_id: a, next: {state_id: e}}
- {id: e, assistant_id: b, next: {state_id: t1}}
- {id: t1, tool_id: t, next: {state_id: end}}
"""
DEFINITION = load_workflow(TEXT).definition
A, B = DEFINITION.assistants


def behind(model: Any) -> Any:
    """What was given, where it was found by its name."""
    assert isinstance(model, NamedModel)
    return model.model


def test_a_script_comes_before_tools_and_stands_in_for_models() -> None:
    resources = HandlerFactory(DEFINITION, script={"t1": "ok", "s": "ok"})
    kinds = [type(resources.make_handler(state)) for state in DEFINITION.states]
    assert kinds == [AssistantStateHandler, AssistantStateHandler, ScriptedStateHandler]


def test_head_nothing_has_to_be_there_before_it_is_called() -> None:
    kinds = [type(HandlerFactory(DEFINITION).make_handler(state)) for state in DEFINITION.states]
    assert kinds.count(AssistantStateHandler) == 2
    assert ScriptedStateHandler not in kinds


def test_a_model_is_found_by_assistant_then_by_model_then_as_default() -> None:
    one, two, three = (ScriptedModel([]) for _ in range(3))
    found = HandlerFactory(DEFINITION, models={"a": one, "fast": two, "default": three})
    assert behind(found.model_for("s", A)) is one
    assert behind(HandlerFactory(DEFINITION, models={"fast": two, "default": three}).model_for("s", A)) is two
    assert found.model_for("e", B) is three
    assert HandlerFactory(DEFINITION, models=one).model_for("e", B) is one


@pytest.mark.parametrize("models", [None, {"other": ScriptedModel([])}])
def test_a_model_that_is_missing_says_which_state_wants_one(models: Any) -> None:
    with pytest.raises(ModelError, match="'s' needs a model"):
        load_workflow(TEXT).compile(models=models).invoke({})


def test_2_9_who_sums_up_at_the_end() -> None:
    model = ScriptedModel([])
    off = load_workflow(f"enable_summarization_node: false\n{TEXT}").definition
    assert HandlerFactory(DEFINITION, models=model).summarizer is model
    assert behind(HandlerFactory(DEFINITION, models={"fast": model}).summarizer) is model
    assert HandlerFactory(DEFINITION, script={"final_summary": "x"}).summarizer is not None
    for nobody in (
        HandlerFactory(off, models=model),
        HandlerFactory(DEFINITION),
        HandlerFactory(DEFINITION, script={"s": "x"}),
    ):
        assert nobody.summarizer is None


def test_a_script_that_names_no_state_is_refused() -> None:
    with pytest.raises(InvalidConfig, match="'nobody'"):
        HandlerFactory(DEFINITION, script={"nobody": "x"})
