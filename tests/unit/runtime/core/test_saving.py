"""The saved form of checkpoints."""

from typing import Annotated, Any, TypedDict

import pytest

from statewright import START
from statewright.channels import Ephemeral, Untracked
from statewright.checkpoint import DeferredTask
from statewright.runtime.core.commit import saved_form

HANDLE = object()


class Fields(TypedDict, total=False):
    x: int
    signal: Annotated[str, Ephemeral()]
    handle: Annotated[Any, Untracked()]


@pytest.fixture
def program(make: Any) -> Any:
    return make.program(make.graph("a", schema=Fields).add_edge(START, "a"))


def test_a_checkpoint_without_untracked_values_is_not_copied(make: Any) -> None:
    checkpoint = make.checkpoint({"x": 1}, make.tasks("a"))

    assert saved_form(make.program(make.graph("a").add_edge(START, "a")), checkpoint) is checkpoint


def test_only_untracked_values_are_omitted(make: Any, program: Any) -> None:
    checkpoint = make.checkpoint(
        {"x": 1, "signal": "s", "handle": HANDLE},
        [make.task("a"), make.task("a", {"x": 2}, position=1), make.task("a", "text", position=2)],
        [DeferredTask(make.task("a", 3, position=3), gather=True, sender="a")],
        joins={"join": frozenset("a")},
        reported=(("log", [1]),),
    )

    saved = saved_form(program, checkpoint)

    assert saved.values == {"x": 1, "signal": "s"}
    assert saved == make.checkpoint(
        {"x": 1, "signal": "s"},
        checkpoint.frontier,
        checkpoint.deferred,
        joins=checkpoint.joins,
        reported=checkpoint.reported,
    )


def test_untracked_values_are_removed_from_sends_and_reports(make: Any, program: Any) -> None:
    arg = {"x": 1, "handle": HANDLE}
    checkpoint = make.checkpoint(
        frontier=[make.task("a", arg)],
        held=[DeferredTask(make.task("a", arg, position=1), gather=True, sender="b")],
        reported=(("handle", HANDLE), ("x", 1)),
    )

    saved = saved_form(program, checkpoint)

    assert saved.frontier[0].arg == saved.deferred[0].task.arg == {"x": 1}
    assert (saved.deferred[0].gather, saved.deferred[0].sender) == (True, "b")
    assert saved.reported == (("x", 1),)


def test_tasks_without_untracked_values_keep_their_ids(make: Any, program: Any) -> None:
    tasks = [make.task("a", {"handle": HANDLE}, "earlier", 4), make.task("a", {"handle": HANDLE}, "earlier", 5)]

    saved = saved_form(program, make.checkpoint(frontier=tasks[:1], held=[DeferredTask(tasks[1])]))

    assert [saved.frontier[0].id, saved.deferred[0].task.id] == [task.id for task in tasks]


def test_the_original_checkpoint_keeps_untracked_values(make: Any, program: Any) -> None:
    checkpoint = make.checkpoint({"handle": HANDLE}, [make.task("a", {"handle": HANDLE})])
    saved_form(program, checkpoint)

    assert checkpoint.values == checkpoint.frontier[0].arg == {"handle": HANDLE}


def test_untracked_values_are_removed_from_gathered_sends(make: Any, program: Any) -> None:
    gathered = make.task("a", [{"x": 1, "handle": HANDLE}, {"x": 2}])

    assert saved_form(program, make.checkpoint(frontier=[gathered])).frontier[0].arg == [{"x": 1}, {"x": 2}]
