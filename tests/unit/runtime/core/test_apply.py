"""Applying results to a checkpoint, and the deltas to store."""

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
    record_updates_for_caller,
)


class Fields(TypedDict, total=False):
    x: Any
    y: Any
    log: Annotated[list[Any], append]
    total: Annotated[int, lambda old, new: old + new]
    signal: Annotated[str, Ephemeral()]
    brief: Annotated[str, Ephemeral(lifetime="step")]
    handle: Annotated[Any, Untracked()]


def with_entry_edges(graph: Any) -> Any:
    for name in graph.nodes:
        graph.add_edge(START, name)
    return graph


@pytest.fixture
def program(make: Any) -> Any:
    return make.program(with_entry_edges(make.graph("a", "b", "c", schema=Fields)).add_edge("a", "b"))


@pytest.fixture
def waiting_program(make: Any) -> Any:
    graph = with_entry_edges(make.graph("a", "b", "c", schema=Fields, c={"join": "idle"}))
    return make.program(graph.add_edge("a", "b").add_edge(["b", "c"], "a"))


def copy_of(checkpoint: Checkpoint) -> Checkpoint:
    """Return a copy that changes in place cannot reach."""
    return copy.deepcopy(checkpoint)


def test_the_next_checkpoint_has_the_next_step_and_the_id_of_its_commit(make: Any, program: Any) -> None:
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
def test_the_targets_of_a_task_are_the_next_tasks(
    make: Any, request: pytest.FixtureRequest, program_name: str, targets: Any, due: list[str]
) -> None:
    program = request.getfixturevalue(program_name)
    before = make.checkpoint(frontier=make.tasks("a"))

    after = apply_results(program, before, [make.result("a", {}, targets, goto=True)], "commit", "commit")

    tasks = [*after.frontier, *(deferred.task for deferred in after.deferred)]
    assert sorted(task.node for task in tasks) == due


def test_ids_of_tasks_depend_on_the_origin_and_not_on_the_commit(make: Any, program: Any) -> None:
    before, results = make.checkpoint(frontier=make.tasks("a")), [make.result("a", {}, ["b"])]

    first, second = (apply_results(program, before, results, commit, "origin") for commit in ("one", "other"))

    assert (first.id, second.id) == ("one", "other")
    assert first.frontier[0].id == second.frontier[0].id


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
def test_applying_results_is_repeatable_and_does_not_change_the_checkpoint(
    make: Any, request: pytest.FixtureRequest, program_name: str, results_of: Any
) -> None:
    program, results = request.getfixturevalue(program_name), results_of(make)
    before = make.checkpoint(
        {"x": 0, "log": ["old"], "total": 5, "signal": "s"},
        make.tasks("a", "b"),
        [DeferredTask(make.task("c", origin="earlier"))],
        joins={"'b' + 'c' -> 'a'": frozenset("c")},
    )
    original = copy_of(before)

    first = apply_results(program, before, results, "commit", "commit")
    first_copy = copy_of(first)
    second = apply_results(program, before, results, "commit", "commit")

    assert before == original
    assert second == first == first_copy


def test_a_conflict_does_not_change_the_checkpoint(make: Any, program: Any) -> None:
    before = make.checkpoint({"x": 0, "log": []}, make.tasks("a", "b"))
    results = [make.result("a", {"log": [1], "x": 1}), make.result("b", {"log": [2], "x": 2})]

    with pytest.raises(ConflictingWrites, match="'a' and 'b'"):
        apply_results(program, before, results, "commit", "commit")
    assert before == make.checkpoint({"x": 0, "log": []}, make.tasks("a", "b"))


def test_a_deferred_task_starts_when_its_node_is_ready(make: Any, waiting_program: Any) -> None:
    before = make.checkpoint(frontier=make.tasks("a", "b"))
    results = [make.result("a", {}, ["b", "c"]), make.result("b")]

    held = apply_results(waiting_program, before, results, "one", "one")
    started = apply_results(waiting_program, held, [make.result("b")], "two", "two")

    assert [task.node for task in held.frontier] == ["b"]
    assert [deferred.task.node for deferred in held.deferred] == ["c"]
    assert [task.id for task in started.frontier] == [held.deferred[0].task.id]
    assert started.deferred == ()


def test_an_ephemeral_value_lasts_for_its_lifetime(make: Any, program: Any) -> None:
    before = make.checkpoint({"x": 0}, make.tasks("a"))

    first = apply_results(program, before, [make.result("a", {"signal": "s", "brief": "b"}, ["b"])], "one", "one")
    second = apply_results(program, first, [make.result("b", {"x": 1}, ["c"])], "two", "two")

    assert first.values == {"x": 0, "signal": "s"}
    assert second.values == {"x": 1}


def test_an_ephemeral_value_is_cleared_after_several_tasks(make: Any, program: Any) -> None:
    before = make.checkpoint({"signal": "s"}, make.tasks("a", "b"))
    results = [make.result("a", {"x": 1}), make.result("b", {"y": 1})]

    assert folded_values(program, before.values, results) == {"x": 1, "y": 1}


