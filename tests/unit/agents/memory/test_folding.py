"""Summaries of older units."""

import asyncio
from collections.abc import Sequence
from typing import Any

from statewright.agents.memory.conversation import read_conversation
from statewright.agents.memory.strategy import NO_CONTEXT
from statewright.agents.memory.windows import SummarizingWindow
from statewright.messages import Message
from statewright.models import ScriptedModel


def selected(window: SummarizingWindow, messages: Sequence[Message], start: int, most: int) -> str:
    sent = asyncio.run(
        window.select(
            read_conversation(messages),
            fits=lambda units: len(units) <= most,
            start=lambda _: start,
            context=NO_CONTEXT,
        )
    )
    return " ".join(message.text.removeprefix("Summary of the conversation up to here:\n") for message in sent)


def test_a_conversation_that_fits_is_sent_completely(conversation_of: Any) -> None:
    assert (
        selected(SummarizingWindow(ScriptedModel([])), conversation_of("s1 u1 a1 u2"), start=2, most=3) == "s1 u1 a1 u2"
    )


def test_the_last_user_message_is_sent_in_addition_to_the_summary(conversation_of: Any) -> None:
    window = SummarizingWindow(ScriptedModel(["S"]))
    assert selected(window, conversation_of("u1 c1 r1 c2 r2 c3 r3"), start=3, most=4) == "S u1 c3 r3"


def test_units_that_cannot_be_summarized_are_sent_even_over_the_limit(conversation_of: Any) -> None:
    assert selected(SummarizingWindow(ScriptedModel([])), conversation_of("u1 a1"), start=0, most=1) == "u1 a1"


def test_the_summary_is_a_marked_user_message(conversation_of: Any) -> None:
    sent = asyncio.run(
        SummarizingWindow(ScriptedModel(["S"])).select(
            read_conversation(conversation_of("u1 a1 u2")), fits=lambda _: False, start=lambda _: 2, context=NO_CONTEXT
        )
    )
    assert (sent[0].role, sent[0].metadata) == ("user", {"summary": 2})
