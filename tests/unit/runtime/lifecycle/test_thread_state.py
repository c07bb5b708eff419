"""Reading, updating, forking and rolling back threads outside a run, on an in-memory saver."""

from typing import Any

import pytest

from statewright import END, START, Command, InMemorySaver
from statewright.channels import Added
from statewright.checkpoint import Interrupt, Pending
from statewright.errors import CheckpointConflict, CheckpointNotFound, InvalidUpdateError, UnknownTarget
from statewright.ids import InterruptId
from statewright.runtime.core.effects import Load, Save
from statewright.runtime.drivers.saver_calls import perform_effect
from statewright.runtime.invocation.outcome import Failure, Pause
from statewright.runtime.lifecycle.thread_state import (
    diff,
    fork_thread,
    load_checkpoint,
    roll_back_thread,
    update_thread,
)


@pytest.fixture
def program(make: Any) -> Any:
    """Return a program that runs `a` and `c`, then `b` after `a`."""
    return make.program(make.graph("a", "b", "c").add_edge(START, "a").add_edge(START, "c").add_edge("a", "b"))


@pytest.fixture
def saver() -> InMemorySaver:
    return InMemorySaver()


def outcomes_with_failures(make: Any, *nodes: str) -> Any:
    """Return a function from tasks to outcomes, in which some nodes fail."""
    successors = {"a": ["b"]}

    def outcome_of_task(task: Any) -> Any:
        if task.node in nodes:
            return Failure(task, ValueError(task.node))
        return make.result(task, {"log": [task.node]}, successors.get(task.node, []))

    return outcome_of_task


def pause(task: Any) -> Pause:
    return Pause(task, (Interrupt(id=InterruptId(task.node * 32), value="?"),))


def update(
    make: Any, program: Any, saver: InMemorySaver, *updates: Any, cancel_pending: bool = False, **options: Any
) -> Any:
    """Commit updates, and return the driver."""
    run = make.run(program, saver=saver, **options)
    driver = make.driver(run, update_thread(run, updates, cancel_pending=cancel_pending))
    driver.finish()
    return driver


def head(saver: InMemorySaver, branch: str = "main") -> Any:
    return saver.load("thread", branch=branch)


def due(saver: InMemorySaver, branch: str = "main") -> list[str]:
    return [task.node for task in head(saver, branch).checkpoint.frontier]


# -- reading


def test_load_saved_loads_the_head_or_the_checkpoint_of_the_settings(
    make: Any, program: Any, saver: InMemorySaver
) -> None:
    make.outcome_of(make.run(program, saver=saver), {"x": 1})
    oldest = saver.history("thread")[-1]
    runs = make.run(program, saver=saver), make.run(program, saver=saver, checkpoint_id=oldest.id)
    drivers = [make.driver(run, load_checkpoint(run)) for run in runs]

    assert [driver.finish() for driver in drivers] == [head(saver), oldest]
    assert [[type(effect) for effect in driver.effects] for driver in drivers] == [[Load], [Load]]


def test_load_saved_returns_none_for_a_new_thread_and_refuses_a_missing_checkpoint(
    make: Any, program: Any, saver: InMemorySaver
) -> None:
    run = make.run(program, saver=saver)
    at_missing = make.run(program, saver=saver, checkpoint_id="missing")

    assert make.driver(run, load_checkpoint(run)).finish() is None
    with pytest.raises(CheckpointNotFound, match="'missing'"):
        make.driver(at_missing, load_checkpoint(at_missing)).finish()


# -- updating


def test_an_update_is_applied_like_the_result_of_its_node(make: Any, program: Any, saver: InMemorySaver) -> None:
    make.outcome_of(make.run(program, saver=saver), {"x": 1})
    driver = update(make, program, saver, ({"log": ["by hand"]}, "a"))

    (save,) = driver.effects_of(Save)
    assert (save.commit.source, save.commit.deltas) == ("update", {"log": Added(["by hand"])})
    assert save.commit.metadata["nodes"] == ["a"]
    assert head(saver).checkpoint.values["log"] == ["a", "c", "b", "by hand"]
    assert due(saver) == ["b"]


