"""What a thread remembers: tasks, checkpoints, and what is known about a frontier."""

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
)
from statewright.ids import CheckpointId, InterruptId, TaskId

NOW = datetime(2026, 1, 1, tzinfo=UTC)
A, B, C = TaskId("a" * 32), TaskId("b" * 32), TaskId("c" * 32)


def question(identity: str, value: Any = "?") -> Interrupt:
    return Interrupt(id=InterruptId(identity), value=value)


def result(node: str) -> TaskResult:
    return TaskResult(Task(node, NO_ARG, "origin", 0), {}, ())


ONE, TWO, THREE = question("1"), question("2"), question("3")
LANDED = result("a")


# -- a task


@pytest.mark.parametrize("again", [copy.copy, copy.deepcopy, lambda value: pickle.loads(pickle.dumps(value))])
def test_the_missing_argument_stays_itself_however_it_is_copied(again: Any) -> None:
    assert again(NO_ARG) is NO_ARG
    assert again(Task("a", NO_ARG, "origin", 0)).arg is NO_ARG


def test_the_id_of_a_task_depends_on_the_commit_that_made_it_due_and_its_place_there() -> None:
    task = Task("a", NO_ARG, "origin", 0)
    assert task.id == Task("b", {"other": 1}, "origin", 0).id
    assert len({task.id, Task("a", NO_ARG, "other", 0).id, Task("a", NO_ARG, "origin", 1).id}) == 3
    assert len(task.id) == 32


@pytest.mark.parametrize("arg", [NO_ARG, None, [1], {"a": [1]}])
def test_equal_tasks_are_one_in_a_set_whatever_their_argument(arg: Any) -> None:
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
def test_tasks_that_differ_in_anything_are_not_equal(other: object) -> None:
    assert Task("a", 1, "origin", 0) != other


def test_tasks_with_a_time_limit_are_compared_as_a_whole() -> None:
    limit = TimeLimit(1.0, None, False)
    task = TimedTask("a", 1, "origin", 0, limit)
    assert task == TimedTask("a", 1, "origin", 0, limit)
    assert task != TimedTask("b", 1, "origin", 0, limit)
    assert task != TimedTask("a", 1, "origin", 0, limit._replace(run=2.0))
    assert task != Task("a", 1, "origin", 0)
    assert Task("a", 1, "origin", 0) != task


