"""Pausing from inside a node, with the scope of the node entered by hand."""

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from statewright import START, interrupt, sleep, wait_for_event
from statewright.checkpoint import Interrupt
from statewright.errors import InvalidUpdateError
from statewright.ids import is_interrupt_id
from statewright.runtime.tasks.interrupt import Paused
from statewright.runtime.tasks.scope import enter_scope, leave_scope
from statewright.testing import FakeClock

NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)
Calls = Callable[[], Any]


class Execution:
    """Executions of one task, each as from its first line."""

    def __init__(self, make: Any, clock: FakeClock) -> None:
        self.make = make
        self.clock = clock
        program = make.program(make.graph("a").add_edge(START, "a"))
        self.run = make.run(program, clock=clock)

    def of(self, calls: Calls, task: Any = None) -> Any:
        """What the calls give, or the question at which they stop."""
        token = enter_scope(self.make.scope(self.run, task or self.make.task("a"), self.make.checkpoint()))
        try:
            return calls()
        except Paused as paused:
            (question,) = paused.interrupts
            return question
        finally:
            leave_scope(token)


@pytest.fixture
def clock() -> FakeClock:
    return FakeClock(NOON)


@pytest.fixture
def execute(make: Any, clock: FakeClock) -> Execution:
    return Execution(make, clock)


@pytest.mark.parametrize(
    ("call", "described"),
    [
        (lambda: interrupt("ok?"), {"kind": "question", "value": "ok?"}),
        (lambda: interrupt(None), {"kind": "question", "value": None}),
        (lambda: interrupt("ok?", schema=bool), {"kind": "question", "value": "ok?", "schema": bool}),
        (lambda: interrupt("ok?", timeout=60), {"value": "ok?", "due_at": NOON + timedelta(minutes=1)}),
        (lambda: sleep(90), {"kind": "timer", "value": None, "due_at": NOON + timedelta(seconds=90)}),
        (lambda: sleep(timedelta(hours=1)), {"kind": "timer", "due_at": NOON + timedelta(hours=1)}),
        (lambda: sleep(0), {"kind": "timer", "due_at": NOON}),
        (lambda: sleep(until=NOON + timedelta(days=1)), {"kind": "timer", "due_at": NOON + timedelta(days=1)}),
        (lambda: wait_for_event("paid"), {"kind": "event", "event": "paid", "due_at": None}),
        (lambda: wait_for_event("paid", schema=int), {"kind": "event", "event": "paid", "schema": int}),
        (lambda: wait_for_event("paid", timeout=5), {"kind": "event", "due_at": NOON + timedelta(seconds=5)}),
    ],
)
def test_the_first_call_stops_the_node_and_says_what_it_waits_for(
    execute: Execution, call: Calls, described: dict[str, Any]
) -> None:
    question = execute.of(call)

    assert isinstance(question, Interrupt)
    assert is_interrupt_id(question.id)
    assert {name: getattr(question, name) for name in described} == described


@pytest.mark.parametrize("call", [lambda: interrupt("?"), lambda: wait_for_event("paid")])
@pytest.mark.parametrize("answer", ["yes", None, 0, {"a": 1}])
def test_a_call_that_was_answered_returns_the_answer(execute: Execution, call: Calls, answer: Any) -> None:
    execute.run.answers[execute.of(call).id] = answer

    assert execute.of(call) == answer


def test_a_sleep_that_is_over_returns(execute: Execution) -> None:
    execute.run.answers[execute.of(lambda: sleep(5)).id] = None

    assert execute.of(lambda: sleep(5)) is None


def test_several_questions_are_told_apart_by_their_order(execute: Execution) -> None:
    def both() -> Any:
        return interrupt("first"), interrupt("second")

    first = execute.of(both)
    execute.run.answers[first.id] = 1
    second = execute.of(both)
    execute.run.answers[second.id] = 2

    assert (first.value, second.value) == ("first", "second")
    assert execute.of(both) == (1, 2)


def test_questions_with_keys_are_found_again_in_another_order(execute: Execution) -> None:
    one, other = execute.of(lambda: interrupt("?", key="one")), execute.of(lambda: interrupt("?", key="other"))
    execute.run.answers.update({one.id: 1, other.id: 2})

    assert execute.of(lambda: (interrupt("?", key="other"), interrupt("?", key="one"))) == (2, 1)


def test_a_key_is_no_ordinal(execute: Execution) -> None:
    assert execute.of(lambda: interrupt("?", key="0")).id != execute.of(lambda: interrupt("?")).id


def test_all_kinds_count_as_questions_of_one_task(execute: Execution) -> None:
    ids = {execute.of(call).id for call in (lambda: interrupt("?"), lambda: sleep(1), lambda: wait_for_event("e"))}

    assert len(ids) == 1


def test_the_id_of_a_question_stays_the_same_and_differs_from_task_to_task(execute: Execution, make: Any) -> None:
    def ask() -> Any:
        return interrupt("?")

    here, again = execute.of(ask).id, execute.of(ask).id

    assert here == again != execute.of(ask, make.task("a", position=1)).id


@pytest.mark.parametrize("call", [lambda: sleep(60), lambda: interrupt("?", timeout=60)])
def test_being_executed_again_does_not_put_the_end_of_a_wait_off(
    execute: Execution, clock: FakeClock, call: Calls
) -> None:
    first = execute.of(call)
    execute.run.known_interrupts = {first.id: first}
    clock.advance(30)

    assert execute.of(call).due_at == first.due_at == NOON + timedelta(seconds=60)


@pytest.mark.parametrize(
    ("call", "reason"),
    [
        (lambda: sleep(), "Pass exactly one of them"),
        (lambda: sleep(1, until=NOON), "Pass exactly one of them"),
        (lambda: sleep(until=datetime(2026, 1, 1)), "no time zone"),
        (lambda: sleep(-1), "must not be negative"),
        (lambda: interrupt("?", timeout=-1), "must not be negative"),
        (lambda: wait_for_event("paid", timeout=timedelta(seconds=-1)), "must not be negative"),
        (lambda: wait_for_event(""), "an empty name"),
    ],
)
def test_what_cannot_be_waited_for(execute: Execution, call: Calls, reason: str) -> None:
    with pytest.raises(InvalidUpdateError, match=reason):
        execute.of(call)


def test_a_key_is_used_once_by_a_task(execute: Execution) -> None:
    execute.run.answers[execute.of(lambda: interrupt("?", key="k")).id] = "yes"

    with pytest.raises(InvalidUpdateError, match="'k' twice"):
        execute.of(lambda: (interrupt("?", key="k"), interrupt("?", key="k")))


@pytest.mark.parametrize(
    ("call", "name"),
    [
        (lambda: interrupt("?"), r"interrupt\(\)"),
        (lambda: sleep(1), r"sleep\(\)"),
        (lambda: wait_for_event("e"), r"wait_for_event\(\)"),
    ],
)
def test_outside_a_node_nobody_can_wait(call: Calls, name: str) -> None:
    with pytest.raises(InvalidUpdateError, match=f"{name} was called outside a node"):
        call()


def test_the_signal_is_no_error(execute: Execution) -> None:
    def careless() -> str:
        try:
            return interrupt("?")
        except Exception:
            return "swallowed"

    assert isinstance(execute.of(careless), Interrupt)
