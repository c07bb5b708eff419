"""What the next superstep runs, read off a checkpoint."""

from typing import Any

import pytest

from statewright.checkpoint import DeferredTask, Interrupt, Pending, Task, TaskResult
from statewright.ids import InterruptId
from statewright.runtime.core.frontier import due_tasks, matches_breakpoint


def question(name: str) -> Interrupt:
    return Interrupt(id=InterruptId(name), value="?")


def landed(task: Task) -> Pending:
    return Pending(completed={task.id: TaskResult(task, {}, ())})


def asked(task: Task, *names: str, answers: tuple[str, ...] = ()) -> Pending:
    return Pending(
        interrupts={task.id: tuple(question(name) for name in names)},
        answers={InterruptId(name): "yes" for name in answers},
    )


def test_without_anything_pending_the_whole_frontier_is_due_in_its_order(make: Any) -> None:
    frontier = (*make.tasks("z", "a"), make.task("w", {"x": 1}, position=2))

    assert due_tasks(make.checkpoint(frontier=frontier), Pending()) == frontier


@pytest.mark.parametrize(
    ("known", "is_due"),
    [
        (landed, False),
        (lambda task: asked(task, "q"), False),
        (lambda task: asked(task, "q", answers=("q",)), True),
        (lambda task: asked(task, "q", answers=("another",)), False),
        (lambda task: asked(task, "q", "r", answers=("q",)), False),
        (lambda task: asked(task, "q", "r", answers=("r", "q")), True),
        (lambda task: Pending(errors={task.id: "ValueError"}, attempts={task.id: 2}), True),
    ],
    ids=["landed", "asks", "answered", "answered to another", "one of two answered", "both answered", "failed"],
)
def test_what_is_known_of_a_task_decides_whether_it_is_due(make: Any, known: Any, is_due: bool) -> None:
    first, second, third = make.tasks("a", "b", "c")

    due = due_tasks(make.checkpoint(frontier=(first, second, third)), known(second))

    assert due == ((first, second, third) if is_due else (first, third))


def test_two_tasks_of_one_node_are_told_apart(make: Any) -> None:
    first, second = make.task("w", 1, position=0), make.task("w", 2, position=1)

    assert due_tasks(make.checkpoint(frontier=(first, second)), landed(first)) == (second,)


def test_planning_twice_gives_the_same_tasks_and_ids(make: Any) -> None:
    checkpoint = make.checkpoint(frontier=make.tasks("a", "b"))
    once, again = due_tasks(checkpoint, Pending()), due_tasks(checkpoint, Pending())

    assert [task.id for task in once] == [task.id for task in again]
    assert len({task.id for task in once}) == 2


def test_held_tasks_are_not_due(make: Any) -> None:
    held = [DeferredTask(make.task("late"))]

    assert due_tasks(make.checkpoint(frontier=make.tasks("a"), held=held), Pending()) == make.tasks("a")


@pytest.mark.parametrize(
    ("names", "nodes", "found"),
    [
        ({"a"}, ["a", "b"], True),
        ({"c"}, ["a", "b"], False),
        ({"c", "b"}, ["a", "b"], True),
        ({"*"}, ["a"], True),
        ({"*"}, [], False),
        ({"*"}, ["a:error_handler"], False),
        ({"*"}, ["a:error_handler", "b"], True),
        (set(), ["a"], False),
    ],
)
def test_a_breakpoint_names_tasks_or_all_that_users_added(
    make: Any, names: set[str], nodes: list[str], found: bool
) -> None:
    assert matches_breakpoint(frozenset(names), make.tasks(*nodes)) is found
