"""Summaries, each made once."""

import asyncio
from typing import Any

import pytest

from statewright.agents.memory.conversation import read_conversation
from statewright.agents.memory.strategy import NO_CONTEXT, MemoryContext
from statewright.agents.memory.summaries import Summaries, Summary, is_summary
from statewright.errors import ModelUnavailable
from statewright.messages import Message, ToolCall
from statewright.models import ModelRequest, ModelResponse, ScriptedModel


class Slow:
    """Answers after the others had their turn."""

    def __init__(self) -> None:
        self.asked = 0

    async def complete(self, request: ModelRequest) -> ModelResponse:
        self.asked += 1
        await asyncio.sleep(0.01)
        return ModelResponse(Message(f"S{self.asked}", role="assistant"))


def units(talk: Any, words: str) -> Any:
    return read_conversation(talk(words)).units


def made(summaries: Summaries, of: Any, context: MemoryContext = NO_CONTEXT) -> Summary:
    return asyncio.run(summaries.summary(of, context))


def test_the_same_beginning_is_summarised_once(talk: Any) -> None:
    model = ScriptedModel(["S", "longer"])
    summaries = Summaries(model)
    assert summaries.longest(units(talk, "u1 a1"), NO_CONTEXT) == Summary(0)
    assert made(summaries, units(talk, "u1 a1")) == made(summaries, units(talk, "u1 a1")) == Summary(2, "S")
    assert summaries.longest(units(talk, "u1 a1 u2"), NO_CONTEXT) == Summary(2, "S")
    assert summaries.longest(units(talk, "u9 a1 u2"), NO_CONTEXT) == Summary(0)
    assert made(summaries, units(talk, "u1 a1 u2")) == Summary(3, "longer")
    assert len(model.requests) == 2


def test_those_who_ask_at_once_share_one(talk: Any) -> None:
    async def ask() -> list[Summary]:
        return await asyncio.gather(*(summaries.summary(units(talk, "u1 a1"), NO_CONTEXT) for _ in range(20)))

    model = Slow()
    summaries = Summaries(model)
    assert asyncio.run(ask()) == [Summary(2, "S1")] * 20
    assert model.asked == 1


def test_one_who_gives_up_does_not_take_it_from_the_others(talk: Any) -> None:
    async def ask() -> Summary:
        first = asyncio.create_task(summaries.summary(units(talk, "u1 a1"), NO_CONTEXT))
        second = asyncio.create_task(summaries.summary(units(talk, "u1 a1"), NO_CONTEXT))
        await asyncio.sleep(0)
        first.cancel()
        return await second

    summaries = Summaries(Slow())
    assert asyncio.run(ask()).units == 2


def test_ids_of_messages_do_not_count(talk: Any) -> None:
    summaries = Summaries(ScriptedModel(["S"]))
    made(summaries, [(Message("x", id="1"),)])
    assert summaries.longest([(Message("x", id="2"),)], NO_CONTEXT) == Summary(1, "S")
    assert summaries.longest([(Message("x", role="assistant"),)], NO_CONTEXT) == Summary(0)


def test_calls_and_results_are_told_to_the_model(talk: Any) -> None:
    model = ScriptedModel(["S"])
    made(Summaries(model, "Be short."), units(talk, "u1 c1 r1"))
    assert model.requests[0].system == "Be short."
    assert model.requests[0].messages[0].text == (
        'Conversation:\nuser: u1\nassistant: c1\nassistant calls look {"at": "1"}\ntool: r1'
    )


def test_very_much_is_summarised_in_pieces() -> None:
    model = ScriptedModel(lambda request: f"S{len(model.requests)}")
    summary = made(Summaries(model), [(Message(str(n) * 60_000),) for n in range(3)])
    assert summary == Summary(3, "S3")
    assert model.requests[2].messages[0].text.startswith("Summary of what came before:\nS2\n\nConversation:\nuser: 222")


def test_somebody_may_count_what_it_costs(talk: Any) -> None:
    responses: list[ModelResponse] = []
    made(Summaries(ScriptedModel(["S"])), units(talk, "u1"), MemoryContext(on_response=responses.append))
    assert [response.text for response in responses] == ["S"]


NO_SUMMARIES = [
    ModelResponse(Message(" \n", role="assistant")),
    ModelResponse(Message("I cannot help with that.", role="assistant"), finish_reason="refused"),
    ModelResponse(Message("They spoke of", role="assistant"), finish_reason="length"),
    ModelResponse(Message("Let me look.", role="assistant", tool_calls=(ToolCall("1", "look"),))),
]


@pytest.mark.parametrize("answer", NO_SUMMARIES, ids=["empty", "refused", "length", "call"])
def test_an_answer_that_is_no_summary_is_not_taken(answer: ModelResponse, talk: Any) -> None:
    notes: dict[str, Any] = {}
    of = units(talk, "u1 a1")
    summaries = Summaries(ScriptedModel([answer, "S"]))
    assert made(summaries, of, MemoryContext(notes=notes)) == Summary(0)
    assert summaries.longest(of, NO_CONTEXT) == Summary(0)
    assert notes == {}
    assert made(summaries, of, MemoryContext(notes=notes)) == Summary(2, "S")


def test_the_pieces_before_one_that_is_no_summary_are_kept() -> None:
    notes: dict[str, Any] = {}
    of = [(Message(str(n) * 60_000),) for n in range(3)]
    assert made(Summaries(ScriptedModel(["S1", "S2", " "])), of, MemoryContext(notes=notes)) == Summary(2, "S2")
    assert Summaries(ScriptedModel([])).longest(of, MemoryContext(notes=notes)) == Summary(2, "S2")


@pytest.mark.parametrize("notes", [None, {}])
def test_a_failure_is_noted_for_its_turn(notes: Any, talk: Any) -> None:
    summaries, context = Summaries(ScriptedModel([])), MemoryContext(notes=notes)
    summaries.record_failure(units(talk, "u1 a1 u2"), context)
    assert summaries.has_failed(units(talk, "u1 a1 u2"), context)
    assert not summaries.has_failed(units(talk, "u1 a1 u3"), context)
    assert not summaries.has_failed([], context)


def test_after_an_error_the_model_is_asked_again(talk: Any) -> None:
    summaries = Summaries(ScriptedModel([ModelUnavailable("busy"), "S"]))
    with pytest.raises(ModelUnavailable):
        made(summaries, units(talk, "u1"))
    assert made(summaries, units(talk, "u1")) == Summary(1, "S")


def test_summaries_are_told_from_other_messages() -> None:
    assert is_summary(Summary(1, "S").to_message())
    assert not is_summary(Message("S"))
    assert not is_summary(Message("S", metadata={"x": 1}))
