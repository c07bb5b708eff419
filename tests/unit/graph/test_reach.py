"""Reachability and components, compared with a simple implementation."""

import itertools

from hypothesis import given, settings
from hypothesis import strategies as st
from tests.work import examples

from statewright.graph.reach import components, reachability

Successors = dict[str, frozenset[str]]


@st.composite
def graphs(draw: st.DrawFn) -> tuple[list[str], Successors]:
    names = [chr(ord("a") + number) for number in range(draw(st.integers(0, 9)))]
    order = draw(st.permutations(names))
    if not names:
        return order, {}
    ends = st.frozensets(st.sampled_from(names), max_size=4)
    return order, {name: draw(ends) for name in names if draw(st.booleans())}


def closure(order: list[str], successors: Successors) -> dict[str, set[str]]:
    """Return the nodes that each node reaches in one step or more, by walking."""
    reached: dict[str, set[str]] = {}
    for name in order:
        seen: set[str] = set()
        pending = list(successors.get(name, ()))
        while pending:
            target = pending.pop()
            if target not in seen:
                seen.add(target)
                pending.extend(successors.get(target, ()))
        reached[name] = seen
    return reached


@settings(max_examples=examples(300), derandomize=True, database=None, deadline=None)
@given(graphs())
def test_reachability_equals_the_transitive_closure(graph: tuple[list[str], Successors]) -> None:
    order, successors = graph
    bits = reachability(order, successors)

    reached = {name: {other for index, other in enumerate(order) if bits[name] >> index & 1} for name in order}
    assert reached == closure(order, successors)


@settings(max_examples=examples(300), derandomize=True, database=None, deadline=None)
@given(graphs())
def test_components_are_the_cycles_in_reverse_topological_order(graph: tuple[list[str], Successors]) -> None:
    order, successors = graph
    reach = closure(order, successors)
    groups = components(order, successors)
    position = {name: number for number, members in enumerate(groups) for name in members}

    assert sorted(name for members in groups for name in members) == sorted(order)
    for name in order:
        for other in order:
            in_one_cycle = name == other or (other in reach[name] and name in reach[other])
            assert (position[name] == position[other]) == in_one_cycle
            if other in reach[name] and not in_one_cycle:
                assert position[other] < position[name]


def test_a_node_reaches_itself_only_in_a_cycle() -> None:
    successors = {"a": frozenset("b"), "b": frozenset("c"), "c": frozenset("b")}

    assert reachability("abc", successors) == {"a": 0b110, "b": 0b110, "c": 0b110}


def test_reachability_of_a_long_chain_needs_no_recursion() -> None:
    order = [str(number) for number in range(5000)]
    successors = {name: frozenset([following]) for name, following in itertools.pairwise(order)}

    reach = reachability(order, successors)
    assert reach["0"].bit_count() == 4999
    assert reach["4999"] == 0
