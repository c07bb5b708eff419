"""The scope of a task: counters, keys, copies and signs of life."""

from typing import Any

import pytest

from statewright import START
from statewright.errors import InvalidUpdateError
from statewright.runtime.invocation.attempt import Attempt
from statewright.runtime.lifecycle.subgraph_call import begin_call
from statewright.runtime.tasks.scope import Scope, current_scope, enter_scope, leave_scope
from statewright.testing import FakeClock


def next_call_label(scope: Scope, key: str | None) -> str:
    """Return the part of its namespace that distinguishes the next subgraph call from others of its task."""
    assert scope.task is not None
    namespace = begin_call(scope, object(), options={"call_key": key}).namespace
    return namespace.removeprefix(f"{scope.task.node}:{scope.task.id}").removeprefix(":")


@pytest.fixture
def scope(make: Any) -> Any:
    run = make.run(make.program(make.graph("a").add_edge(START, "a")))
    return make.scope(run, make.task("a"), make.checkpoint())


def test_questions_without_keys_are_numbered(scope: Any) -> None:
    assert [scope.next_question(key) for key in (None, "k", None, "l", None)] == [0, "k", 1, "l", 2]


def test_steps_are_numbered_by_name_and_separately_from_questions(scope: Any) -> None:
    assert [scope.next_position(name) for name in ("charge", "mail", "charge")] == [0, 0, 1]
    assert scope.next_question(None) == 0


def test_subgraph_calls_without_keys_are_numbered_from_the_second(scope: Any) -> None:
    assert [next_call_label(scope, key) for key in (None, None, "k", None)] == ["", "#1", "k", "#2"]


@pytest.mark.parametrize(
    ("use_key", "description"), [(Scope.next_question, "interrupt key 'k'"), (next_call_label, "call_key 'k'")]
)
def test_using_a_key_twice_in_a_task_is_refused(scope: Any, use_key: Any, description: str) -> None:
    use_key(scope, "k")

    with pytest.raises(InvalidUpdateError, match=f"Node 'a' used the {description} twice"):
        use_key(scope, "k")


def test_a_question_and_a_call_can_have_the_same_key(scope: Any) -> None:
    assert (scope.next_question("k"), next_call_label(scope, "k")) == ("k", "k")


@pytest.mark.parametrize("change", ["another task", "another attempt"])
def test_another_task_or_attempt_resets_counters_and_keys(scope: Any, make: Any, change: str) -> None:
    for use in (Scope.next_question, next_call_label):
        use(scope, None)
        use(scope, "k")
    scope.next_position("charge")
    if change == "another task":
        scope.task = make.task("a", position=1)
    else:
        scope.begin_attempt(Attempt(2, FakeClock()))

    assert (scope.next_question(None), scope.next_question("k")) == (0, "k")
    assert (next_call_label(scope, None), next_call_label(scope, "k")) == ("", "k")
    assert scope.next_position("charge") == 0


def test_a_copy_keeps_its_task_and_attempt(scope: Any, make: Any) -> None:
    attempt, task = Attempt(1, FakeClock()), scope.task
    scope.begin_attempt(attempt)
    copy = scope.copy()
    scope.task = make.task("b")
    scope.begin_attempt(Attempt(1, FakeClock()))

    assert copy.task is task
    assert copy.attempt is attempt


def test_a_scope_is_abandoned_with_its_attempt(scope: Any) -> None:
    attempt = Attempt(1, FakeClock())

    assert not scope.abandoned
    scope.begin_attempt(attempt)
    assert not scope.abandoned
    attempt.abandoned = True
    assert scope.abandoned
    scope.begin_attempt(Attempt(2, FakeClock()))
    assert not scope.abandoned


def test_leaving_a_scope_restores_the_previous_one(scope: Any) -> None:
    before = current_scope()
    token = enter_scope(scope)
    within = current_scope()
    leave_scope(token)

    assert (before, within, current_scope()) == (None, scope, None)


def test_enter_sibling_enters_a_separate_scope(scope: Any, make: Any) -> None:
    token = enter_scope(scope)
    try:
        sibling = scope.enter_sibling(make.task("b"), 3)
        entered = current_scope()
    finally:
        leave_scope(token)

    assert entered is sibling is not scope
    assert (sibling.task.node, sibling.index, sibling.run, sibling.checkpoint) == ("b", 3, scope.run, scope.checkpoint)


@pytest.mark.parametrize(
    ("heartbeat_only", "signal", "idle_since"),
    [(False, None, 10.0), (False, "other", 15.0), (False, "beat", 15.0), (True, "other", 10.0), (True, "beat", 15.0)],
)
def test_idle_since_is_the_time_of_the_last_sign_of_life(
    scope: Any, heartbeat_only: bool, signal: str | None, idle_since: float
) -> None:
    clock = FakeClock()
    clock.advance(10)
    attempt, begin = Attempt(1, clock, heartbeat_only=heartbeat_only), clock.monotonic()
    scope.begin_attempt(attempt)
    clock.advance(5)
    if signal == "beat":
        attempt.beat()
    elif signal == "other":
        scope.reset_idle_timeout()
    clock.advance(5)

    assert attempt.idle_since(begin) == idle_since
