"""Looking at threads and changing them from outside a run, against a saver in memory."""

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
from statewright.runtime.lifecycle.thread_state import diff, fork_thread, load_saved, roll_back_thread, update_thread


@pytest.fixture
def program(make: Any) -> Any:
    """`a`, then `b`; `c` beside `a`."""
    return make.program(make.graph("a", "b", "c").add_edge(START, "a").add_edge(START, "c").add_edge("a", "b"))


@pytest.fixture
def saver() -> InMemorySaver:
    return InMemorySaver()


def fails(make: Any, *nodes: str) -> Any:
    """Answers of tasks, some of which fail."""
    ends = {"a": ["b"]}

    def answer(task: Any) -> Any:
        if task.node in nodes:
            return Failure(task, ValueError(task.node))
        return make.result(task, {"log": [task.node]}, ends.get(task.node, []))

    return answer


def asks(task: Any) -> Pause:
    return Pause(task, (Interrupt(id=InterruptId(task.node * 32), value="?"),))


def update(
    make: Any, program: Any, saver: InMemorySaver, *updates: Any, cancel_pending: bool = False, **options: Any
) -> Any:
    """Commit updates; what was asked for."""
    run = make.run(program, saver=saver, **options)
    hand = make.hand(run, update_thread(run, updates, cancel_pending=cancel_pending))
    hand.finish()
    return hand


def head(saver: InMemorySaver, branch: str = "main") -> Any:
    return saver.load("thread", branch=branch)


def due(saver: InMemorySaver, branch: str = "main") -> list[str]:
    return [task.node for task in head(saver, branch).checkpoint.frontier]


# -- looking


def test_looking_loads_what_the_settings_name_and_changes_nothing(
    make: Any, program: Any, saver: InMemorySaver
) -> None:
    make.rest_of(make.run(program, saver=saver), {"x": 1})
    oldest = saver.history("thread")[-1]
    runs = make.run(program, saver=saver), make.run(program, saver=saver, checkpoint_id=oldest.id)
    hands = [make.hand(run, load_saved(run)) for run in runs]

    assert [hand.finish() for hand in hands] == [head(saver), oldest]
    assert [[type(effect) for effect in hand.effects] for hand in hands] == [[Load], [Load]]


def test_a_thread_that_is_not_there_is_none_and_a_checkpoint_is_not_found(
    make: Any, program: Any, saver: InMemorySaver
) -> None:
    run = make.run(program, saver=saver)
    named = make.run(program, saver=saver, checkpoint_id="nowhere")

    assert make.hand(run, load_saved(run)).finish() is None
    with pytest.raises(CheckpointNotFound, match="'nowhere'"):
        make.hand(named, load_saved(named)).finish()


# -- updating


def test_an_update_is_what_its_node_might_have_answered(make: Any, program: Any, saver: InMemorySaver) -> None:
    make.rest_of(make.run(program, saver=saver), {"x": 1})
    hand = update(make, program, saver, ({"log": ["by hand"]}, "a"))

    (save,) = hand.of(Save)
    assert (save.commit.source, save.commit.deltas) == ("update", {"log": Added(["by hand"])})
    assert save.commit.metadata["nodes"] == ["a"]
    assert head(saver).checkpoint.values["log"] == ["a", "c", "b", "by hand"]
    assert due(saver) == ["b"]


