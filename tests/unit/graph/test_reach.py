"""Reachability against a closure worked out the slow way."""

import itertools

from hypothesis import given, settings
from hypothesis import strategies as st
from tests.work import examples

from statewright.graph.reach import components, reachability

Ways = dict[str, frozenset[str]]


@st.composite
def graphs(draw: st.DrawFn) -> tuple[list[str], Ways]:
    names = [chr(ord("a") + number) for number in range(draw(st.integers(0, 9)))]
    order = draw(st.permutations(names))
    if not names:
        return order, {}
    ends = st.frozensets(st.sampled_from(names), max_size=4)
    return order, {name: draw(ends) for name in names if draw(st.booleans())}


def closure(order: list[str], ways: Ways) -> dict[str, set[str]]:
    """What each node leads to in one step or more, by walking."""
    found: dict[str, set[str]] = {}
    for name in order:
        seen: set[str] = set()
        pending = list(ways.get(name, ()))
        while pending:
            target = pending.pop()
            if target not in seen:
                seen.add(target)
                pending.extend(ways.get(target, ()))
        found[name] = seen
    return found


@settings(max_examples=examples(300), derandomize=True, database=None, deadline=None)
@given(graphs())
def test_a_node_reaches_what_its_ways_lead_to_in_one_step_or_more(graph: tuple[list[str], Ways]) -> None:
    order, ways = graph
    bits = reachability(order, ways)

    found = {name: {other for place, other in enumerate(order) if bits[name] >> place & 1} for name in order}
    assert found == closure(order, ways)


@settings(max_examples=examples(300), derandomize=True, database=None, deadline=None)
@given(graphs())
def test_components_are_the_cycles_and_each_comes_after_those_it_leads_to(graph: tuple[list[str], Ways]) -> None:
    order, ways = graph
    reach = closure(order, ways)
    found = components(order, ways)
    place = {name: number for number, members in enumerate(found) for name in members}

    assert sorted(name for members in found for name in members) == sorted(order)
    for name in order:
        for other in order:
            together = name == other or (other in reach[name] and name in reach[other])
            assert (place[name] == place[other]) == together
            if other in reach[name] and not together:
                assert place[other] < place[name]


def test_a_node_reaches_itself_only_in_a_cycle() -> None:
    ways = {"a": frozenset("b"), "b": frozenset("c"), "c": frozenset("b")}

    assert reachability("abc", ways) == {"a": 0b110, "b": 0b110, "c": 0b110}


def test_long_chains_need_no_recursion() -> None:
    order = [str(number) for number in range(5000)]
    ways = {name: frozenset([following]) for name, following in itertools.pairwise(order)}

    reach = reachability(order, ways)
    assert reach["0"].bit_count() == 4999
    assert reach["4999"] == 0
