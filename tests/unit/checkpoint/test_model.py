"""Tasks, checkpoints and pending writes: their defaults, equality and merging."""

import copy
import pickle
from dataclasses import FrozenInstanceError, fields, replace
from datetime import UTC, datetime
from typing import Any

import pytest

from statewright.checkpoint import (
    NO_ARG,
    NO_JOINS,
    BranchKey,
    Checkpoint,
    Commit,
    DeferredTask,
    Interrupt,
    JournalEntry,
    Lease,
    LeaseRequest,
    Pending,
    SavedCheckpoint,
    Task,
    TaskResult,
    TimedTask,
    TimeLimit,
    step_id,
)
from statewright.checkpoint.model import outermost_task_id
from statewright.ids import CheckpointId, InterruptId, TaskId

NOW = datetime(2026, 1, 1, tzinfo=UTC)
A, B, C = TaskId("a" * 32), TaskId("b" * 32), TaskId("c" * 32)


def question(interrupt_id: str, value: Any = "?") -> Interrupt:
    return Interrupt(id=InterruptId(interrupt_id), value=value)


def result(node: str) -> TaskResult:
    return TaskResult(Task(node, NO_ARG, "origin", 0), {}, ())


ONE, TWO, THREE = question("1"), question("2"), question("3")
COMPLETED = result("a")


# -- a task


@pytest.mark.parametrize("duplicate", [copy.copy, copy.deepcopy, lambda value: pickle.loads(pickle.dumps(value))])
def test_copies_of_no_arg_are_no_arg_itself(duplicate: Any) -> None:
    assert duplicate(NO_ARG) is NO_ARG
    assert duplicate(Task("a", NO_ARG, "origin", 0)).arg is NO_ARG


def test_the_id_of_a_task_depends_on_its_origin_and_position() -> None:
    task = Task("a", NO_ARG, "origin", 0)
    assert task.id == Task("b", {"other": 1}, "origin", 0).id
    assert len({task.id, Task("a", NO_ARG, "other", 0).id, Task("a", NO_ARG, "origin", 1).id}) == 3
    assert len(task.id) == 32


@pytest.mark.parametrize("arg", [NO_ARG, None, [1], {"a": [1]}])
def test_equal_tasks_have_equal_hashes(arg: Any) -> None:
    assert {Task("a", arg, "origin", 0), Task("a", copy.copy(arg), "origin", 0)} == {Task("a", arg, "origin", 0)}


@pytest.mark.parametrize(
    "other",
    [
        Task("b", 1, "origin", 0),
        Task("a", 2, "origin", 0),
        Task("a", NO_ARG, "origin", 0),
        Task("a", 1, "other", 0),
        Task("a", 1, "origin", 1),
        "Task('a', 1)",
        None,
    ],
)
def test_tasks_that_differ_in_any_field_are_not_equal(other: object) -> None:
    assert Task("a", 1, "origin", 0) != other


def test_equality_of_timed_tasks_includes_the_time_limit() -> None:
    limit = TimeLimit(1.0, None, False)
    task = TimedTask("a", 1, "origin", 0, limit)
    assert task == TimedTask("a", 1, "origin", 0, limit)
    assert task != TimedTask("b", 1, "origin", 0, limit)
    assert task != TimedTask("a", 1, "origin", 0, limit._replace(run=2.0))
    assert task != Task("a", 1, "origin", 0)
    assert Task("a", 1, "origin", 0) != task


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (Task("a", NO_ARG, "origin", 0), "Task('a')"),
        (Task("a", None, "origin", 0), "Task('a', None)"),
        (Task("a", [1], "origin", 0), "Task('a', [1])"),
        (DeferredTask(Task("a", 1, "origin", 0)), "DeferredTask(Task('a', 1))"),
        (DeferredTask(Task("a", 1, "origin", 0), gather=True), "DeferredTask(Task('a', 1), gather=True)"),
        (TaskResult(Task("a", NO_ARG, "o", 0), {"x": 1}, ("b",)), "TaskResult(Task('a'), {'x': 1}, ['b'])"),
        (NO_ARG, "NO_ARG"),
    ],
)
def test_tasks_and_results_have_a_short_repr(value: object, expected: str) -> None:
    assert repr(value) == expected


