"""Snapshots of saved checkpoints."""

from dataclasses import dataclass
from typing import Annotated, Any, TypedDict

import pytest

from statewright import START, append
from statewright.channels import Ephemeral
from statewright.checkpoint import BranchKey, DeferredTask, Interrupt, Pending
from statewright.ids import CheckpointId, InterruptId
from statewright.runtime.lifecycle.snapshot import empty_snapshot, snapshot_of

FIRST, SECOND = (Interrupt(id=InterruptId(name), value=f"{name}?") for name in ("first", "second"))


class Fields(TypedDict, total=False):
    x: int
    log: Annotated[list[Any], append]
    signal: Annotated[str, Ephemeral()]


@dataclass
class Required:
    x: int


@dataclass
class Partial:
    x: int
    y: int


@pytest.fixture
def program(make: Any) -> Any:
    graph = make.graph("a", "b", "c", schema=Fields)
    return make.program(graph.add_edge(START, "a").add_edge(START, "b").add_edge(START, "c"))


def test_values_of_a_snapshot_omit_hidden_fields(make: Any, program: Any) -> None:
    saved = make.saved(make.checkpoint({"x": 1, "log": [1], "signal": "s"}))

    assert snapshot_of(program, saved).values == {"x": 1, "log": [1]}


def test_next_contains_due_and_deferred_nodes_that_have_not_completed(make: Any, program: Any) -> None:
    first, second = make.tasks("a", "b")
    held = DeferredTask(make.task("c", position=2))
    pending = Pending(completed={first.id: make.result(first, {"x": 1})})
    snapshot = snapshot_of(program, make.saved(make.checkpoint({}, (first, second), [held]), pending))

    assert snapshot.next == ("b", "c")
    assert [(task.name, task.result) for task in snapshot.tasks] == [("a", {"x": 1}), ("b", None), ("c", None)]
    assert [task.id for task in snapshot.tasks] == [first.id, second.id, held.task.id]


def test_tasks_of_a_snapshot_have_their_error_and_open_questions(make: Any, program: Any) -> None:
    first, second = make.tasks("a", "b")
    pending = Pending(
        errors={second.id: "ValueError: no"},
        interrupts={first.id: (FIRST, SECOND)},
        answers={FIRST.id: "yes"},
    )
    snapshot = snapshot_of(program, make.saved(make.checkpoint({}, (first, second)), pending))

    assert [(task.error, task.interrupts) for task in snapshot.tasks] == [(None, (SECOND,)), ("ValueError: no", ())]
    assert snapshot.interrupts == (SECOND,)


def test_metadata_contain_the_source_step_run_and_branch(make: Any, program: Any) -> None:
    saved = make.saved(
        make.checkpoint(step=4),
        source="update",
        run_id="run-1",
        branch_key=BranchKey("thread", branch="side"),
        metadata={"nodes": ["a"], "discarded": ["b"]},
    )

    assert snapshot_of(program, saved).metadata == {
        "nodes": ["a"],
        "discarded": ["b"],
        "source": "update",
        "step": 4,
        "run_id": "run-1",
        "branch": "side",
    }


@pytest.mark.parametrize("namespace", ["", "sub:1"])
def test_configs_contain_the_ids_of_the_checkpoint_and_its_parent(make: Any, program: Any, namespace: str) -> None:
    branch_key = BranchKey("thread", namespace, "side")
    saved = make.saved(make.checkpoint(checkpoint_id="here"), branch_key=branch_key, parent_id=CheckpointId("there"))
    snapshot = snapshot_of(program, saved)
    common = {"thread_id": "thread", "branch": "side", **({"namespace": namespace} if namespace else {})}

    assert snapshot.config == {"configurable": {**common, "checkpoint_id": "here"}}
    assert snapshot.parent_config == {"configurable": {**common, "checkpoint_id": "there"}}


def test_the_first_checkpoint_has_no_parent(make: Any, program: Any) -> None:
    assert snapshot_of(program, make.saved(make.checkpoint())).parent_config is None


def test_the_snapshot_of_a_thread_without_checkpoints_is_empty(make: Any, program: Any) -> None:
    snapshot = empty_snapshot(program, {"configurable": {"thread_id": "new"}})

    assert (snapshot.values, snapshot.next, snapshot.tasks, snapshot.interrupts) == ({}, (), (), ())
    assert snapshot.config == {"configurable": {"thread_id": "new"}}
    assert snapshot.created_at is snapshot.parent_config is None


def test_an_empty_snapshot_needs_no_required_fields(make: Any) -> None:
    program = make.program(make.graph("a", schema=Required).add_edge(START, "a"), validate="all")

    assert empty_snapshot(program, {}).next == ()


def test_a_snapshot_with_some_values_needs_no_required_fields(make: Any) -> None:
    program = make.program(make.graph("a", schema=Partial).add_edge(START, "a"), validate="all")
    saved = make.saved(make.checkpoint({"y": 1}, make.tasks("a")))

    assert snapshot_of(program, saved).next == ("a",)
