"""The scope of a task: ordinals, keys, copies, slots and signs of life."""

import contextvars
import threading
import types
from collections.abc import Callable, Generator
from contextlib import AbstractContextManager
from typing import Any, cast

import pytest

from statewright import START
from statewright.errors import InvalidUpdateError
from statewright.runtime.invocation.attempt import Attempt
from statewright.runtime.invocation.limits import Slots
from statewright.runtime.lifecycle.subgraph_call import begin_call
from statewright.runtime.tasks import scope as module
from statewright.runtime.tasks.scope import Scope, current_scope, enter_scope, leave_scope, part_of_attempt
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
    assert [scope.numbering().new_ordinal(name) for name in ("charge", "mail", "charge")] == [0, 0, 1]
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
def test_another_task_or_attempt_resets_ordinals_and_keys(scope: Any, make: Any, change: str) -> None:
    for use in (Scope.next_question, next_call_label):
        use(scope, None)
        use(scope, "k")
    scope.numbering().new_ordinal("charge")
    if change == "another task":
        scope.task = make.task("a", position=1)
    else:
        scope.begin_attempt(Attempt(2, FakeClock()))

    assert (scope.next_question(None), scope.next_question("k")) == (0, "k")
    assert (next_call_label(scope, None), next_call_label(scope, "k")) == ("", "k")
    assert scope.numbering().new_ordinal("charge") == 0


def test_a_copy_keeps_its_task_and_attempt(scope: Any, make: Any) -> None:
    attempt, task = Attempt(1, FakeClock()), scope.task
    scope.begin_attempt(attempt)
    copy = scope.pinned_copy()
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
        sibling = scope.enter_sibling(cast(Any, object()), make.task("b"), 3)
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


class RecordingSlots(Slots):
    """A limit of one slot, which is occupied, and records when it is overdrawn."""

    def __init__(self) -> None:
        super().__init__(0)
        self.overdrawn = threading.Event()

    def overdraw(self) -> None:
        super().overdraw()
        self.overdrawn.set()


def test_slots_that_a_resume_has_acquired_again_are_not_lost_when_the_task_waits_once_more(scope: Any) -> None:
    first, second = RecordingSlots(), RecordingSlots()
    scope.held_slots = first, second
    scope.suspend_slots()
    assert scope.end_wait() == (first, second)
    for acquired in (first, second):  # before the second slot is free, and after it, another child is called
        scope.held_slots = (acquired,)
        scope.suspend_slots()
    assert scope.end_wait() == ()
    assert scope.end_wait() == (first, second)


def test_an_attempt_does_not_acquire_the_slots_that_the_previous_one_has_released(scope: Any) -> None:
    first, second = RecordingSlots(), RecordingSlots()
    for number, slots in enumerate((first, second), start=1):
        scope.begin_attempt(Attempt(number, FakeClock()))
        scope.held_slots = (slots,)
        scope.suspend_slots()
    assert scope.end_wait() == ()  # the wait of the first attempt
    assert scope.end_wait() == (second,)


@types.coroutine
def pause() -> Generator[None]:
    yield


@pytest.mark.parametrize(
    "enter",
    [lambda scope: part_of_attempt(), lambda scope: scope.enter_step((scope.task.id, "charge", 0))],
    ids=["part_of_attempt", "enter_step"],
)
def test_closing_a_coroutine_in_another_context_takes_no_lock_and_accounts_for_released_slots(
    scope: Any, enter: Callable[[Scope], AbstractContextManager[Any]]
) -> None:
    slots = RecordingSlots()
    scope.held_slots = (slots,)

    async def work() -> None:
        with enter(scope):
            cast(Scope, current_scope()).suspend_slots()
            await pause()

    coroutine, context = work(), contextvars.copy_context()
    context.run(enter_scope, scope)
    context.run(coroutine.send, None)
    errors: list[BaseException] = []

    def close() -> None:
        try:
            coroutine.close()
        except BaseException as error:
            errors.append(error)

    closing = threading.Thread(target=close, daemon=True)
    with module._slots_lock:  # pyright: ignore[reportPrivateUsage]  # as if a finaliser interrupted its holder
        closing.start()
        closing.join(10)
        assert not closing.is_alive()
    assert (errors, slots.overdrawn.wait(10)) == ([], True)