def test_equality_of_deferred_tasks_includes_gather_and_sender() -> None:
    task = Task("a", [1], "origin", 0)
    deferred = DeferredTask(task, gather=True, sender="s")
    assert {deferred, DeferredTask(Task("a", [1], "origin", 0), gather=True, sender="s")} == {deferred}
    for other in (
        DeferredTask(task, gather=True),
        DeferredTask(task, sender="s"),
        DeferredTask(Task("b", 1, "o", 0)),
        task,
        None,
    ):
        assert deferred != other


# -- a checkpoint


def checkpoint(**changed: Any) -> Checkpoint:
    defaults: dict[str, Any] = {"id": "c", "step": 1, "values": {"x": [1]}, "frontier": (Task("a", NO_ARG, "c", 0),)}
    return Checkpoint(**{**defaults, **changed})


@pytest.mark.parametrize(
    ("frontier", "deferred", "is_complete"),
    [
        ((), (), True),
        ((Task("a", NO_ARG, "c", 0),), (), False),
        ((), (DeferredTask(Task("a", NO_ARG, "c", 0)),), False),
    ],
)
def test_a_checkpoint_is_complete_without_due_and_deferred_tasks(
    frontier: Any, deferred: Any, is_complete: bool
) -> None:
    assert checkpoint(frontier=frontier, deferred=deferred).is_complete is is_complete


def test_a_checkpoint_has_no_deferred_tasks_joins_or_reports_by_default() -> None:
    default = checkpoint()
    assert (default.deferred, default.joins, default.reported) == ((), NO_JOINS, ())


@pytest.mark.parametrize(
    "changed",
    [
        {"id": "d"},
        {"step": 2},
        {"values": {"x": [2]}},
        {"frontier": ()},
        {"deferred": (DeferredTask(Task("a", 1, "c", 0)),)},
        {"joins": {"a+b->c": frozenset({"a"})}},
        {"reported": (("x", 1),)},
    ],
)
def test_checkpoints_that_differ_in_any_field_are_not_equal(changed: dict[str, Any]) -> None:
    assert checkpoint() == checkpoint()
    assert checkpoint() != checkpoint(**changed)


def test_a_checkpoint_is_unequal_to_other_types_and_unhashable() -> None:
    assert checkpoint() != "c"
    with pytest.raises(TypeError, match="unhashable"):
        hash(checkpoint())


def test_the_repr_of_a_checkpoint_shows_its_step_values_and_tasks() -> None:
    assert repr(checkpoint()) == "Checkpoint(step=1, values={'x': [1]}, frontier=(Task('a'),), deferred=())"


def test_a_saved_checkpoint_has_the_id_of_its_checkpoint() -> None:
    saved = SavedCheckpoint(
        branch_key=BranchKey("thread"),
        parent_id=None,
        checkpoint=checkpoint(id="c7"),
        source="loop",
        run_id="run",
        created_at=NOW,
        metadata={},
        pending=Pending(),
    )
    assert saved.id == "c7"


# -- pending writes

SOON = datetime(2026, 1, 1, tzinfo=UTC)
FULL: dict[str, Any] = {
    "completed": {A: COMPLETED},
    "interrupts": {A: (ONE,)},
    "answers": {ONE.id: None},
    "errors": {A: "ValueError"},
    "attempts": {A: 1},
    "retries": {A: SOON},
    "journal": {(A, "step", 0): JournalEntry("digest", 1)},
    "paused": True,
    "settled": {A: (THREE,)},
}


@pytest.mark.parametrize("name", FULL)
def test_pending_writes_with_any_field_set_are_true(name: str) -> None:
    assert Pending(**{name: FULL[name]})
    assert Pending(**{name: FULL[name]}) != Pending()


def test_pending_writes_are_false_by_default_and_share_no_containers() -> None:
    assert not Pending()
    assert set(FULL) == {field.name for field in fields(Pending)}
    first, second = Pending(), Pending()
    first.answers[ONE.id] = 1
    assert not second


