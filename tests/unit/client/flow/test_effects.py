"""Conversations as data: what they need is told, and what came of it is told to them."""

from __future__ import annotations

from typing import Any

import pytest

from statewright.client.call import get, read_data
from statewright.client.flow.effects import ConnectionLost, Flow, Open, Read, Send, Sleep, Yield, advance

CALL = get("/x", read_data)


def talks() -> Flow[str]:
    try:
        answer: Any = yield Send(CALL)
    except ConnectionLost as lost:
        answer = yield Sleep(float(str(lost)))
    return f"came: {answer}"


def test_a_conversation_is_sent_what_came_of_what_it_needed() -> None:
    flow = talks()
    assert next(flow) == Send(CALL)
    with pytest.raises(StopIteration) as end:
        advance(flow, "well")
    assert end.value.value == "came: well"


def test_a_broken_connection_is_raised_where_it_was_needed() -> None:
    flow = talks()
    next(flow)
    assert advance(flow, ConnectionLost("2.5")) == Sleep(2.5)
    with pytest.raises(StopIteration) as end:
        advance(flow, None)
    assert end.value.value == "came: None"


def test_what_a_conversation_does_not_mend_goes_to_who_drives_it() -> None:
    def mends_nothing() -> Flow[None]:
        yield Send(CALL)

    flow = mends_nothing()
    next(flow)
    with pytest.raises(ConnectionLost, match="reset"):
        advance(flow, ConnectionLost("reset"))


def test_needs_are_values() -> None:
    assert (Send(CALL), Open(CALL), Sleep(1), Yield([1])) == (Send(CALL), Open(CALL, None), Sleep(1.0), Yield([1]))
    assert len({Read(), Read(), Sleep(1), Sleep(2), Yield(1)}) == 4
    with pytest.raises(AttributeError):
        Sleep(1).seconds = 2  # type: ignore[misc]
