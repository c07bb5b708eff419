"""2.9: the summary at the end of a run."""

from typing import Any

from statewright.messages import Message
from statewright.models import ModelResponse, ScriptedModel, Usage
from statewright.workflow.states import load_workflow

TEXT = """
assistants: [{id: a, system_prompt: p}]
states:
- {id: s, assistant_id: a, next: {state_id: e, include_in_llm_history: false}}
- {id: e, assistant_id: a, next: {state_id: end}}
"""


def answer_state(request: Any) -> Any:
    state = request.metadata["state"]
    return ModelResponse(Message(state, role="assistant"), Usage(1, 1), "m")


def test_2_9_the_final_summary_is_requested_once_with_the_history_of_the_run() -> None:
    model = ScriptedModel(answer_state)
    result = load_workflow(TEXT).compile(models=model).invoke({"input": "hi"})
    *_, last = model.requests
    assert [request.metadata["state"] for request in model.requests] == ["s", "e", "final_summary"]
    assert [message.text for message in last.messages][:-1] == ["hi", "e"]
    assert last.messages[-1].role == "user"
    assert last.system
    assert result["result"] == "final_summary"


def test_head_the_final_summary_is_not_a_visit() -> None:
    result = load_workflow(TEXT).compile(models=ScriptedModel(answer_state)).invoke({"input": "hi"})
    assert [visit["state"] for visit in result["visits"]] == ["s", "e"]
    assert [message.text for message in result["messages"]] == ["hi", "e"]
    assert result["context"] == {}