@pytest.mark.parametrize(
    ("interrupts", "answers", "still_open", "waiting"),
    [
        ({}, {}, (), set()),
        ({A: (ONE, TWO), B: (THREE,)}, {}, (ONE, TWO, THREE), {A, B}),
        ({A: (ONE, TWO), B: (THREE,)}, {ONE.id: 1}, (TWO, THREE), {A, B}),
        ({A: (ONE, TWO), B: (THREE,)}, {ONE.id: 1, TWO.id: 2}, (THREE,), {B}),
        ({A: (ONE,)}, {ONE.id: None}, (), set()),
        ({A: (ONE,)}, {ONE.id: False}, (), set()),
        ({A: ()}, {}, (), set()),
        ({}, {ONE.id: 1}, (), set()),
        ({B: (TWO,), A: (ONE,)}, {}, (TWO, ONE), {A, B}),
    ],
)
def test_a_question_is_open_until_it_is_answered(
    interrupts: Any, answers: Any, still_open: tuple[Interrupt, ...], waiting: set[TaskId]
) -> None:
    pending = Pending(interrupts=interrupts, answers=answers)
    assert pending.open == still_open
    assert {task for task in (A, B, C) if pending.waits(task)} == waiting


def test_a_completed_task_has_no_open_questions() -> None:
    pending = Pending(completed={A: result("a")}, interrupts={A: (ONE,), B: (TWO,)})
    assert pending.open == (TWO,)
    assert (pending.open_of(A), pending.open_of(B), pending.open_of(C)) == ((), (TWO,), ())


def test_a_fork_keeps_the_answers_to_settled_questions() -> None:
    pending = Pending(
        completed={A: result("a")},
        interrupts={A: (ONE,), B: (TWO,)},
        settled={B: (THREE, TWO)},  # TWO was asked again
        answers={ONE.id: 1, TWO.id: 2, THREE.id: 3},
        attempts={B: 2},
    )
    forked = pending.forked()
    assert (forked.completed, forked.settled) == (pending.completed, pending.settled)
    assert (forked.answers, forked.open, forked.attempts) == ({THREE.id: 3}, (TWO,), {})


def test_merging_adds_entries_and_prefers_the_later_ones() -> None:
    retried = result("b")
    later = Pending(
        {A: retried, B: retried},
        {B: (TWO,)},
        {ONE.id: 2},
        {A: "KeyError"},
        {A: 2},
        {A: SOON},
        {(A, "step", 1): JournalEntry("g", 2)},
        settled={A: (TWO,), B: (ONE,)},
    )
    merged = Pending(**{**FULL, "paused": False}).merged(later)

    assert merged.completed == {A: retried, B: retried}
    assert merged.interrupts == {A: (ONE,), B: (TWO,)}
    assert merged.answers == {ONE.id: 2}
    assert merged.errors == {A: "KeyError"}
    assert merged.attempts == {A: 2}
    assert merged.retries == {A: SOON}
    assert set(merged.journal) == {(A, "step", 0), (A, "step", 1)}
    assert merged.settled == {A: (THREE, TWO), B: (ONE,)}


def test_one_answer_to_a_question_of_a_subgraph_ends_the_waiting_of_its_task() -> None:
    first, second = (replace(question, namespace="child:1") for question in (ONE, TWO))
    assert Pending(interrupts={A: (first, second)}).waits(A)
    assert not Pending(interrupts={A: (first, second)}, answers={first.id: 1}).waits(A)
    assert Pending(interrupts={A: (second,)}, answers={first.id: 1}, settled={A: (first,)}).waits(A)


def test_the_questions_of_a_task_include_the_settled_ones() -> None:
    assert Pending(interrupts={A: (ONE,)}, settled={A: (TWO,), B: (THREE,)}).questions() == {A: (TWO, ONE), B: (THREE,)}


@pytest.mark.parametrize(("earlier", "later", "merged"), [(0, 0, False), (1, 0, True), (0, 1, True), (1, 1, True)])
def test_merging_keeps_a_pause(earlier: int, later: int, merged: bool) -> None:
    assert Pending(paused=bool(earlier)).merged(Pending(paused=bool(later))).paused is merged


