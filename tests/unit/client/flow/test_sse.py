"""Event streams, cut anywhere."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from statewright.client.follow import EventStreamParser, ServerSentEvent

TEXT = (
    '\ufeffevent: STEP\r\ndata: {"a":1}\r\nid: 7\r\n\r\n'
    ": still here\n\n"
    "data: grün\ndata:two\r\r"
    "id: 8\ndata\n\n"
    "event: x\n\n"
)
MESSAGES = [
    ServerSentEvent("STEP", '{"a":1}', "7"),
    ServerSentEvent("message", "grün\ntwo", "7"),
    ServerSentEvent("message", "", "8"),
]


@given(st.lists(st.integers(min_value=0, max_value=len(TEXT.encode())), max_size=20))
def test_it_does_not_matter_where_the_bytes_are_cut(cuts: list[int]) -> None:
    content, parser = TEXT.encode(), EventStreamParser()
    positions = [0, *sorted(cuts), len(content)]
    messages = [message for begin, end in pairwise(positions) for message in parser.feed(content[begin:end])]
    assert messages == MESSAGES


def test_byte_by_byte() -> None:
    parser = EventStreamParser()
    assert [message for byte in TEXT.encode() for message in parser.feed(bytes([byte]))] == MESSAGES


@pytest.mark.parametrize("text", ["data: begun", "data: begun\n", "event: x\nid: 3\n\n", ": note\n\n", "", "\r\n\n"])
def test_incomplete_events_are_not_messages(text: str) -> None:
    assert list(EventStreamParser().feed(text.encode())) == []


def test_an_id_with_a_nul_is_ignored() -> None:
    assert list(EventStreamParser().feed(b"id: 1\0\ndata: x\n\n")) == [ServerSentEvent("message", "x", None)]