@pytest.mark.parametrize(
    ("shown", "text"),
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
def test_what_people_see_of_a_task(shown: object, text: str) -> None:
    assert repr(shown) == text


def test_held_tasks_are_equal_if_they_wait_alike() -> None:
    task = Task("a", [1], "origin", 0)
    held = DeferredTask(task, gather=True, sender="s")
    assert {held, DeferredTask(Task("a", [1], "origin", 0), gather=True, sender="s")} == {held}
    for other in (
        DeferredTask(task, gather=True),
        DeferredTask(task, sender="s"),
        DeferredTask(Task("b", 1, "o", 0)),
        task,
        None,
    ):
        assert held != other


# -- a checkpoint


def checkpoint(**changed: Any) -> Checkpoint:
    facts: dict[str, Any] = {"id": "c", "step": 1, "values": {"x": [1]}, "frontier": (Task("a", NO_ARG, "c", 0),)}
    return Checkpoint(**{**facts, **changed})


@pytest.mark.parametrize(
    ("frontier", "held", "at_rest"),
    [
        ((), (), True),
        ((Task("a", NO_ARG, "c", 0),), (), False),
        ((), (DeferredTask(Task("a", NO_ARG, "c", 0)),), False),
    ],
)
def test_a_thread_is_at_rest_if_nothing_is_due_and_nothing_waits(frontier: Any, held: Any, at_rest: bool) -> None:
    assert checkpoint(frontier=frontier, deferred=held).is_complete is at_rest


def test_a_checkpoint_needs_no_more_than_values_and_frontier() -> None:
    plain = checkpoint()
    assert (plain.deferred, plain.joins, plain.reported) == ((), NO_JOINS, ())


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
def test_checkpoints_are_equal_if_everything_about_them_is(changed: dict[str, Any]) -> None:
    assert checkpoint() == checkpoint()
    assert checkpoint() != checkpoint(**changed)


def test_a_checkpoint_is_equal_to_nothing_else_and_cannot_be_hashed() -> None:
    assert checkpoint() != "c"
    with pytest.raises(TypeError, match="unhashable"):
        hash(checkpoint())


def test_a_checkpoint_shows_where_it_stands() -> None:
    assert repr(checkpoint()) == "Checkpoint(step=1, values={'x': [1]}, frontier=(Task('a'),), deferred=())"


def test_the_id_of_a_saved_checkpoint_is_that_of_its_checkpoint() -> None:
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


# -- what is known about a frontier

SOON = datetime(2026, 1, 1, tzinfo=UTC)
FULL: dict[str, Any] = {
    "completed": {A: LANDED},
    "interrupts": {A: (ONE,)},
    "answers": {ONE.id: None},
    "errors": {A: "ValueError"},
    "attempts": {A: 1},
    "retries": {A: SOON},
    "journal": {(A, "step", 0): JournalEntry("given", 1)},
    "paused": True,
    "settled": {A: (THREE,)},
}


@pytest.mark.parametrize("name", FULL)
def test_anything_that_is_known_is_something(name: str) -> None:
    assert Pending(**{name: FULL[name]})
    assert Pending(**{name: FULL[name]}) != Pending()


def test_nothing_is_known_at_first_and_no_two_share_it() -> None:
    assert not Pending()
    assert set(FULL) == {field.name for field in fields(Pending)}
    one, other = Pending(), Pending()
    one.answers[ONE.id] = 1
    assert not other


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
def test_a_question_is_open_until_it_is_answered_even_with_none(
    interrupts: Any, answers: Any, still_open: tuple[Interrupt, ...], waiting: set[TaskId]
) -> None:
    pending = Pending(interrupts=interrupts, answers=answers)
    assert pending.open == still_open
    assert {task for task in (A, B, C) if pending.waits(task)} == waiting


def test_a_task_that_has_landed_asks_nothing_any_more() -> None:
    pending = Pending(completed={A: result("a")}, interrupts={A: (ONE,), B: (TWO,)})
    assert pending.open == (TWO,)
    assert (pending.open_of(A), pending.open_of(B), pending.open_of(C)) == ((), (TWO,), ())


def test_a_fork_keeps_the_answers_that_led_to_what_is_asked() -> None:
    pending = Pending(
        completed={A: result("a")},
        interrupts={A: (ONE,), B: (TWO,)},
        settled={B: (THREE, TWO)},  # TWO was asked once more
        answers={ONE.id: 1, TWO.id: 2, THREE.id: 3},
        attempts={B: 2},
    )
    forked = pending.forked()
    assert (forked.completed, forked.settled) == (pending.completed, pending.settled)
    assert (forked.answers, forked.open, forked.attempts) == ({THREE.id: 3}, (TWO,), {})


def test_what_is_known_later_is_added_and_counts_more() -> None:
    again = result("b")
    later = Pending(
        {A: again, B: again},
        {B: (TWO,)},
        {ONE.id: 2},
        {A: "KeyError"},
        {A: 2},
        {A: SOON},
        {(A, "step", 1): JournalEntry("g", 2)},
        settled={A: (TWO,), B: (ONE,)},
    )
    merged = Pending(**{**FULL, "paused": False}).merged(later)

    assert merged.completed == {A: again, B: again}
    assert merged.interrupts == {A: (ONE,), B: (TWO,)}
    assert merged.answers == {ONE.id: 2}
    assert merged.errors == {A: "KeyError"}
    assert merged.attempts == {A: 2}
    assert merged.retries == {A: SOON}
    assert set(merged.journal) == {(A, "step", 0), (A, "step", 1)}
    assert merged.settled == {A: (THREE, TWO), B: (ONE,)}


def test_of_the_questions_of_a_subgraph_one_answer_is_enough() -> None:
    first, second = (replace(one, namespace="child:1") for one in (ONE, TWO))
    assert Pending(interrupts={A: (first, second)}).waits(A)
    assert not Pending(interrupts={A: (first, second)}, answers={first.id: 1}).waits(A)
    assert Pending(interrupts={A: (second,)}, answers={first.id: 1}, settled={A: (first,)}).waits(A)


def test_the_questions_of_a_task_are_all_that_it_has_asked() -> None:
    assert Pending(interrupts={A: (ONE,)}, settled={A: (TWO,), B: (THREE,)}).questions() == {A: (TWO, ONE), B: (THREE,)}


@pytest.mark.parametrize(("one", "other", "both"), [(0, 0, False), (1, 0, True), (0, 1, True), (1, 1, True)])
def test_a_pause_stays_known(one: int, other: int, both: bool) -> None:
    assert Pending(paused=bool(one)).merged(Pending(paused=bool(other))).paused is both


def test_merging_changes_neither_of_both() -> None:
    one, other = Pending(**copy.deepcopy(FULL)), Pending(attempts={B: 1})
    merged = one.merged(other)
    merged.attempts[C] = 9
    merged.answers[TWO.id] = 9
    assert (one.attempts, one.answers, other) == ({A: 1}, {ONE.id: None}, Pending(attempts={B: 1}))


@pytest.mark.parametrize(("one", "other"), [(Pending(), Pending(**FULL)), (Pending(**FULL), Pending())])
def test_merging_with_nothing_changes_nothing(one: Pending, other: Pending) -> None:
    assert one.merged(other) == Pending(**FULL)


def test_what_is_known_of_some_tasks_is_kept_with_every_answer() -> None:
    known = Pending(
        {A: LANDED, B: LANDED},
        {A: (ONE,), B: (TWO,)},
        {ONE.id: 1, TWO.id: 2},
        {A: "a", B: "b"},
        {A: 1, B: 2},
        {A: SOON, B: SOON},
        {(A, "step", 0): JournalEntry("g", 1), (B, "step", 0): JournalEntry("g", 2)},
        True,
    )
    assert known.of([A]) == Pending(
        {A: LANDED},
        {A: (ONE,)},
        {ONE.id: 1, TWO.id: 2},
        {A: "a"},
        {A: 1},
        {A: SOON},
        {(A, "step", 0): JournalEntry("g", 1)},
        True,
    )
    assert known.of({A, B}) == known
    assert known.of(()) == Pending(answers={ONE.id: 1, TWO.id: 2})


def test_what_a_part_of_a_task_has_journalled_goes_with_the_task() -> None:
    part = JournalEntry("given", 1)
    known = Pending(journal={(TaskId(f"{A}:0"), "step", 0): part, (TaskId(f"{B}:0"), "step", 0): part})
    assert list(known.of([A]).journal) == [(f"{A}:0", "step", 0)]


# -- the rest


def test_a_line_is_the_main_branch_of_a_threads_own_graph_unless_told_otherwise() -> None:
    assert BranchKey("thread") == ("thread", "", "main")


def test_a_hold_claims_nothing_and_a_lease_is_not_wanted_unless_told_otherwise() -> None:
    assert not LeaseRequest("run", NOW, None).claims
    assert Lease("run", 1, NOW).wanted is None


def test_an_interrupt_is_a_question_that_waits_for_ever_unless_told_otherwise() -> None:
    asked = question("1")
    assert (asked.kind, asked.schema, asked.event, asked.due_at) == ("question", None, None, None)


def test_a_result_goes_along_the_edges_of_its_node_unless_told_otherwise() -> None:
    landed = result("a")
    assert (landed.goto, landed.folded) == (False, None)


def commit(**options: Any) -> Commit:
    facts: dict[str, Any] = {
        "branch_key": BranchKey("thread"),
        "expected": None,
        "parent_id": None,
        "checkpoint": checkpoint(),
        "deltas": None,
        "source": "input",
        "run_id": "run",
        "created_at": NOW,
    }
    return Commit(**{**facts, **options})


def test_a_commit_brings_nothing_along_unless_told_otherwise() -> None:
    plain = commit()
    assert (dict(plain.metadata), plain.pending, plain.hold, plain.log, plain.dropped_namespaces) == (
        {},
        None,
        None,
        None,
        (),
    )


@pytest.mark.parametrize(("fact", "name"), [(question("1"), "value"), (BranchKey("thread"), "branch")])
def test_facts_cannot_be_changed(fact: Any, name: str) -> None:
    with pytest.raises((FrozenInstanceError, AttributeError)):
        setattr(fact, name, CheckpointId("other"))
