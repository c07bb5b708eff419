"""Properties of all strategies, for any conversation."""

import asyncio
import copy
from collections.abc import Callable, Sequence
from itertools import chain
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.work import examples

from statewright.agents.memory import Buffer, KeepAll, MemoryStrategy, Retrieval, SlidingWindow, Summarizing
from statewright.agents.memory.summaries import is_summary
from statewright.messages import Message, ToolCall
from statewright.models import ScriptedModel

IDS = ("a", "b", "c")


def letters(texts: Sequence[str]) -> list[list[float]]:
    """Embed texts by counting a few letters."""
    return [[float(text.count(letter)) for letter in "xyz "] for text in texts]


STRATEGIES: dict[str, Callable[[], MemoryStrategy]] = {
    "keep all": KeepAll,
    "window": lambda: SlidingWindow(4),
    "window of one": lambda: SlidingWindow(1),
    "buffer": lambda: Buffer(max_messages=5, max_tokens=20),
    "buffer with summaries": lambda: Buffer(max_messages=4, summarize=ScriptedModel(lambda _: "summary")),
    "summarizing": lambda: Summarizing(ScriptedModel(lambda _: "summary"), keep=2, after=5),
    "retrieval": lambda: Retrieval(letters, top_k=2, keep=3),
}

texts = st.text("xyz ", max_size=8)
calls = st.lists(st.sampled_from(IDS), min_size=1, max_size=3, unique=True).map(
    lambda ids: tuple(ToolCall(call_id, "tool", {}) for call_id in ids)
)
message = st.one_of(
    st.builds(Message, texts, role=st.sampled_from(("user", "assistant", "system"))),
    st.builds(Message, texts, role=st.just("assistant"), tool_calls=calls),
    st.builds(Message, texts, role=st.just("tool"), tool_call_id=st.sampled_from(IDS)),
)


@st.composite
def exchanges(draw: st.DrawFn) -> list[Message]:
    """Draw a call and all its results, in any order."""
    tool_calls = draw(calls)
    order = draw(st.permutations([call.id for call in tool_calls]))
    results = [Message(draw(texts), role="tool", tool_call_id=call_id) for call_id in order]
    return [Message(draw(texts), role="assistant", tool_calls=tool_calls), *results]


conversations = st.lists(st.one_of(message.map(lambda drawn: [drawn]), exchanges()), max_size=14).map(
    lambda parts: [Message(f"{n} {message.text}", **fields(message)) for n, message in enumerate(chain(*parts))]
)


def fields(message: Message) -> dict[str, Any]:
    return {"role": message.role, "tool_calls": message.tool_calls, "tool_call_id": message.tool_call_id}


def position(message: Message) -> int:
    return int(message.text.split(" ")[0])


def selected(strategy: MemoryStrategy, messages: Sequence[Message]) -> list[Message]:
    return list(asyncio.run(strategy.select(messages)))


def check_calls_and_results(sent: Sequence[Message]) -> None:
    """Check that each result follows its call, and that each call has a result."""
    unanswered: dict[str, Message] = {}
    open_calls: dict[int, set[str]] = {}
    for message in sent:
        for call in message.tool_calls:
            unanswered[call.id] = message
        if message.tool_calls:
            open_calls[id(message)] = {call.id for call in message.tool_calls}
        if message.role == "tool":
            assert message.tool_call_id in unanswered, f"the result {message.text!r} has no call"
            open_calls[id(unanswered[message.tool_call_id])].discard(message.tool_call_id)
    assert not any(open_calls.values()), "a call has no result"


@pytest.mark.parametrize("name", STRATEGIES)
@given(messages=conversations)
@settings(max_examples=examples(80), deadline=None)
def test_selected_messages_are_valid_and_in_order(name: str, messages: list[Message]) -> None:
    before = copy.deepcopy(messages)
    sent = [message for message in selected(STRATEGIES[name](), messages) if not is_summary(message)]
    assert messages == before
    check_calls_and_results(sent)
    assert [position(message) for message in sent] == sorted({position(message) for message in sent})
    assert all(any(message is other for other in messages) for message in sent)


@pytest.mark.parametrize("name", STRATEGIES)
@given(messages=conversations)
@settings(max_examples=examples(80), deadline=None)
def test_first_system_messages_and_the_last_user_message_are_kept(name: str, messages: list[Message]) -> None:
    sent = selected(STRATEGIES[name](), messages)
    head = next((n for n, message in enumerate(messages) if message.role != "system"), len(messages))
    assert sent[:head] == messages[:head]
    user_messages = [message for message in messages if message.role == "user"]
    assert not user_messages or any(message is user_messages[-1] for message in sent)


@pytest.mark.parametrize("name", STRATEGIES)
@given(messages=conversations)
@settings(max_examples=examples(40), deadline=None)
def test_the_last_call_and_its_results_are_kept(name: str, messages: list[Message]) -> None:
    call = Message(f"{len(messages)} ", role="assistant", tool_calls=(ToolCall("last", "tool", {}),))
    result = Message(f"{len(messages) + 1} ", role="tool", tool_call_id="last")
    assert selected(STRATEGIES[name](), [*messages, call, result])[-2:] == [call, result]


@pytest.mark.parametrize("name", STRATEGIES)
@given(messages=conversations)
@settings(max_examples=examples(30), deadline=None)
def test_selections_of_a_growing_conversation_are_valid(name: str, messages: list[Message]) -> None:
    strategy = STRATEGIES[name]()
    for length in range(len(messages) + 1):
        check_calls_and_results(selected(strategy, messages[:length]))


@pytest.mark.parametrize("kind", ["buffer", "summarizing"])
@given(messages=conversations)
@settings(max_examples=examples(60), deadline=None)
def test_omitted_messages_are_summarized(kind: str, messages: list[Message]) -> None:
    model = ScriptedModel(lambda _: "summary")
    strategy = Buffer(4, summarize=model) if kind == "buffer" else Summarizing(model, keep=2, after=5)
    sent = selected(strategy, messages)
    summarized = "\n".join(request.messages[0].text for request in model.requests)
    for message in selected(KeepAll(), messages):
        assert any(message is other for other in sent) or message.text in summarized
    assert any(map(is_summary, sent)) == bool(model.requests)
