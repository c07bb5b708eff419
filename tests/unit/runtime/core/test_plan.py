"""The due tasks of a checkpoint, and breakpoints."""

from typing import Any

import pytest

from statewright.checkpoint import DeferredTask, Interrupt, Pending, Task, TaskResult
from statewright.ids import InterruptId
from statewright.runtime.core.frontier import due_tasks, matches_breakpoint


def question(name: str) -> Interrupt:
    return Interrupt(id=InterruptId(name), value="?")


def with_result(task: Task) -> Pending:
    return Pending(completed={task.id: TaskResult(task, {}, ())})


def with_questions(task: Task, *names: str, answers: tuple[str, ...] = ()) -> Pending:
    return Pending(
        interrupts={task.id: tuple(question(name) for name in names)},
        answers={InterruptId(name): "yes" for name in answers},
    )


def test_without_pending_writes_the_whole_frontier_is_due_in_order(make: Any) -> None:
    frontier = (*make.tasks("z", "a"), make.task("w", {"x": 1}, position=2))

    assert due_tasks(make.checkpoint(frontier=frontier), Pending()) == frontier


@pytest.mark.parametrize(
    ("pending_of", "is_due"),
    [
        (with_result, False),
        (lambda task: with_questions(task, "q"), False),
        (lambda task: with_questions(task, "q", answers=("q",)), True),
        (lambda task: with_questions(task, "q", answers=("another",)), False),
        (lambda task: with_questions(task, "q", "r", answers=("q",)), False),
        (lambda task: with_questions(task, "q", "r", answers=("r", "q")), True),
        (lambda task: Pending(errors={task.id: "ValueError"}, attempts={task.id: 2}), True),
    ],
    ids=[
        "with_result",
        "with open question",
        "answered",
        "answered to another",
        "one of two answered",
        "both answered",
        "failed",
    ],
)
def test_a_task_is_due_unless_it_has_a_result_or_open_questions(make: Any, pending_of: Any, is_due: bool) -> None:
    first, second, third = make.tasks("a", "b", "c")

    due = due_tasks(make.checkpoint(frontier=(first, second, third)), pending_of(second))

    assert due == ((first, second, third) if is_due else (first, third))


def test_two_tasks_of_one_node_are_distinguished(make: Any) -> None:
    first, second = make.task("w", 1, position=0), make.task("w", 2, position=1)

    assert due_tasks(make.checkpoint(frontier=(first, second)), with_result(first)) == (second,)


def test_planning_again_returns_the_same_tasks(make: Any) -> None:
    checkpoint = make.checkpoint(frontier=make.tasks("a", "b"))
    first_plan, second_plan = due_tasks(checkpoint, Pending()), due_tasks(checkpoint, Pending())

    assert [task.id for task in first_plan] == [task.id for task in second_plan]
    assert len({task.id for task in first_plan}) == 2


def test_deferred_tasks_are_not_due(make: Any) -> None:
    held = [DeferredTask(make.task("late"))]

    assert due_tasks(make.checkpoint(frontier=make.tasks("a"), held=held), Pending()) == make.tasks("a")


@pytest.mark.parametrize(
    ("names", "nodes", "expected"),
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
def test_a_breakpoint_matches_nodes_by_name_or_all_but_error_handlers(
    make: Any, names: set[str], nodes: list[str], expected: bool
) -> None:
    assert matches_breakpoint(frozenset(names), make.tasks(*nodes)) is expected