# -- results from outside a superstep


def test_external_results_keep_due_and_deferred_tasks(make: Any, program: Any) -> None:
    due = make.tasks("a", origin="earlier")
    held = [DeferredTask(make.task("b", "kept", origin="earlier"), gather=True, sender="a")]
    before = make.checkpoint({"log": []}, due, held)

    after = apply_external_results(program, before, [make.result("c", {"log": ["c"]}, ["b"])], "commit", due, held)

    assert after.values == {"log": ["c"]}
    assert (after.id, after.step) == ("commit", before.step + 1)
    assert [task.node for task in after.frontier] == ["a", "b"]
    assert after.frontier[0] is due[0]
    assert [deferred.task.arg for deferred in after.deferred] == ["kept"]


# -- updates reported to the caller of a subgraph


def test_updates_of_fields_with_reducers_are_reported_in_order(make: Any, program: Any) -> None:
    before = make.checkpoint({}, make.tasks("a"), reported=(("log", ["earlier"]),))
    results = [make.result("a", [("log", [1]), ("x", 2), ("log", [3])]), make.result("b", {"total": 4, "signal": "s"})]
    after = make.checkpoint()

    assert record_updates_for_caller(program, before, after, results).reported == (
        ("log", ["earlier"]),
        ("log", [1]),
        ("x", None),
        ("log", [3]),
        ("total", 4),
    )


def test_a_field_with_one_value_is_reported_once(make: Any, program: Any) -> None:
    before = make.checkpoint({}, make.tasks("a"), reported=(("x", None),))

    assert record_updates_for_caller(program, before, make.checkpoint(), [make.result("a", {"x": 3})]).reported == (
        ("x", None),
    )


@pytest.mark.parametrize("update", [Overwrite([1]), {"__overwrite__": [1]}])
def test_an_overwritten_field_is_reported_by_its_value_from_then_on(make: Any, program: Any, update: Any) -> None:
    before = make.checkpoint({}, make.tasks("a"), reported=(("log", ["lost"]), ("total", 4)))

    first = record_updates_for_caller(
        program, before, make.checkpoint({"log": [1]}), [make.result("a", {"log": update})]
    )
    assert first.reported == (("log", Overwrite([1])), ("total", 4))
    second = record_updates_for_caller(
        program, first, make.checkpoint({"log": [1, 2]}), [make.result("a", {"log": [2]})]
    )
    assert second.reported == (("log", Overwrite([1, 2])), ("total", 4))


# -- deltas of one superstep


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
def test_each_channel_computes_its_delta(make: Any, program: Any, writes: Any, stored: Any) -> None:
    values = {"x": 0, "log": ["old"], "total": 5}
    results = [make.result(node, update) for node, update in zip("ab", writes, strict=False)]

    assert deltas_of_results(program, results, values, folded_values(program, values, results)) == stored


def test_the_delta_of_an_undeclared_key_is_its_value(make: Any) -> None:
    program = make.program(with_entry_edges(make.graph("a", schema={"log": append})))
    results = [make.result("a", {"free": {"any": "thing"}})]

    assert deltas_of_results(program, results, {}, folded_values(program, {}, results)) == {"free": {"any": "thing"}}


def test_an_ephemeral_value_of_one_step_has_no_delta(make: Any, program: Any) -> None:
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
def test_the_delta_of_a_cleared_ephemeral_value_is_missing(
    make: Any, program: Any, old: Any, writes: Any, stored: Any
) -> None:
    results = [make.result("a", writes)]

    assert deltas_of_results(program, results, old, folded_values(program, old, results)) == stored


def test_clearing_an_unsaved_ephemeral_value_has_no_delta(make: Any) -> None:
    class Passing(Ephemeral):
        saved = False

    program = make.program(with_entry_edges(make.graph("a", schema={"passing": Passing()})))
    results = [make.result("a", {})]

    assert deltas_of_results(program, results, {"passing": 1}, folded_values(program, {"passing": 1}, results)) == {}


# -- deltas of several supersteps


LOG, OTHER_LOG = ["old"], ["other"]


@pytest.mark.parametrize(
    ("old", "new", "stored"),
    [
        ({"log": LOG}, {"log": [*LOG, "new"]}, {"log": Added(["new"])}),
        ({"log": LOG}, {"log": OTHER_LOG}, {"log": OTHER_LOG}),
        ({"log": LOG}, {"log": LOG}, {}),
        ({}, {"log": LOG}, {"log": LOG}),
        ({"x": "same"}, {"x": "same"}, {}),
        ({"x": "one"}, {"x": "other"}, {"x": "other"}),
        ({"x": 1, "signal": "s"}, {"x": 1}, {"signal": MISSING}),
        ({"x": 1, "free": "f"}, {"x": 1}, {"free": MISSING}),
        ({"handle": 1}, {"handle": 2}, {}),
        ({"handle": 1}, {}, {}),
        ({}, {}, {}),
    ],
)
def test_deltas_of_several_supersteps_compare_the_values(program: Any, old: Any, new: Any, stored: Any) -> None:
    assert deltas_of_values(program, old, new) == stored
