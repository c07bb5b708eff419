"""Folding writes into the state."""

from typing import Annotated, Any, TypedDict

import pytest

from statewright import START, append
from statewright.channels import AnyValue, Ephemeral, Overwrite, Topic
from statewright.errors import ConflictingWrites
from statewright.runtime.core.fold import drop_transients, fold_results, fold_writes, write_pairs, writing_nodes


def bracket(old: str, new: str) -> str:
    """A reducer that is neither associative nor commutative, so that order and grouping are visible."""
    return f"({old}{new})"


class Fields(TypedDict, total=False):
    x: Any
    y: Any
    log: Annotated[list[Any], append]
    text: Annotated[str, bracket]
    signal: Annotated[str, Ephemeral()]
    brief: Annotated[str, Ephemeral(lifetime="step")]
    guarded: Annotated[str, Ephemeral(guard=True)]
    agreed: Annotated[str, AnyValue()]
    topic: Annotated[list[Any], Topic()]


@pytest.fixture
def program(make: Any) -> Any:
    graph = make.graph("a", "b", "c", schema=Fields)
    return make.program(graph.add_edge(START, "a").add_edge(START, "b").add_edge(START, "c"))


@pytest.fixture
def open_program(make: Any) -> Any:
    return make.program(make.graph("a", "b", schema={"log": append}).add_edge(START, "a").add_edge(START, "b"))


START_VALUES: dict[str, Any] = {"x": 0, "log": ["old"], "text": "-"}
ONE_WRITER: list[tuple[Any, dict[str, Any]]] = [
    ({}, {}),
    ({"x": 1}, {"x": 1}),
    ({"x": None}, {"x": None}),
    ({"y": 2}, {"y": 2}),
    ({"x": Overwrite(5)}, {"x": 5}),
    ({"log": ["new"]}, {"log": ["old", "new"]}),
    ({"log": "new"}, {"log": ["old", "new"]}),
    ({"log": Overwrite(["new"])}, {"log": ["new"]}),
    ({"log": {"__overwrite__": ["new"]}}, {"log": ["new"]}),
    ({"text": "a"}, {"text": "(-a)"}),
    ({"text": Overwrite("a")}, {"text": "a"}),
    ({"signal": Overwrite("now")}, {"signal": "now"}),
    ([("x", 1), ("x", 2)], {"x": 2}),
    ([("text", "a"), ("x", 1), ("text", "b")], {"text": "((-a)b)", "x": 1}),
    ([("log", [1]), ("log", [2])], {"log": ["old", 1, 2]}),
    ([("x", Overwrite(1)), ("x", Overwrite(2))], {"x": 2}),
    ([("log", [1]), ("log", Overwrite([2]))], {"log": [2]}),
]


@pytest.mark.parametrize(("writes", "changed"), ONE_WRITER)
def test_writes_of_one_task_are_folded_into_the_state(
    make: Any, program: Any, writes: Any, changed: dict[str, Any]
) -> None:
    assert fold_writes(program, START_VALUES, make.result("a", writes)) == {**START_VALUES, **changed}


@pytest.mark.parametrize(("writes", "changed"), ONE_WRITER)
def test_writes_of_one_task_are_folded_alike_alone_and_among_others(
    make: Any, program: Any, writes: Any, changed: Any
) -> None:
    results = [make.result("a", writes), make.result("b")]

    assert fold_results(program, START_VALUES, results) == fold_writes(program, START_VALUES, results[0])


@pytest.mark.parametrize(
    ("first", "second", "folded"),
    [
        ({"log": [1]}, {"log": [2]}, {"log": ["old", 1, 2]}),
        ({"log": [1]}, {"log": 2, "x": 3}, {"log": ["old", 1, 2], "x": 3}),
        ({"text": "a"}, {"text": "b"}, {"text": "((-a)b)"}),
        ({"text": Overwrite("a")}, {"text": "b"}, {"text": "a"}),
        ({"text": "a"}, {"text": Overwrite("b")}, {"text": "b"}),
        ({"signal": "a"}, {"signal": "b"}, {"signal": "b"}),
        ({"agreed": "a"}, {"agreed": "b"}, {"agreed": "b"}),
        ({"topic": "a"}, {"topic": ["b", "c"]}, {"topic": ["a", "b", "c"]}),
        ([("text", "a"), ("text", "b")], {"text": "c"}, {"text": "(((-a)b)c)"}),
        ([("x", 1), ("x", 2)], {"y": 1}, {"x": 2, "y": 1}),
    ],
)
def test_writes_of_several_tasks_are_folded_in_task_order(
    make: Any, program: Any, first: Any, second: Any, folded: dict[str, Any]
) -> None:
    results = [make.result("a", first), make.result("b", second)]

    assert fold_results(program, START_VALUES, results) == {**START_VALUES, **folded}


