"""What one execution of a task counts, and what is renewed with it."""

from typing import Any

import pytest

from statewright import START
from statewright.errors import InvalidUpdateError
from statewright.runtime.invocation.attempt import Attempt
from statewright.runtime.lifecycle.subgraph_call import begin_call
from statewright.runtime.tasks.scope import Scope, current_scope, enter_scope, leave_scope
from statewright.testing import FakeClock


def label_of_call(scope: Scope, key: str | None) -> str:
    """What tells the next subgraph call from the others of its task."""
    assert scope.task is not None
    namespace = begin_call(scope, object(), options={"call_key": key}).namespace
    return namespace.removeprefix(f"{scope.task.node}:{scope.task.id}").removeprefix(":")


@pytest.fixture
def scope(make: Any) -> Any:
    run = make.run(make.program(make.graph("a").add_edge(START, "a")))
    return make.scope(run, make.task("a"), make.checkpoint())


def test_questions_are_counted_and_keys_are_not(scope: Any) -> None:
    assert [scope.next_question(key) for key in (None, "k", None, "l", None)] == [0, "k", 1, "l", 2]


def test_steps_are_counted_by_name_and_apart_from_questions(scope: Any) -> None:
    assert [scope.next_position(name) for name in ("charge", "mail", "charge")] == [0, 0, 1]
    assert scope.next_question(None) == 0


def test_calls_of_subgraphs_are_counted_from_the_second(scope: Any) -> None:
    assert [label_of_call(scope, key) for key in (None, None, "k", None)] == ["", "#1", "k", "#2"]


@pytest.mark.parametrize(
    ("take", "named"), [(Scope.next_question, "interrupt key 'k'"), (label_of_call, "call_key 'k'")]
)
def test_a_key_is_used_once_by_a_task(scope: Any, take: Any, named: str) -> None:
    take(scope, "k")

    with pytest.raises(InvalidUpdateError, match=f"Node 'a' used the {named} twice"):
        take(scope, "k")


def test_a_key_of_a_question_may_be_that_of_a_call(scope: Any) -> None:
    assert (scope.next_question("k"), label_of_call(scope, "k")) == ("k", "k")


@pytest.mark.parametrize("renewal", ["another task", "another attempt"])
def test_counts_and_keys_begin_anew(scope: Any, make: Any, renewal: str) -> None:
    for take in (Scope.next_question, label_of_call):
        take(scope, None)
        take(scope, "k")
    scope.next_position("charge")
    if renewal == "another task":
        scope.task = make.task("a", position=1)
    else:
        scope.begin_attempt(Attempt(2, FakeClock()))

    assert (scope.next_question(None), scope.next_question("k")) == (0, "k")
    assert (label_of_call(scope, None), label_of_call(scope, "k")) == ("", "k")
    assert scope.next_position("charge") == 0


def test_a_copy_stays_with_its_task_and_attempt(scope: Any, make: Any) -> None:
    attempt, task = Attempt(1, FakeClock()), scope.task
    scope.begin_attempt(attempt)
    copy = scope.copy()
    scope.task = make.task("b")
    scope.begin_attempt(Attempt(1, FakeClock()))

    assert copy.task is task
    assert copy.attempt is attempt


def test_an_execution_is_abandoned_with_its_attempt(scope: Any) -> None:
    attempt = Attempt(1, FakeClock())

    assert not scope.abandoned
    scope.begin_attempt(attempt)
    assert not scope.abandoned
    attempt.abandoned = True
    assert scope.abandoned
    scope.begin_attempt(Attempt(2, FakeClock()))
    assert not scope.abandoned


def test_entering_is_undone_by_leaving(scope: Any) -> None:
    before = current_scope()
    token = enter_scope(scope)
    within = current_scope()
    leave_scope(token)

    assert (before, within, current_scope()) == (None, scope, None)


def test_a_task_beside_others_has_a_scope_of_its_own(scope: Any, make: Any) -> None:
    token = enter_scope(scope)
    try:
        sibling = scope.enter_sibling(make.task("b"), 3)
        entered = current_scope()
    finally:
        leave_scope(token)

    assert entered is sibling is not scope
    assert (sibling.task.node, sibling.index, sibling.run, sibling.checkpoint) == ("b", 3, scope.run, scope.checkpoint)


@pytest.mark.parametrize(
    ("heartbeat_only", "sign", "idle_since"),
    [(False, None, 10.0), (False, "other", 15.0), (False, "beat", 15.0), (True, "other", 10.0), (True, "beat", 15.0)],
)
def test_since_when_an_attempt_has_given_no_sign_of_life(
    scope: Any, heartbeat_only: bool, sign: str | None, idle_since: float
) -> None:
    clock = FakeClock()
    clock.advance(10)
    attempt, begin = Attempt(1, clock, heartbeat_only=heartbeat_only), clock.monotonic()
    scope.begin_attempt(attempt)
    clock.advance(5)
    if sign == "beat":
        attempt.beat()
    elif sign == "other":
        scope.reset_idle_timeout()
    clock.advance(5)

    assert attempt.idle_since(begin) == idle_since
