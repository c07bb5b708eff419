"""Summaries, each of which is requested once."""

import asyncio
from typing import Any

import pytest

from statewright.agents.memory.conversation import read_conversation
from statewright.agents.memory.strategy import NO_CONTEXT, MemoryContext
from statewright.agents.memory.summaries import Summaries, Summary, is_summary
from statewright.errors import ModelUnavailable
from statewright.messages import Message, ToolCall
from statewright.models import ModelRequest, ModelResponse, ScriptedModel


class SlowModel:
    """A model that answers after a short time."""

    def __init__(self) -> None:
        self.calls = 0

    async def complete(self, request: ModelRequest) -> ModelResponse:
        self.calls += 1
        await asyncio.sleep(0.01)
        return ModelResponse(Message(f"S{self.calls}", role="assistant"))


def units(conversation_of: Any, words: str) -> Any:
    return read_conversation(conversation_of(words)).units


def summarize(summaries: Summaries, of: Any, context: MemoryContext = NO_CONTEXT) -> Summary:
    return asyncio.run(summaries.summarize(of, context))


def test_the_same_beginning_is_summarized_once(conversation_of: Any) -> None:
    model = ScriptedModel(["S", "longer"])
    summaries = Summaries(model)
    assert summaries.find_longest(units(conversation_of, "u1 a1"), NO_CONTEXT) == Summary(0)
    assert (
        summarize(summaries, units(conversation_of, "u1 a1"))
        == summarize(summaries, units(conversation_of, "u1 a1"))
        == Summary(2, "S")
    )
    assert summaries.find_longest(units(conversation_of, "u1 a1 u2"), NO_CONTEXT) == Summary(2, "S")
    assert summaries.find_longest(units(conversation_of, "u9 a1 u2"), NO_CONTEXT) == Summary(0)
    assert summarize(summaries, units(conversation_of, "u1 a1 u2")) == Summary(3, "longer")
    assert len(model.requests) == 2


def test_concurrent_requests_share_one_summary(conversation_of: Any) -> None:
    async def ask() -> list[Summary]:
        return await asyncio.gather(
            *(summaries.summarize(units(conversation_of, "u1 a1"), NO_CONTEXT) for _ in range(20))
        )

    model = SlowModel()
    summaries = Summaries(model)
    assert asyncio.run(ask()) == [Summary(2, "S1")] * 20
    assert model.calls == 1


def test_cancelling_one_request_does_not_cancel_the_others(conversation_of: Any) -> None:
    async def ask() -> Summary:
        first = asyncio.create_task(summaries.summarize(units(conversation_of, "u1 a1"), NO_CONTEXT))
        second = asyncio.create_task(summaries.summarize(units(conversation_of, "u1 a1"), NO_CONTEXT))
        await asyncio.sleep(0)
        first.cancel()
        return await second

    summaries = Summaries(SlowModel())
    assert asyncio.run(ask()).unit_count == 2


def test_ids_of_messages_are_ignored(conversation_of: Any) -> None:
    summaries = Summaries(ScriptedModel(["S"]))
    summarize(summaries, [(Message("x", id="1"),)])
    assert summaries.find_longest([(Message("x", id="2"),)], NO_CONTEXT) == Summary(1, "S")
    assert summaries.find_longest([(Message("x", role="assistant"),)], NO_CONTEXT) == Summary(0)


def test_calls_and_results_are_sent_to_the_model(conversation_of: Any) -> None:
    model = ScriptedModel(["S"])
    summarize(Summaries(model, "Be short."), units(conversation_of, "u1 c1 r1"))
    assert model.requests[0].system == "Be short."
    assert model.requests[0].messages[0].text == (
        'Conversation:\nuser: u1\nassistant: c1\nassistant calls look {"at": "1"}\ntool: r1'
    )


def test_long_conversations_are_summarized_in_parts() -> None:
    model = ScriptedModel(lambda request: f"S{len(model.requests)}")
    summary = summarize(Summaries(model), [(Message(str(n) * 60_000),) for n in range(3)])
    assert summary == Summary(3, "S3")
    assert model.requests[2].messages[0].text.startswith("Summary of what came before:\nS2\n\nConversation:\nuser: 222")


def test_on_response_receives_the_responses_of_summaries(conversation_of: Any) -> None:
    responses: list[ModelResponse] = []
    summarize(
        Summaries(ScriptedModel(["S"])), units(conversation_of, "u1"), MemoryContext(on_response=responses.append)
    )
    assert [response.text for response in responses] == ["S"]


INVALID_ANSWERS = [
    ModelResponse(Message(" \n", role="assistant")),
    ModelResponse(Message("I cannot help with that.", role="assistant"), finish_reason="refused"),
    ModelResponse(Message("They spoke of", role="assistant"), finish_reason="length"),
    ModelResponse(Message("Let me look.", role="assistant", tool_calls=(ToolCall("1", "look"),))),
]


@pytest.mark.parametrize("answer", INVALID_ANSWERS, ids=["empty", "refused", "length", "call"])
def test_an_invalid_answer_is_not_used_as_a_summary(answer: ModelResponse, conversation_of: Any) -> None:
    notes: dict[str, Any] = {}
    of = units(conversation_of, "u1 a1")
    summaries = Summaries(ScriptedModel([answer, "S"]))
    assert summarize(summaries, of, MemoryContext(notes=notes)) == Summary(0)
    assert summaries.find_longest(of, NO_CONTEXT) == Summary(0)
    assert notes == {}
    assert summarize(summaries, of, MemoryContext(notes=notes)) == Summary(2, "S")


def test_parts_before_an_invalid_answer_are_kept() -> None:
    notes: dict[str, Any] = {}
    of = [(Message(str(n) * 60_000),) for n in range(3)]
    assert summarize(Summaries(ScriptedModel(["S1", "S2", " "])), of, MemoryContext(notes=notes)) == Summary(2, "S2")
    assert Summaries(ScriptedModel([])).find_longest(of, MemoryContext(notes=notes)) == Summary(2, "S2")


@pytest.mark.parametrize("notes", [None, {}])
def test_a_failure_is_recorded_for_its_turn(notes: Any, conversation_of: Any) -> None:
    summaries, context = Summaries(ScriptedModel([])), MemoryContext(notes=notes)
    summaries.record_failure(units(conversation_of, "u1 a1 u2"), context)
    assert summaries.has_failed(units(conversation_of, "u1 a1 u2"), context)
    assert not summaries.has_failed(units(conversation_of, "u1 a1 u3"), context)
    assert not summaries.has_failed([], context)


def test_a_summary_is_requested_again_after_an_error(conversation_of: Any) -> None:
    summaries = Summaries(ScriptedModel([ModelUnavailable("busy"), "S"]))
    with pytest.raises(ModelUnavailable):
        summarize(summaries, units(conversation_of, "u1"))
    assert summarize(summaries, units(conversation_of, "u1")) == Summary(1, "S")


def test_summaries_are_distinguished_from_other_messages() -> None:
    assert is_summary(Summary(1, "S").to_message())
    assert not is_summary(Message("S"))
    assert not is_summary(Message("S", metadata={"x": 1}))