@pytest.mark.parametrize(
    ("as_node", "cancel", "left"),
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
def test_what_is_due_after_an_update(
    make: Any, program: Any, saver: InMemorySaver, as_node: str, cancel: bool, left: list[str]
) -> None:
    make.rest_of(make.run(program, saver=saver), {"x": 1}, fails(make, "a", "c"))
    before = {task.node: task.id for task in head(saver).checkpoint.frontier}
    update(make, program, saver, ({"x": 2}, as_node), cancel_pending=cancel)
    after = {task.node: task.id for task in head(saver).checkpoint.frontier}

    assert due(saver) == left
    assert head(saver).checkpoint.values["x"] == 2
    kept = set(left) & set(before) - {"b"}
    assert {node: after[node] for node in kept} == {node: before[node] for node in kept}


def test_results_that_had_landed_take_effect_with_the_update_that_ends_the_last_task(
    make: Any, program: Any, saver: InMemorySaver
) -> None:
    make.rest_of(make.run(program, saver=saver), {"x": 1}, fails(make, "c"))
    update(make, program, saver, ({"x": 2}, "c"))
    hand = make.call(make.run(program, saver=saver), None)

    assert hand.finish().checkpoint.values == {"x": 2, "log": ["a", "b"]}
    assert hand.nodes == [["b"]]


def test_what_was_known_of_a_task_goes_with_it(make: Any, program: Any, saver: InMemorySaver) -> None:
    make.rest_of(make.run(program, saver=saver), {"x": 1}, asks)
    assert len(head(saver).pending.open) == 2
    update(make, program, saver, ({"x": 2}, "a"))

    assert [question.id for question in head(saver).pending.open] == ["c" * 32]


def test_several_updates_are_one_superstep_in_their_order(make: Any, program: Any, saver: InMemorySaver) -> None:
    make.rest_of(make.run(program, saver=saver), {"x": 1})
    step = head(saver).checkpoint.step
    update(make, program, saver, ({"log": [1]}, "c"), ({"log": [2]}, "a"))

    assert head(saver).checkpoint.step == step + 1
    assert head(saver).checkpoint.values["log"][-2:] == [1, 2]
    assert due(saver) == ["b"]


def test_an_update_may_begin_a_thread(make: Any, program: Any, saver: InMemorySaver) -> None:
    update(make, program, saver, ({"x": 1}, START))

    assert (head(saver).checkpoint.values, due(saver)) == ({"x": 1, "log": []}, ["a", "c"])


def test_without_as_node_an_update_comes_from_the_node_that_ran_last(
    make: Any, program: Any, saver: InMemorySaver
) -> None:
    make.rest_of(make.run(program, saver=saver), {"x": 1})
    hand = update(make, program, saver, ({"x": 2}, None))

    assert hand.of(Save)[0].commit.metadata["nodes"] == ["b"]


def test_without_as_node_an_update_of_a_new_thread_is_input(make: Any, program: Any, saver: InMemorySaver) -> None:
    update(make, program, saver, ({"x": 1}, None))

    assert due(saver) == ["a", "c"]


@pytest.mark.parametrize(
    ("updates", "reason"),
    [
        ([({"x": 2}, "elsewhere")], "as_node is 'elsewhere', which is not a node"),
        ([({"x": 2}, None), ({"y": 2}, "a")], "needs as_node"),
        ([(3, "a")], "'a' returned 3"),
        ([({"x": 2}, None)], "cannot be inferred: a, c ran last"),
    ],
)
def test_an_update_that_cannot_be_read_changes_nothing(
    make: Any, program: Any, saver: InMemorySaver, updates: Any, reason: str
) -> None:
    make.rest_of(make.run(program, saver=saver), {"x": 1}, fails(make, "b"))
    before = head(saver)

    with pytest.raises(InvalidUpdateError, match=reason):
        update(make, program, saver, *updates)
    assert head(saver) == before


def test_an_update_takes_conditional_edges_too(make: Any, saver: InMemorySaver) -> None:
    graph = make.graph("a", "b", "c").add_edge(START, "a")
    graph.add_conditional_edges("a", lambda state: "b" if state["x"] > 1 else "nowhere")
    program = make.program(graph)
    update(make, program, saver, ({"x": 2}, "a"))

    assert due(saver) == ["b"]
    with pytest.raises(UnknownTarget):
        update(make, program, saver, ({"x": 1}, "a"))


def test_an_older_checkpoint_may_be_updated_and_becomes_the_head(make: Any, program: Any, saver: InMemorySaver) -> None:
    make.rest_of(make.run(program, saver=saver), {"x": 1})
    oldest, newest = saver.history("thread")[-1], head(saver)
    hand = update(make, program, saver, ({"x": 2}, "a"), checkpoint_id=oldest.id)

    (save,) = hand.of(Save)
    assert (save.commit.parent_id, save.commit.expected) == (oldest.id, newest.id)
    assert head(saver).checkpoint.values == {"x": 2, "log": []}
    assert due(saver) == ["b", "c"]


def test_an_update_meets_the_head_that_it_has_read(make: Any, program: Any, saver: InMemorySaver) -> None:
    make.rest_of(make.run(program, saver=saver), {"x": 1})
    run = make.run(program, saver=saver)
    core = update_thread(run, [({"x": 2}, "a")], cancel_pending=False)
    next(core)
    stamp = core.send(head(saver))
    late = core.send(perform_effect(run, stamp))
    update(make, program, saver, ({"x": 3}, "a"))

    with pytest.raises(CheckpointConflict):
        saver.commit(late.commit)


@pytest.mark.parametrize(("as_node", "cancel", "gone"), [("a", False, "a"), ("b", False, ""), ("b", True, "ac")])
def test_an_update_drops_the_calls_of_the_tasks_that_it_consumes(
    make: Any, program: Any, saver: InMemorySaver, as_node: str, cancel: bool, gone: str
) -> None:
    make.rest_of(make.run(program, saver=saver), {"x": 1}, fails(make, "a", "c"))
    spaces = sorted(f"{task.node}:{task.id}" for task in head(saver).checkpoint.frontier if task.node in gone)
    hand = update(make, program, saver, ({"x": 2}, as_node), cancel_pending=cancel)

    assert list(hand.of(Save)[0].commit.dropped_namespaces) == spaces


@pytest.mark.parametrize(
    ("as_node", "cancel", "held"), [("b", False, ["z"]), ("z", False, []), ("b", True, []), (END, False, [])]
)
def test_what_waits_goes_on_waiting_unless_it_is_answered_or_cancelled(
    make: Any, saver: InMemorySaver, as_node: str, cancel: bool, held: list[str]
) -> None:
    graph = make.graph("a", "b", "z", z={"join": "idle"}).add_edge(START, "a").add_edge("a", "z").add_edge("a", "b")
    program = make.program(graph.add_edge("b", "a"))
    make.rest_of(
        make.run(program, saver=saver),
        {"x": 1},
        lambda task: Failure(task, ValueError()) if task.node == "b" else make.result(task, {}, ["b", "z"]),
    )
    assert [one.task.node for one in head(saver).checkpoint.deferred] == ["z"]
    update(make, program, saver, ({"x": 2}, as_node), cancel_pending=cancel)
    after = head(saver).checkpoint

    assert [one.task.node for one in after.deferred] + [
        task.node for task in after.frontier if task.node == "z"
    ] == held


def test_an_update_is_not_taken_for_that_of_the_node_that_ran_beside_one_that_is_gone(
    make: Any, saver: InMemorySaver
) -> None:
    before = make.program(make.graph("a", "old", "b").add_edge(START, "a").add_edge(START, "old").add_edge(START, "b"))
    after = make.program(make.graph("a", "b").add_edge(START, "a").add_edge(START, "b"))
    make.rest_of(make.run(before, saver=saver), Command(goto=["a", "old"]), lambda task: make.result(task))
    with pytest.raises(InvalidUpdateError, match="ran last is 'old'"):
        update(make, after, saver, ({"x": 2}, None))


# -- forking


def fork(make: Any, program: Any, saver: InMemorySaver, branch: str | None, **options: Any) -> Any:
    run = make.run(program, saver=saver, **options)
    return make.hand(run, fork_thread(run, branch)).finish()


def test_a_fork_makes_a_checkpoint_the_head_of_a_new_branch_with_the_same_tasks(
    make: Any, program: Any, saver: InMemorySaver
) -> None:
    make.rest_of(make.run(program, saver=saver), {"x": 1})
    oldest, newest = saver.history("thread")[-1], head(saver)
    line, identity = fork(make, program, saver, "side", checkpoint_id=oldest.id)

    side = head(saver, "side")
    assert (line.branch, side.id, side.parent_id, side.source) == ("side", identity, oldest.id, "fork")
    assert side.checkpoint.frontier == oldest.checkpoint.frontier
    assert head(saver) == newest


def test_a_fork_takes_along_what_had_landed_and_what_is_asked_but_no_answers(
    make: Any, program: Any, saver: InMemorySaver
) -> None:
    landing = fails(make)
    make.rest_of(
        make.run(program, saver=saver), {"x": 1}, lambda task: asks(task) if task.node == "c" else landing(task)
    )
    saved = head(saver)
    saver.save_results(saved.branch_key, saved.id, Pending(answers={saved.pending.open[0].id: "yes"}))
    fork(make, program, saver, "side")

    pending = head(saver, "side").pending
    assert pending.completed == saved.pending.completed
    assert pending.interrupts == saved.pending.interrupts
    assert pending.answers == {}


def test_a_checkpoint_may_become_the_head_of_its_own_branch_again(
    make: Any, program: Any, saver: InMemorySaver
) -> None:
    make.rest_of(make.run(program, saver=saver), {"x": 1})
    oldest = saver.history("thread")[-1]
    fork(make, program, saver, None, checkpoint_id=oldest.id)

    assert due(saver) == ["a", "c"]
    assert head(saver).checkpoint.values == oldest.checkpoint.values


def test_a_branch_that_exists_is_not_forked_over(make: Any, program: Any, saver: InMemorySaver) -> None:
    make.rest_of(make.run(program, saver=saver), {"x": 1})
    fork(make, program, saver, "side")

    with pytest.raises(InvalidUpdateError, match="already has a branch 'side'"):
        fork(make, program, saver, "side")


def test_there_must_be_something_to_fork(make: Any, program: Any, saver: InMemorySaver) -> None:
    with pytest.raises(CheckpointNotFound, match="no checkpoint to fork"):
        fork(make, program, saver, "side")


# -- rolling back


@pytest.mark.parametrize("runs", [1, 2])
def test_a_rollback_is_where_the_branch_was_before_its_last_input(
    make: Any, program: Any, saver: InMemorySaver, runs: int
) -> None:
    for number in range(runs):
        make.rest_of(make.run(program, saver=saver), {"x": number})
    history = saver.history("thread")
    before = {1: {"log": []}, 2: {"x": 0, "log": ["a", "c", "b"]}}
    run = make.run(program, saver=saver)
    make.hand(run, roll_back_thread(run)).finish()

    assert head(saver).checkpoint.values == before[runs]
    assert head(saver).checkpoint.is_complete
    assert head(saver).checkpoint.step == history[0].checkpoint.step + 1
    assert saver.load("thread", checkpoint_id=history[0].id) is not None


def test_a_rollback_brings_back_what_had_landed_and_what_was_due(make: Any, program: Any, saver: InMemorySaver) -> None:
    make.rest_of(make.run(program, saver=saver), {"x": 1}, fails(make, "c"))
    landed = head(saver).pending.completed
    make.rest_of(make.run(program, saver=saver), {"x": 2})
    run = make.run(program, saver=saver)
    make.hand(run, roll_back_thread(run)).finish()

    assert due(saver) == ["a", "c"]
    assert head(saver).pending.completed == landed
    assert head(saver).checkpoint.values == {"x": 1, "log": []}


def test_a_thread_without_a_checkpoint_is_not_rolled_back(make: Any, program: Any, saver: InMemorySaver) -> None:
    run = make.run(program, saver=saver)
    hand = make.hand(run, roll_back_thread(run))
    hand.finish()

    assert hand.of(Save) == []


# -- comparing


@pytest.mark.parametrize(
    ("before", "after", "found"),
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
def test_what_differs_between_two_states(before: Any, after: Any, found: Any) -> None:
    assert diff(before, after) == found


def test_differences_come_in_the_order_of_the_keys() -> None:
    assert list(diff({"z": 1, "a": 1}, {"m": 1, "a": 2, "z": 2})) == ["z", "a", "m"]
