"""`RunControl`: draining and cancelling runs."""

import signal
import threading
from contextlib import ExitStack
from typing import Any

import pytest

from statewright import RunControl, StateGraph
from statewright.errors import RunCancelled


def test_a_new_control_has_no_requests() -> None:
    control = RunControl()

    assert not control.drain_requested
    assert not control.cancel_requested


@pytest.mark.parametrize("kind", ["drain", "cancel"])
@pytest.mark.parametrize("reason", ["because", ""])
def test_a_request_has_its_reason(kind: str, reason: str) -> None:
    control = RunControl()
    getattr(control, f"request_{kind}")(reason)

    assert getattr(control, f"{kind}_requested")
    assert getattr(control, f"{kind}_reason") == reason
    assert (control.drain_requested, control.cancel_requested) == (kind == "drain", kind == "cancel")


def test_cancelling_calls_the_callbacks_in_order() -> None:
    control, calls = RunControl(), list[str]()
    with control.on_cancel(lambda: calls.append("outer")), control.on_cancel(lambda: calls.append("inner")):
        assert calls == []
        control.request_cancel()

    assert calls == ["outer", "inner"]


def test_draining_calls_no_callback() -> None:
    control, calls = RunControl(), list[str]()
    with control.on_cancel(lambda: calls.append("called")):
        control.request_drain()

    assert calls == []


def test_a_callback_added_after_cancelling_is_called_at_once() -> None:
    control, calls = RunControl(), list[str]()
    control.request_cancel()
    with control.on_cancel(lambda: calls.append("called")):
        assert calls == ["called"]


@pytest.mark.parametrize("fails", [True, False])
def test_a_callback_is_not_called_after_its_block(fails: bool) -> None:
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


def test_a_callback_can_cancel_again() -> None:
    control, calls = RunControl(), list[Any]()

    def cancel_again() -> None:
        calls.append("called")
        if len(calls) == 1:
            control.request_cancel("again")

    with control.on_cancel(cancel_again):
        control.request_cancel("first")

    assert calls == ["called", "called"]
    assert control.cancel_reason == "again"


def test_a_control_has_stopped_outside_all_blocks() -> None:
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


def test_an_error_of_a_callback_whose_block_has_ended_is_ignored() -> None:
    """Its event loop may already be closed."""
    control, seen = RunControl(), list[str]()
    blocks = ExitStack()

    def close_and_fail() -> None:
        blocks.close()
        raise RuntimeError("Event loop is closed")

    blocks.enter_context(control.on_cancel(close_and_fail))
    with control.on_cancel(lambda: seen.append("called")):
        control.request_cancel()
    assert seen == ["called"]


def test_an_error_of_a_callback_in_its_block_is_raised() -> None:
    control = RunControl()

    def fail() -> None:
        raise RuntimeError("broken")

    with control.on_cancel(fail), pytest.raises(RuntimeError, match="broken"):
        control.request_cancel()


def test_a_signal_handler_can_cancel_a_run() -> None:
    """Even if the interrupted thread holds a lock: the handler runs at various points of waiting runs."""
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
