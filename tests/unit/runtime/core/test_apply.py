"""The next checkpoint, from a checkpoint and results sent by hand."""

import copy
from typing import Annotated, Any, TypedDict

import pytest

from statewright import START, Send, append
from statewright.channels import MISSING, Added, Ephemeral, Overwrite, Untracked
from statewright.checkpoint import Checkpoint, DeferredTask
from statewright.errors import ConflictingWrites
from statewright.graph import STOP
from statewright.runtime.core.apply import (
    apply_external_results,
    apply_results,
    deltas_of_results,
    deltas_of_values,
    folded_values,
    record_reported_updates,
)


class Fields(TypedDict, total=False):
    x: Any
    y: Any
    log: Annotated[list[Any], append]
    total: Annotated[int, lambda old, new: old + new]
    signal: Annotated[str, Ephemeral()]
    brief: Annotated[str, Ephemeral(lifetime="step")]
    handle: Annotated[Any, Untracked()]


def entered(graph: Any) -> Any:
    for name in graph.nodes:
        graph.add_edge(START, name)
    return graph


@pytest.fixture
def program(make: Any) -> Any:
    return make.program(entered(make.graph("a", "b", "c", schema=Fields)).add_edge("a", "b"))


@pytest.fixture
def waiting_program(make: Any) -> Any:
    graph = entered(make.graph("a", "b", "c", schema=Fields, c={"join": "idle"}))
    return make.program(graph.add_edge("a", "b").add_edge(["b", "c"], "a"))


def frozen(checkpoint: Checkpoint) -> Checkpoint:
    """What a checkpoint looks like now, out of reach of changes in place."""
    return copy.deepcopy(checkpoint)


def test_one_superstep_is_one_step_further_under_the_id_of_its_commit(make: Any, program: Any) -> None:
    before = make.checkpoint({"x": 1, "log": ["old"]}, make.tasks("a"), step=7)

    after = apply_results(program, before, [make.result("a", {"log": ["a"]}, ["b"])], "commit", "commit")

    assert (after.id, after.step) == ("commit", 8)
    assert after.values == {"x": 1, "log": ["old", "a"]}
    assert after.frontier == make.tasks("b", origin="commit")
    assert not after.is_complete


@pytest.mark.parametrize(
    ("targets", "due"),
    [
        (["b"], ["b"]),
        ([], []),
        ([STOP], []),
        (["b", "b"], ["b"]),
        (["c", "b"], ["b", "c"]),
        ([Send("b", 1)], ["b"]),
        ([Send("b", 1), "b"], ["b", "b"]),
        (["b", STOP], []),
    ],
)
@pytest.mark.parametrize("program_name", ["program", "waiting_program"])
def test_what_follows_one_task(
    make: Any, request: pytest.FixtureRequest, program_name: str, targets: Any, due: list[str]
) -> None:
    program = request.getfixturevalue(program_name)
    before = make.checkpoint(frontier=make.tasks("a"))

    after = apply_results(program, before, [make.result("a", {}, targets, goto=True)], "commit", "commit")

    found = [*after.frontier, *(one.task for one in after.deferred)]
    assert sorted(task.node for task in found) == due


def test_ids_of_tasks_come_from_the_origin_not_from_the_commit(make: Any, program: Any) -> None:
    before, results = make.checkpoint(frontier=make.tasks("a")), [make.result("a", {}, ["b"])]

    one, other = (apply_results(program, before, results, commit, "origin") for commit in ("one", "other"))

    assert (one.id, other.id) == ("one", "other")
    assert one.frontier[0].id == other.frontier[0].id


@pytest.mark.parametrize(
    "results_of",
    [
        lambda make: [make.result("a", {"log": [1], "total": 1, "signal": "new"}, ["b"])],
        lambda make: [make.result("a", {"log": [1]}, ["b"]), make.result("b", {"log": [2], "x": 9}, ["c"])],
        lambda make: [make.result("a", [("log", [1]), ("log", [2])], [Send("b", 1), Send("c", 1, gather=True)])],
        lambda make: [make.result("a", {"x": Overwrite(3)}, [STOP], goto=True)],
        lambda make: [make.result("b", {"y": 1})],
    ],
)
@pytest.mark.parametrize("program_name", ["program", "waiting_program"])
def test_a_checkpoint_is_never_changed_in_place_and_gives_the_same_next_one(
    make: Any, request: pytest.FixtureRequest, program_name: str, results_of: Any
) -> None:
    program, results = request.getfixturevalue(program_name), results_of(make)
    before = make.checkpoint(
        {"x": 0, "log": ["old"], "total": 5, "signal": "s"},
        make.tasks("a", "b"),
        [DeferredTask(make.task("c", origin="earlier"))],
        joins={"'b' + 'c' -> 'a'": frozenset("c")},
    )
    as_it_was = frozen(before)

    once = apply_results(program, before, results, "commit", "commit")
    looked_once = frozen(once)
    again = apply_results(program, before, results, "commit", "commit")

    assert before == as_it_was
    assert again == once == looked_once


