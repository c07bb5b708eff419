"""The turns nearest to the question, and the last messages."""

from collections.abc import Sequence
from itertools import chain
from typing import Any

import pytest

from statewright.agents.memory import Retrieval
from statewright.errors import InvalidConfig
from statewright.messages import Message
from statewright.store import Index, InMemoryStore

WORDS = ("cats", "dogs", "ships")


def embed(texts: Sequence[str]) -> list[list[float]]:
    return [[float(text.count(word)) for word in WORDS] for text in texts]


@pytest.fixture
def messages() -> list[Message]:
    """Return turns about animals and ships, and a question."""
    pairs = [("cats", "soft"), ("dogs", "loud"), ("ships", "wet"), ("weather", "fine"), ("dogs again", "")]
    turns = [[Message(question), Message(answer, role="assistant")] for question, answer in pairs]
    return [Message("sys", role="system"), *list(chain(*turns))[:-1]]


def test_the_nearest_turn_is_sent_whole_before_the_last_messages(selected_words: Any, messages: list[Message]) -> None:
    assert selected_words(Retrieval(embed, top_k=1, keep=1), messages) == "sys dogs loud dogs again"
    assert selected_words(Retrieval(embed, top_k=1, keep=3), messages) == "sys dogs loud weather fine dogs again"


def test_turns_are_sent_in_their_order(selected_words: Any, messages: list[Message]) -> None:
    retrieval = Retrieval(embed, top_k=2, keep=1)
    assert selected_words(retrieval, messages, query="ships, ships and cats") == "sys cats soft ships wet dogs again"


def test_a_short_conversation_is_sent_without_a_search(selected_words: Any, conversation_of: Any) -> None:
    def fail(texts: Sequence[str]) -> list[list[float]]:
        raise AssertionError("the embedding function was called")

    assert selected_words(Retrieval(fail), conversation_of("s1 u1 a1 u2")) == "s1 u1 a1 u2"


def test_single_units_of_the_current_turn_are_found(selected_words: Any) -> None:
    steps = [Message(text, role="assistant") for text in ("cats", "dogs", "ships", "end")]
    assert selected_words(Retrieval(embed, top_k=1, keep=2), [Message("about dogs"), *steps]) == "about dogs dogs end"


def test_a_store_can_search_for_turns(selected_words: Any, messages: list[Message]) -> None:
    store = InMemoryStore(index=Index(dims=3, embed=embed, fields=("text",)))
    with_store, with_store_of_run = Retrieval(store=store, top_k=1, keep=1), Retrieval(top_k=1, keep=1)
    assert selected_words(with_store, messages, thread_id="a.b") == "sys dogs loud dogs again"
    assert store.list_namespaces() == [("memory", "a_b")]
    assert selected_words(with_store_of_run, messages, store=store) == "sys dogs loud dogs again"


def test_a_missing_or_double_search_is_refused(selected_words: Any, messages: list[Message]) -> None:
    with pytest.raises(InvalidConfig, match=r"Retrieval\(embed=\.\.\.\)"):
        selected_words(Retrieval(keep=1), messages)
    with pytest.raises(InvalidConfig, match="one of them"):
        Retrieval(embed, store=InMemoryStore())