@pytest.mark.parametrize(
    ("as_node", "cancel", "expected"),
    [
        ("a", False, ["b", "c"]),
        ("c", False, ["a"]),
        ("b", False, ["a", "c"]),
        (START, False, ["a", "c"]),
        (END, False, []),
        ("a", True, ["b"]),
        ("b", True, []),
    ],
)
def test_an_update_replaces_the_task_of_its_node_by_its_successors(
    make: Any, program: Any, saver: InMemorySaver, as_node: str, cancel: bool, expected: list[str]
) -> None:
    make.outcome_of(make.run(program, saver=saver), {"x": 1}, outcomes_with_failures(make, "a", "c"))
    before = {task.node: task.id for task in head(saver).checkpoint.frontier}
    update(make, program, saver, ({"x": 2}, as_node), cancel_pending=cancel)
    after = {task.node: task.id for task in head(saver).checkpoint.frontier}

    assert due(saver) == expected
    assert head(saver).checkpoint.values["x"] == 2
    unchanged = set(expected) & set(before) - {"b"}
    assert {node: after[node] for node in unchanged} == {node: before[node] for node in unchanged}


def test_saved_results_are_applied_with_the_update_of_the_last_task(
    make: Any, program: Any, saver: InMemorySaver
) -> None:
    make.outcome_of(make.run(program, saver=saver), {"x": 1}, outcomes_with_failures(make, "c"))
    update(make, program, saver, ({"x": 2}, "c"))
    driver = make.call(make.run(program, saver=saver), None)

    assert driver.finish().checkpoint.values == {"x": 2, "log": ["a", "b"]}
    assert driver.nodes == [["b"]]


def test_an_update_drops_the_questions_of_its_task(make: Any, program: Any, saver: InMemorySaver) -> None:
    make.outcome_of(make.run(program, saver=saver), {"x": 1}, pause)
    assert len(head(saver).pending.open) == 2
    update(make, program, saver, ({"x": 2}, "a"))

    assert [question.id for question in head(saver).pending.open] == ["c" * 32]


def test_several_updates_are_applied_in_order_in_one_superstep(make: Any, program: Any, saver: InMemorySaver) -> None:
    make.outcome_of(make.run(program, saver=saver), {"x": 1})
    step = head(saver).checkpoint.step
    update(make, program, saver, ({"log": [1]}, "c"), ({"log": [2]}, "a"))

    assert head(saver).checkpoint.step == step + 1
    assert head(saver).checkpoint.values["log"][-2:] == [1, 2]
    assert due(saver) == ["b"]


def test_an_update_can_start_a_thread(make: Any, program: Any, saver: InMemorySaver) -> None:
    update(make, program, saver, ({"x": 1}, START))

    assert (head(saver).checkpoint.values, due(saver)) == ({"x": 1, "log": []}, ["a", "c"])


def test_an_update_without_as_node_is_of_the_node_that_ran_last(make: Any, program: Any, saver: InMemorySaver) -> None:
    make.outcome_of(make.run(program, saver=saver), {"x": 1})
    driver = update(make, program, saver, ({"x": 2}, None))

    assert driver.effects_of(Save)[0].commit.metadata["nodes"] == ["b"]


def test_an_update_without_as_node_is_the_input_of_a_new_thread(make: Any, program: Any, saver: InMemorySaver) -> None:
    update(make, program, saver, ({"x": 1}, None))

    assert due(saver) == ["a", "c"]


@pytest.mark.parametrize(
    ("updates", "reason"),
    [
        ([({"x": 2}, "unknown")], "as_node is 'unknown', which is not a node"),
        ([({"x": 2}, None), ({"y": 2}, "a")], "needs as_node"),
        ([(3, "a")], "'a' returned 3"),
        ([({"x": 2}, None)], "cannot be inferred: a, c ran last"),
    ],
)
def test_an_invalid_update_is_refused_and_changes_nothing(
    make: Any, program: Any, saver: InMemorySaver, updates: Any, reason: str
) -> None:
    make.outcome_of(make.run(program, saver=saver), {"x": 1}, outcomes_with_failures(make, "b"))
    before = head(saver)

    with pytest.raises(InvalidUpdateError, match=reason):
        update(make, program, saver, *updates)
    assert head(saver) == before


def test_an_update_follows_conditional_edges(make: Any, saver: InMemorySaver) -> None:
    graph = make.graph("a", "b", "c").add_edge(START, "a")
    graph.add_conditional_edges("a", lambda state: "b" if state["x"] > 1 else "missing")
    program = make.program(graph)
    update(make, program, saver, ({"x": 2}, "a"))

    assert due(saver) == ["b"]
    with pytest.raises(UnknownTarget):
        update(make, program, saver, ({"x": 1}, "a"))