def test_merging_changes_neither_operand() -> None:
    earlier, later = Pending(**copy.deepcopy(FULL)), Pending(attempts={B: 1})
    merged = earlier.merged(later)
    merged.attempts[C] = 9
    merged.answers[TWO.id] = 9
    assert (earlier.attempts, earlier.answers, later) == ({A: 1}, {ONE.id: None}, Pending(attempts={B: 1}))


@pytest.mark.parametrize(("earlier", "later"), [(Pending(), Pending(**FULL)), (Pending(**FULL), Pending())])
def test_merging_with_empty_pending_writes_changes_nothing(earlier: Pending, later: Pending) -> None:
    assert earlier.merged(later) == Pending(**FULL)


def test_selecting_tasks_keeps_their_entries_and_every_answer() -> None:
    pending = Pending(
        {A: COMPLETED, B: COMPLETED},
        {A: (ONE,), B: (TWO,)},
        {ONE.id: 1, TWO.id: 2},
        {A: "a", B: "b"},
        {A: 1, B: 2},
        {A: SOON, B: SOON},
        {(A, "step", 0): JournalEntry("g", 1), (B, "step", 0): JournalEntry("g", 2)},
        True,
    )
    assert pending.of([A]) == Pending(
        {A: COMPLETED},
        {A: (ONE,)},
        {ONE.id: 1, TWO.id: 2},
        {A: "a"},
        {A: 1},
        {A: SOON},
        {(A, "step", 0): JournalEntry("g", 1)},
        True,
    )
    assert pending.of({A, B}) == pending
    assert pending.of(()) == Pending(answers={ONE.id: 1, TWO.id: 2})


def test_selecting_a_task_keeps_the_journal_of_its_parts() -> None:
    entry = JournalEntry("digest", 1)
    pending = Pending(journal={(TaskId(f"{A}:0"), "step", 0): entry, (TaskId(f"{B}:0"), "step", 0): entry})
    assert list(pending.of([A]).journal) == [(f"{A}:0", "step", 0)]


# -- defaults


def test_a_branch_key_names_the_main_branch_of_the_root_graph_by_default() -> None:
    assert BranchKey("thread") == ("thread", "", "main")


def test_a_lease_request_claims_nothing_by_default() -> None:
    assert not LeaseRequest("run", NOW, None).claims
    assert Lease("run", 1, NOW).wanted is None


def test_an_interrupt_is_a_question_without_a_due_date_by_default() -> None:
    interrupt = question("1")
    assert (interrupt.kind, interrupt.schema, interrupt.event, interrupt.due_at) == ("question", None, None, None)


def test_a_result_follows_the_edges_of_its_node_by_default() -> None:
    completed = result("a")
    assert (completed.goto, completed.folded) == (False, None)


def commit(**options: Any) -> Commit:
    defaults: dict[str, Any] = {
        "branch_key": BranchKey("thread"),
        "expected": None,
        "parent_id": None,
        "checkpoint": checkpoint(),
        "deltas": None,
        "source": "input",
        "run_id": "run",
        "created_at": NOW,
    }
    return Commit(**{**defaults, **options})


def test_a_commit_has_no_metadata_pending_writes_lease_or_log_by_default() -> None:
    default = commit()
    assert (dict(default.metadata), default.pending, default.hold, default.log, default.dropped_namespaces) == (
        {},
        None,
        None,
        None,
        (),
    )


@pytest.mark.parametrize(("record", "name"), [(question("1"), "value"), (BranchKey("thread"), "branch")])
def test_records_are_immutable(record: Any, name: str) -> None:
    with pytest.raises((FrozenInstanceError, AttributeError)):
        setattr(record, name, CheckpointId("other"))


def test_the_outermost_task_is_found_from_the_id_of_a_step_of_a_step() -> None:
    inner = step_id((step_id((A, "outer", 0)), "inner", 2))
    assert outermost_task_id(inner) == outermost_task_id(A) == A