def test_a_conflict_leaves_the_checkpoint_as_it_was(make: Any, program: Any) -> None:
    before = make.checkpoint({"x": 0, "log": []}, make.tasks("a", "b"))
    results = [make.result("a", {"log": [1], "x": 1}), make.result("b", {"log": [2], "x": 2})]

    with pytest.raises(ConflictingWrites, match="'a' and 'b'"):
        apply_results(program, before, results, "commit", "commit")
    assert before == make.checkpoint({"x": 0, "log": []}, make.tasks("a", "b"))


def test_what_is_held_starts_when_its_turn_has_come(make: Any, waiting_program: Any) -> None:
    before = make.checkpoint(frontier=make.tasks("a", "b"))
    results = [make.result("a", {}, ["b", "c"]), make.result("b")]

    held = apply_results(waiting_program, before, results, "one", "one")
    started = apply_results(waiting_program, held, [make.result("b")], "two", "two")

    assert [task.node for task in held.frontier] == ["b"]
    assert [one.task.node for one in held.deferred] == ["c"]
    assert [task.id for task in started.frontier] == [held.deferred[0].task.id]
    assert started.deferred == ()


def test_a_signal_lives_for_one_superstep_and_a_brief_one_for_none(make: Any, program: Any) -> None:
    before = make.checkpoint({"x": 0}, make.tasks("a"))

    one = apply_results(program, before, [make.result("a", {"signal": "s", "brief": "b"}, ["b"])], "one", "one")
    two = apply_results(program, one, [make.result("b", {"x": 1}, ["c"])], "two", "two")

    assert one.values == {"x": 0, "signal": "s"}
    assert two.values == {"x": 1}


def test_a_signal_goes_also_where_several_tasks_ran(make: Any, program: Any) -> None:
    before = make.checkpoint({"signal": "s"}, make.tasks("a", "b"))
    results = [make.result("a", {"x": 1}), make.result("b", {"y": 1})]

    assert folded_values(program, before.values, results) == {"x": 1, "y": 1}


# -- from outside a superstep


def test_results_from_outside_leave_what_was_due_due_beside_what_follows(make: Any, program: Any) -> None:
    due = make.tasks("a", origin="earlier")
    held = [DeferredTask(make.task("b", "kept", origin="earlier"), gather=True, sender="a")]
    before = make.checkpoint({"log": []}, due, held)

    after = apply_external_results(program, before, [make.result("c", {"log": ["c"]}, ["b"])], "commit", due, held)

    assert after.values == {"log": ["c"]}
    assert (after.id, after.step) == ("commit", before.step + 1)
    assert [task.node for task in after.frontier] == ["a", "b"]
    assert after.frontier[0] is due[0]
    assert [one.task.arg for one in after.deferred] == ["kept"]


# -- what a caller of a subgraph is told


def test_reports_hold_what_was_written_to_fields_that_merge_in_order(make: Any, program: Any) -> None:
    before = make.checkpoint({}, make.tasks("a"), reported=(("log", ["earlier"]),))
    results = [make.result("a", [("log", [1]), ("x", 2), ("log", [3])]), make.result("b", {"total": 4, "signal": "s"})]
    after = make.checkpoint()

    assert record_reported_updates(program, before, after, results).reported == (
        ("log", ["earlier"]),
        ("log", [1]),
        ("x", None),
        ("log", [3]),
        ("total", 4),
    )


def test_a_field_that_holds_one_value_is_reported_once(make: Any, program: Any) -> None:
    before = make.checkpoint({}, make.tasks("a"), reported=(("x", None),))

    assert record_reported_updates(program, before, make.checkpoint(), [make.result("a", {"x": 3})]).reported == (
        ("x", None),
    )


@pytest.mark.parametrize("update", [Overwrite([1]), {"__overwrite__": [1]}])
def test_a_field_that_was_replaced_is_reported_by_its_value_and_stays_so(make: Any, program: Any, update: Any) -> None:
    before = make.checkpoint({}, make.tasks("a"), reported=(("log", ["lost"]), ("total", 4)))

    first = record_reported_updates(program, before, make.checkpoint({"log": [1]}), [make.result("a", {"log": update})])
    assert first.reported == (("log", Overwrite([1])), ("total", 4))
    second = record_reported_updates(program, first, make.checkpoint({"log": [1, 2]}), [make.result("a", {"log": [2]})])
    assert second.reported == (("log", Overwrite([1, 2])), ("total", 4))