def test_an_update_of_an_older_checkpoint_becomes_the_head(make: Any, program: Any, saver: InMemorySaver) -> None:
    make.outcome_of(make.run(program, saver=saver), {"x": 1})
    oldest, newest = saver.history("thread")[-1], head(saver)
    driver = update(make, program, saver, ({"x": 2}, "a"), checkpoint_id=oldest.id)

    (save,) = driver.effects_of(Save)
    assert (save.commit.parent_id, save.commit.expected) == (oldest.id, newest.id)
    assert head(saver).checkpoint.values == {"x": 2, "log": []}
    assert due(saver) == ["b", "c"]


def test_an_update_on_a_stale_head_is_refused(make: Any, program: Any, saver: InMemorySaver) -> None:
    make.outcome_of(make.run(program, saver=saver), {"x": 1})
    run = make.run(program, saver=saver)
    core = update_thread(run, [({"x": 2}, "a")], cancel_pending=False)
    next(core)
    stamp = core.send(head(saver))
    late = core.send(perform_effect(run, stamp))
    update(make, program, saver, ({"x": 3}, "a"))

    with pytest.raises(CheckpointConflict):
        saver.commit(late.commit)


@pytest.mark.parametrize(("as_node", "cancel", "consumed"), [("a", False, "a"), ("b", False, ""), ("b", True, "ac")])
def test_an_update_drops_the_namespaces_of_the_tasks_that_it_consumes(
    make: Any, program: Any, saver: InMemorySaver, as_node: str, cancel: bool, consumed: str
) -> None:
    make.outcome_of(make.run(program, saver=saver), {"x": 1}, outcomes_with_failures(make, "a", "c"))
    namespaces = sorted(f"{task.node}:{task.id}" for task in head(saver).checkpoint.frontier if task.node in consumed)
    driver = update(make, program, saver, ({"x": 2}, as_node), cancel_pending=cancel)

    assert list(driver.effects_of(Save)[0].commit.dropped_namespaces) == namespaces


@pytest.mark.parametrize(
    ("as_node", "cancel", "held"), [("b", False, ["z"]), ("z", False, []), ("b", True, []), (END, False, [])]
)
def test_deferred_tasks_remain_after_an_update_unless_replaced_or_cancelled(
    make: Any, saver: InMemorySaver, as_node: str, cancel: bool, held: list[str]
) -> None:
    graph = make.graph("a", "b", "z", z={"join": "idle"}).add_edge(START, "a").add_edge("a", "z").add_edge("a", "b")
    program = make.program(graph.add_edge("b", "a"))
    make.outcome_of(
        make.run(program, saver=saver),
        {"x": 1},
        lambda task: Failure(task, ValueError()) if task.node == "b" else make.result(task, {}, ["b", "z"]),
    )
    assert [deferred.task.node for deferred in head(saver).checkpoint.deferred] == ["z"]
    update(make, program, saver, ({"x": 2}, as_node), cancel_pending=cancel)
    after = head(saver).checkpoint

    assert [deferred.task.node for deferred in after.deferred] + [
        task.node for task in after.frontier if task.node == "z"
    ] == held


def test_an_update_without_as_node_is_refused_if_a_removed_node_ran_last(make: Any, saver: InMemorySaver) -> None:
    before = make.program(make.graph("a", "old", "b").add_edge(START, "a").add_edge(START, "old").add_edge(START, "b"))
    after = make.program(make.graph("a", "b").add_edge(START, "a").add_edge(START, "b"))
    make.outcome_of(make.run(before, saver=saver), Command(goto=["a", "old"]), lambda task: make.result(task))
    with pytest.raises(InvalidUpdateError, match="ran last is 'old'"):
        update(make, after, saver, ({"x": 2}, None))


# -- forking


def fork(make: Any, program: Any, saver: InMemorySaver, branch: str | None, **options: Any) -> Any:
    run = make.run(program, saver=saver, **options)
    return make.driver(run, fork_thread(run, branch)).finish()


def test_a_fork_copies_a_checkpoint_to_a_new_branch_with_the_same_tasks(
    make: Any, program: Any, saver: InMemorySaver
) -> None:
    make.outcome_of(make.run(program, saver=saver), {"x": 1})
    oldest, newest = saver.history("thread")[-1], head(saver)
    branch_key, checkpoint_id = fork(make, program, saver, "side", checkpoint_id=oldest.id)

    side = head(saver, "side")
    assert (branch_key.branch, side.id, side.parent_id, side.source) == ("side", checkpoint_id, oldest.id, "fork")
    assert side.checkpoint.frontier == oldest.checkpoint.frontier
    assert head(saver) == newest


