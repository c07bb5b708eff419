"""Flows yield effects and receive their outcomes."""

from __future__ import annotations

from typing import Any

import pytest

from statewright.client.call import get, read_data
from statewright.client.flow import ConnectionLost, Flow, Open, Read, Send, Sleep, Yield, advance

CALL = get("/x", read_data)


def flow_with_fallback() -> Flow[str]:
    try:
        answer: Any = yield Send(CALL)
    except ConnectionLost as lost:
        answer = yield Sleep(float(str(lost)))
    return f"came: {answer}"


def test_a_flow_receives_the_outcomes_of_its_effects() -> None:
    flow = flow_with_fallback()
    assert next(flow) == Send(CALL)
    with pytest.raises(StopIteration) as end:
        advance(flow, "well")
    assert end.value.value == "came: well"


def test_a_broken_connection_is_raised_in_the_flow() -> None:
    flow = flow_with_fallback()
    next(flow)
    assert advance(flow, ConnectionLost("2.5")) == Sleep(2.5)
    with pytest.raises(StopIteration) as end:
        advance(flow, None)
    assert end.value.value == "came: None"


def test_an_unhandled_broken_connection_reaches_the_driver() -> None:
    def flow_without_fallback() -> Flow[None]:
        yield Send(CALL)

    flow = flow_without_fallback()
    next(flow)
    with pytest.raises(ConnectionLost, match="reset"):
        advance(flow, ConnectionLost("reset"))


def test_effects_are_immutable_values() -> None:
    assert (Send(CALL), Open(CALL), Sleep(1), Yield([1])) == (Send(CALL), Open(CALL, None), Sleep(1.0), Yield([1]))
    assert len({Read(), Read(), Sleep(1), Sleep(2), Yield(1)}) == 4
    with pytest.raises(AttributeError):
        Sleep(1).seconds = 2  # type: ignore[misc]
