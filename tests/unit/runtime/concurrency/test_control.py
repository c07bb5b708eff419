"""Asking a run to stop."""

import signal
import threading
from contextlib import ExitStack
from typing import Any

import pytest

from statewright import RunControl, StateGraph
from statewright.errors import RunCancelled


def test_nothing_is_asked_at_first() -> None:
    control = RunControl()

    assert not control.drain_requested
    assert not control.cancel_requested


@pytest.mark.parametrize("what", ["drain", "cancel"])
@pytest.mark.parametrize("reason", ["because", ""])
def test_a_request_is_kept_with_its_reason(what: str, reason: str) -> None:
    control = RunControl()
    getattr(control, f"request_{what}")(reason)

    assert getattr(control, f"{what}_requested")
    assert getattr(control, f"{what}_reason") == reason
    assert (control.drain_requested, control.cancel_requested) == (what == "drain", what == "cancel")


def test_those_who_run_are_called_back_when_the_run_is_cancelled() -> None:
    control, calls = RunControl(), list[str]()
    with control.on_cancel(lambda: calls.append("outer")), control.on_cancel(lambda: calls.append("inner")):
        assert calls == []
        control.request_cancel()

    assert calls == ["outer", "inner"]


def test_draining_calls_nobody_back() -> None:
    control, calls = RunControl(), list[str]()
    with control.on_cancel(lambda: calls.append("called")):
        control.request_drain()

    assert calls == []


def test_who_begins_after_the_run_was_cancelled_is_called_back_at_once() -> None:
    control, calls = RunControl(), list[str]()
    control.request_cancel()
    with control.on_cancel(lambda: calls.append("called")):
        assert calls == ["called"]


@pytest.mark.parametrize("fails", [True, False])
def test_who_is_done_is_not_called_back(fails: bool) -> None:
    control, calls = RunControl(), list[str]()

    def work() -> None:
        with control.on_cancel(lambda: calls.append("called")):
            if fails:
                raise ValueError

    try:
        work()
    except ValueError:
        assert fails
    control.request_cancel()

    assert calls == []


def test_a_callback_may_cancel_again() -> None:
    control, calls = RunControl(), list[Any]()

    def again() -> None:
        calls.append("called")
        if len(calls) == 1:
            control.request_cancel("again")

    with control.on_cancel(again):
        control.request_cancel("first")

    assert calls == ["called", "called"]
    assert control.cancel_reason == "again"


def test_nothing_is_under_way_before_anybody_runs_and_after_all_are_done() -> None:
    control = RunControl()
    seen = [control.has_stopped]
    with control.on_cancel(list):
        seen.append(control.has_stopped)
        with control.on_cancel(dict):
            seen.append(control.has_stopped)
        seen.append(control.has_stopped)
    seen.append(control.has_stopped)
    control.wait_until_stopped()  # returns at once

    assert seen == [True, False, False, False, True]


def test_a_block_that_ends_while_its_run_is_cancelled_is_not_in_the_way() -> None:
    """Its event loop may be closed by then."""
    control, seen = RunControl(), list[str]()
    blocks = ExitStack()

    def closes() -> None:
        blocks.close()
        raise RuntimeError("Event loop is closed")

    blocks.enter_context(control.on_cancel(closes))
    with control.on_cancel(lambda: seen.append("called")):
        control.request_cancel()
    assert seen == ["called"]


def test_what_goes_wrong_within_a_block_is_raised() -> None:
    control = RunControl()

    def fails() -> None:
        raise RuntimeError("broken")

    with control.on_cancel(fails), pytest.raises(RuntimeError, match="broken"):
        control.request_cancel()


def test_a_run_is_cancelled_in_a_signal_handler() -> None:
    """Whatever lock the interrupted thread holds: the handler runs at many places of waiting runs."""
    control = RunControl()
    before = signal.signal(signal.SIGALRM, lambda *_: control.request_cancel("signal"))
    released = threading.Event()
    graph = StateGraph(dict[str, Any])
    for name in "ab":
        graph.add_node(name, lambda state: released.wait() and None)
        graph.add_edge("__start__", name)
    app = graph.compile()
    try:
        for delay in range(1, 20):
            control = RunControl()
            signal.setitimer(signal.ITIMER_REAL, delay / 1000)
            with pytest.raises(RunCancelled):
                app.invoke({}, control=control)
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
        released.set()