def test_a_fork_keeps_results_and_questions_but_not_answers(make: Any, program: Any, saver: InMemorySaver) -> None:
    successful = outcomes_with_failures(make)
    make.outcome_of(
        make.run(program, saver=saver), {"x": 1}, lambda task: pause(task) if task.node == "c" else successful(task)
    )
    saved = head(saver)
    saver.save_results(saved.branch_key, saved.id, Pending(answers={saved.pending.open[0].id: "yes"}))
    fork(make, program, saver, "side")

    pending = head(saver, "side").pending
    assert pending.completed == saved.pending.completed
    assert pending.interrupts == saved.pending.interrupts
    assert pending.answers == {}


def test_a_fork_without_a_name_becomes_the_head_of_its_branch(make: Any, program: Any, saver: InMemorySaver) -> None:
    make.outcome_of(make.run(program, saver=saver), {"x": 1})
    oldest = saver.history("thread")[-1]
    fork(make, program, saver, None, checkpoint_id=oldest.id)

    assert due(saver) == ["a", "c"]
    assert head(saver).checkpoint.values == oldest.checkpoint.values


def test_a_fork_to_an_existing_branch_is_refused(make: Any, program: Any, saver: InMemorySaver) -> None:
    make.outcome_of(make.run(program, saver=saver), {"x": 1})
    fork(make, program, saver, "side")

    with pytest.raises(InvalidUpdateError, match="already has a branch 'side'"):
        fork(make, program, saver, "side")


def test_forking_a_new_thread_is_refused(make: Any, program: Any, saver: InMemorySaver) -> None:
    with pytest.raises(CheckpointNotFound, match="no checkpoint to fork"):
        fork(make, program, saver, "side")


# -- rolling back


@pytest.mark.parametrize("runs", [1, 2])
def test_a_rollback_restores_the_state_before_the_last_input(
    make: Any, program: Any, saver: InMemorySaver, runs: int
) -> None:
    for number in range(runs):
        make.outcome_of(make.run(program, saver=saver), {"x": number})
    history = saver.history("thread")
    before = {1: {"log": []}, 2: {"x": 0, "log": ["a", "c", "b"]}}
    run = make.run(program, saver=saver)
    make.driver(run, roll_back_thread(run)).finish()

    assert head(saver).checkpoint.values == before[runs]
    assert head(saver).checkpoint.is_complete
    assert head(saver).checkpoint.step == history[0].checkpoint.step + 1
    assert saver.load("thread", checkpoint_id=history[0].id) is not None


def test_a_rollback_restores_saved_results_and_due_tasks(make: Any, program: Any, saver: InMemorySaver) -> None:
    make.outcome_of(make.run(program, saver=saver), {"x": 1}, outcomes_with_failures(make, "c"))
    completed = head(saver).pending.completed
    make.outcome_of(make.run(program, saver=saver), {"x": 2})
    run = make.run(program, saver=saver)
    make.driver(run, roll_back_thread(run)).finish()

    assert due(saver) == ["a", "c"]
    assert head(saver).pending.completed == completed
    assert head(saver).checkpoint.values == {"x": 1, "log": []}


def test_rolling_back_a_new_thread_does_nothing(make: Any, program: Any, saver: InMemorySaver) -> None:
    run = make.run(program, saver=saver)
    driver = make.driver(run, roll_back_thread(run))
    driver.finish()

    assert driver.effects_of(Save) == []


# -- comparing


@pytest.mark.parametrize(
    ("before", "after", "expected"),
    [
        ({}, {}, {}),
        ({"x": 1}, {"x": 1}, {}),
        ({"x": 1}, {"x": 2}, {"x": (1, 2)}),
        ({"x": 1}, {}, {"x": (1, None)}),
        ({}, {"x": 1}, {"x": (None, 1)}),
        ({"x": [1]}, {"x": [1]}, {}),
        ({"x": 1, "y": 1}, {"z": 1, "y": 1}, {"x": (1, None), "z": (None, 1)}),
    ],
)
def test_diff_returns_the_changed_values(before: Any, after: Any, expected: Any) -> None:
    assert diff(before, after) == expected


def test_diff_is_in_the_order_of_the_keys() -> None:
    assert list(diff({"z": 1, "a": 1}, {"m": 1, "a": 2, "z": 2})) == ["z", "a", "m"]
