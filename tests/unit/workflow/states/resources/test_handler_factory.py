"""The handlers of states."""

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


def unwrap(model: Any) -> Any:
    """Return the model behind a name."""
    assert isinstance(model, NamedModel)
    return model.model


def test_a_script_takes_precedence_over_tools_and_replaces_models() -> None:
    resources = HandlerFactory(DEFINITION, script={"t1": "ok", "s": "ok"})
    kinds = [type(resources.make_handler(state)) for state in DEFINITION.states]
    assert kinds == [AssistantStateHandler, AssistantStateHandler, ScriptedStateHandler]


def test_head_resources_are_not_needed_before_a_call() -> None:
    kinds = [type(HandlerFactory(DEFINITION).make_handler(state)) for state in DEFINITION.states]
    assert kinds.count(AssistantStateHandler) == 2
    assert ScriptedStateHandler not in kinds


def test_models_are_found_by_assistant_then_by_name_then_as_default() -> None:
    one, two, three = (ScriptedModel([]) for _ in range(3))
    factory = HandlerFactory(DEFINITION, models={"a": one, "fast": two, "default": three})
    assert unwrap(factory.find_model("s", A)) is one
    assert unwrap(HandlerFactory(DEFINITION, models={"fast": two, "default": three}).find_model("s", A)) is two
    assert factory.find_model("e", B) is three
    assert HandlerFactory(DEFINITION, models=one).find_model("e", B) is one


@pytest.mark.parametrize("models", [None, {"other": ScriptedModel([])}])
def test_the_error_for_a_missing_model_names_the_state(models: Any) -> None:
    with pytest.raises(ModelError, match="'s' needs a model"):
        load_workflow(TEXT).compile(models=models).invoke({})


def test_2_9_the_final_summary_needs_a_model_or_a_script() -> None:
    model = ScriptedModel([])
    off = load_workflow(f"enable_summarization_node: false\n{TEXT}").definition
    assert HandlerFactory(DEFINITION, models=model).summarizer is model
    assert unwrap(HandlerFactory(DEFINITION, models={"fast": model}).summarizer) is model
    assert HandlerFactory(DEFINITION, script={"final_summary": "x"}).summarizer is not None
    for factory in (
        HandlerFactory(off, models=model),
        HandlerFactory(DEFINITION),
        HandlerFactory(DEFINITION, script={"s": "x"}),
    ):
        assert factory.summarizer is None


def test_a_script_for_an_unknown_state_is_rejected() -> None:
    with pytest.raises(InvalidConfig, match="'nobody'"):
        HandlerFactory(DEFINITION, script={"nobody": "x"})