@pytest.mark.parametrize(
    ("channel", "first", "second", "message"),
    [
        ("x", 1, 2, "keeps one value"),
        ("x", 1, 1, "keeps one value"),
        ("x", Overwrite(1), Overwrite(2), "keeps one value"),
        ("log", Overwrite([1]), Overwrite([2]), "one Overwrite"),
        ("text", Overwrite("a"), {"__overwrite__": "b"}, "one Overwrite"),
        ("guarded", "a", "b", "guarded"),
    ],
)
def test_the_error_of_conflicting_writes_has_the_channel_and_the_nodes(
    make: Any, program: Any, channel: str, first: Any, second: Any, message: str
) -> None:
    results = [make.result("c", {channel: first}), make.result("b", {}), make.result("a", {channel: second})]

    with pytest.raises(ConflictingWrites, match=message) as caught:
        fold_results(program, START_VALUES, results)
    assert (caught.value.channel, caught.value.nodes) == (channel, ("c", "a"))


def test_two_overwrites_of_a_reduced_field_in_one_result_conflict(make: Any, program: Any) -> None:
    result = make.result("a", [("log", Overwrite([1])), ("log", Overwrite([2]))])

    with pytest.raises(ConflictingWrites, match="one Overwrite"):
        fold_writes(program, START_VALUES, result)


def test_two_tasks_of_one_node_that_write_a_plain_field_conflict(make: Any, program: Any) -> None:
    results = [make.result(make.task("a", number, position=number), {"x": number}) for number in range(2)]

    with pytest.raises(ConflictingWrites) as caught:
        fold_results(program, START_VALUES, results)
    assert caught.value.nodes == ("a", "a")


def test_an_undeclared_key_of_an_open_state_is_a_plain_field(make: Any, open_program: Any) -> None:
    single = fold_writes(open_program, {}, make.result("a", {"free": Overwrite(1)}))
    several = fold_results(open_program, {}, [make.result("a", {"free": Overwrite(1)}), make.result("b", {"more": 2})])
    conflicting = [make.result("a", {"free": 1}), make.result("b", {"free": 2})]

    assert (single, several) == ({"free": 1}, {"free": 1, "more": 2})
    with pytest.raises(ConflictingWrites, match="'free' was written by 'a' and 'b'"):
        fold_results(open_program, {}, conflicting)


def test_an_error_of_a_reducer_has_a_note_with_the_channel_and_the_nodes(make: Any, program: Any) -> None:
    results = [make.result("a", {"x": 1}), make.result("b", {"log": [1]}), make.result("c", {"log": [2]})]

    with pytest.raises(Exception, match="Only a list") as caught:
        fold_results(program, {"log": "no list"}, results)
    assert caught.value.__notes__ == ["while channel 'log' folded the writes of 'b', 'c'"]


@pytest.mark.parametrize("count", [1, 2])
def test_folding_does_not_change_the_old_values(make: Any, program: Any, count: int) -> None:
    log = ["old"]
    values = {"x": 0, "log": log, "text": "-"}
    results = [make.result("a", {"x": 1, "log": [1], "text": "a"}), make.result("b", {"log": [2], "y": 2})][:count]

    new = fold_results(program, values, results) if count > 1 else fold_writes(program, values, results[0])

    assert new["log"][:2] == ["old", 1]
    assert (values, log) == ({"x": 0, "log": ["old"], "text": "-"}, ["old"])


def test_a_written_list_is_copied_into_the_state(make: Any, program: Any) -> None:
    written = [1]
    new = fold_writes(program, {}, make.result("a", {"log": written}))
    written.append(2)

    assert new["log"] == [1]


@pytest.mark.parametrize(
    ("writes", "kept"),
    [
        ({}, {"x": 0}),
        ({"x": 1}, {"x": 0}),
        ({"signal": "new"}, {"x": 0, "signal": "s"}),
        ({"topic": ["new"]}, {"x": 0, "topic": ["t"]}),
        ({"brief": "new"}, {"x": 0}),
        ([("signal", "new"), ("topic", ["new"])], {"x": 0, "signal": "s", "topic": ["t"]}),
    ],
)
def test_transient_values_are_dropped_unless_written_again(make: Any, program: Any, writes: Any, kept: Any) -> None:
    values = {"x": 0, "signal": "s", "topic": ["t"], "brief": "b"}

    assert drop_transients(program, values, [make.result("a"), make.result("b", writes)]) == kept


def test_writing_nodes_are_in_task_order(make: Any) -> None:
    results = [make.result("c", {"x": 1}), make.result("a"), make.result("b", [("y", 1), ("x", 1)])]

    assert writing_nodes("x", results) == ["c", "b"]


@pytest.mark.parametrize(
    ("writes", "pairs"),
    [({"x": 1, "y": 2}, [("x", 1), ("y", 2)]), ([("x", 1), ("x", 2)], [("x", 1), ("x", 2)]), ({}, [])],
)
def test_write_pairs_returns_pairs_for_both_forms_of_writes(make: Any, writes: Any, pairs: Any) -> None:
    assert list(write_pairs(make.result("a", writes))) == pairs
