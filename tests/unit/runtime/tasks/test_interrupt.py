"""Pausing inside a node: questions, timers and events."""

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
Action = Callable[[], Any]


class Execution:
    """Executes actions in the scope of a task, each time from the start."""

    def __init__(self, make: Any, clock: FakeClock) -> None:
        self.make = make
        self.clock = clock
        program = make.program(make.graph("a").add_edge(START, "a"))
        self.run = make.run(program, clock=clock)

    def call(self, action: Action, task: Any = None) -> Any:
        """Return the result of an action, or the question at which it pauses."""
        token = enter_scope(self.make.scope(self.run, task or self.make.task("a"), self.make.checkpoint()))
        try:
            return action()
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
    ("action", "expected"),
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
def test_the_first_call_pauses_the_node_with_its_question(
    execute: Execution, action: Action, expected: dict[str, Any]
) -> None:
    question = execute.call(action)

    assert isinstance(question, Interrupt)
    assert is_interrupt_id(question.id)
    assert {name: getattr(question, name) for name in expected} == expected


@pytest.mark.parametrize("action", [lambda: interrupt("?"), lambda: wait_for_event("paid")])
@pytest.mark.parametrize("answer", ["yes", None, 0, {"a": 1}])
def test_an_answered_call_returns_the_answer(execute: Execution, action: Action, answer: Any) -> None:
    execute.run.answers[execute.call(action).id] = answer

    assert execute.call(action) == answer


def test_a_finished_sleep_returns(execute: Execution) -> None:
    execute.run.answers[execute.call(lambda: sleep(5)).id] = None

    assert execute.call(lambda: sleep(5)) is None


def test_questions_are_identified_by_their_order(execute: Execution) -> None:
    def both() -> Any:
        return interrupt("first"), interrupt("second")

    first = execute.call(both)
    execute.run.answers[first.id] = 1
    second = execute.call(both)
    execute.run.answers[second.id] = 2

    assert (first.value, second.value) == ("first", "second")
    assert execute.call(both) == (1, 2)


def test_questions_with_keys_can_change_their_order(execute: Execution) -> None:
    first, second = execute.call(lambda: interrupt("?", key="one")), execute.call(lambda: interrupt("?", key="other"))
    execute.run.answers.update({first.id: 1, second.id: 2})

    assert execute.call(lambda: (interrupt("?", key="other"), interrupt("?", key="one"))) == (2, 1)


def test_a_key_differs_from_a_number(execute: Execution) -> None:
    assert execute.call(lambda: interrupt("?", key="0")).id != execute.call(lambda: interrupt("?")).id


def test_all_kinds_of_questions_share_one_numbering(execute: Execution) -> None:
    ids = {
        execute.call(action).id for action in (lambda: interrupt("?"), lambda: sleep(1), lambda: wait_for_event("e"))
    }

    assert len(ids) == 1


def test_the_id_of_a_question_is_stable_and_unique_to_its_task(execute: Execution, make: Any) -> None:
    def ask() -> Any:
        return interrupt("?")

    first, repeated = execute.call(ask).id, execute.call(ask).id

    assert first == repeated != execute.call(ask, make.task("a", position=1)).id


@pytest.mark.parametrize("action", [lambda: sleep(60), lambda: interrupt("?", timeout=60)])
def test_executing_a_task_again_does_not_move_the_due_time(
    execute: Execution, clock: FakeClock, action: Action
) -> None:
    first = execute.call(action)
    execute.run.known_interrupts = {first.id: first}
    clock.advance(30)

    assert execute.call(action).due_at == first.due_at == NOON + timedelta(seconds=60)


@pytest.mark.parametrize(
    ("action", "reason"),
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
def test_invalid_arguments_are_refused(execute: Execution, action: Action, reason: str) -> None:
    with pytest.raises(InvalidUpdateError, match=reason):
        execute.call(action)


def test_using_a_key_twice_in_a_task_is_refused(execute: Execution) -> None:
    execute.run.answers[execute.call(lambda: interrupt("?", key="k")).id] = "yes"

    with pytest.raises(InvalidUpdateError, match="'k' twice"):
        execute.call(lambda: (interrupt("?", key="k"), interrupt("?", key="k")))


@pytest.mark.parametrize(
    ("action", "name"),
    [
        (lambda: interrupt("?"), r"interrupt\(\)"),
        (lambda: sleep(1), r"sleep\(\)"),
        (lambda: wait_for_event("e"), r"wait_for_event\(\)"),
    ],
)
def test_pausing_outside_a_node_is_refused(action: Action, name: str) -> None:
    with pytest.raises(InvalidUpdateError, match=f"{name} was called outside a node"):
        action()


def test_a_pause_is_not_caught_as_an_exception(execute: Execution) -> None:
    def catch_exceptions() -> str:
        try:
            return interrupt("?")
        except Exception:
            return "swallowed"

    assert isinstance(execute.call(catch_exceptions), Interrupt)