# -- what has to be stored


@pytest.mark.parametrize(
    ("writes", "stored"),
    [
        ([{"x": 1}], {"x": 1}),
        ([{"x": Overwrite(1)}], {"x": 1}),
        ([{"log": ["new"]}], {"log": Added(["new"])}),
        ([{"log": "new"}], {"log": Added(["new"])}),
        ([{"log": ["one"]}, {"log": ["two", "three"]}], {"log": Added(["one", "two", "three"])}),
        ([{"log": Overwrite(["all"])}], {"log": ["all"]}),
        ([{"total": 2}, {"total": 3}], {"total": 10}),
        ([{"signal": "s"}], {"signal": "s"}),
        ([{"handle": object()}], {}),
        ([{"handle": object(), "x": 1}, {}], {"x": 1}),
        ([{}], {}),
        ([[("log", [1]), ("log", [2])]], {"log": Added([1, 2])}),
    ],
)
def test_a_change_is_stored_as_small_as_its_channel_knows(make: Any, program: Any, writes: Any, stored: Any) -> None:
    values = {"x": 0, "log": ["old"], "total": 5}
    results = [make.result(node, one) for node, one in zip("ab", writes, strict=False)]

    assert deltas_of_results(program, results, values, folded_values(program, values, results)) == stored


def test_an_unlisted_key_of_an_open_state_is_stored_whole(make: Any) -> None:
    program = make.program(entered(make.graph("a", schema={"log": append})))
    results = [make.result("a", {"free": {"any": "thing"}})]

    assert deltas_of_results(program, results, {}, folded_values(program, {}, results)) == {"free": {"any": "thing"}}


def test_a_brief_signal_that_is_gone_again_is_not_stored(make: Any, program: Any) -> None:
    results = [make.result("a", {"brief": "b", "x": 1})]

    assert deltas_of_results(program, results, {}, folded_values(program, {}, results)) == {"x": 1}


@pytest.mark.parametrize(
    ("old", "writes", "stored"),
    [
        ({"signal": "old"}, {"x": 1}, {"x": 1, "signal": MISSING}),
        ({"signal": "old"}, {}, {"signal": MISSING}),
        ({"signal": "old"}, {"signal": "new"}, {"signal": "new"}),
        ({"brief": "old"}, {"brief": "new"}, {"brief": MISSING}),
        ({"handle": "kept"}, {}, {}),
        ({}, {}, {}),
    ],
)
def test_a_signal_that_is_gone_is_stored_as_missing(
    make: Any, program: Any, old: Any, writes: Any, stored: Any
) -> None:
    results = [make.result("a", writes)]

    assert deltas_of_results(program, results, old, folded_values(program, old, results)) == stored


def test_a_signal_that_no_checkpoint_keeps_is_not_stored_when_it_is_gone(make: Any) -> None:
    class Passing(Ephemeral):
        saved = False

    program = make.program(entered(make.graph("a", schema={"passing": Passing()})))
    results = [make.result("a", {})]

    assert deltas_of_results(program, results, {"passing": 1}, folded_values(program, {"passing": 1}, results)) == {}


# -- what has to be stored of many supersteps


GROWN, OTHER = ["old"], ["other"]


@pytest.mark.parametrize(
    ("old", "new", "stored"),
    [
        ({"log": GROWN}, {"log": [*GROWN, "new"]}, {"log": Added(["new"])}),
        ({"log": GROWN}, {"log": OTHER}, {"log": OTHER}),
        ({"log": GROWN}, {"log": GROWN}, {}),
        ({}, {"log": GROWN}, {"log": GROWN}),
        ({"x": "same"}, {"x": "same"}, {}),
        ({"x": "one"}, {"x": "other"}, {"x": "other"}),
        ({"x": 1, "signal": "s"}, {"x": 1}, {"signal": MISSING}),
        ({"x": 1, "free": "f"}, {"x": 1}, {"free": MISSING}),
        ({"handle": 1}, {"handle": 2}, {}),
        ({"handle": 1}, {}, {}),
        ({}, {}, {}),
    ],
)
def test_values_are_compared_where_many_supersteps_lie_between(program: Any, old: Any, new: Any, stored: Any) -> None:
    assert deltas_of_values(program, old, new) == stored
