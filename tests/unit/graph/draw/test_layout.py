"""Where boxes go: every box in one layer, everything but loops from top to bottom."""

from __future__ import annotations

from graphlib import TopologicalSorter
from itertools import pairwise

import pytest

from statewright.graph.draw import Drawing, DrawnEdge, DrawnNode
from statewright.graph.draw.layout import Layout, lay_out


def of(nodes: str, *edges: str) -> Drawing:
    ends = (edge.split("-") for edge in edges)
    drawn = tuple(DrawnEdge(source, target) for source, target in ends)
    return Drawing("layout", tuple(DrawnNode(name, name) for name in nodes.split()), drawn)


def layer_of(layout: Layout) -> dict[object, int]:
    return {slot: number for number, layer in enumerate(layout.layers) for slot in layer}


def test_every_node_has_one_place(shape: Drawing) -> None:
    placed = [slot for layer in lay_out(shape).layers for slot in layer if isinstance(slot, str)]
    assert sorted(placed) == sorted(node.id for node in shape.nodes)


def test_no_layer_is_empty(shape: Drawing) -> None:
    assert all(lay_out(shape).layers)


def test_every_edge_runs_down_or_closes_a_loop(shape: Drawing) -> None:
    layout = lay_out(shape)
    assert sorted([*layout.paths, *layout.loops]) == list(range(len(shape.edges)))


def test_a_path_goes_from_source_to_target_one_layer_at_a_time(shape: Drawing) -> None:
    layout = lay_out(shape)
    place = layer_of(layout)
    for number, path in layout.paths.items():
        assert (path[0], path[-1]) == (shape.edges[number].source, shape.edges[number].target)
        assert all(place[lower] == place[upper] + 1 for upper, lower in pairwise(path))


def test_bends_are_the_places_of_edges_that_pass_a_layer_by(shape: Drawing) -> None:
    layout = lay_out(shape)
    bends = [slot for layer in layout.layers for slot in layer if not isinstance(slot, str)]
    assert sorted(bends) == sorted(bend for path in layout.paths.values() for bend in path[1:-1])  # type: ignore[type-var]
    assert len(set(bends)) == len(bends)


def test_without_the_loops_nothing_comes_round(shape: Drawing) -> None:
    sorter: TopologicalSorter[str] = TopologicalSorter()
    for number in lay_out(shape).paths:
        sorter.add(shape.edges[number].target, shape.edges[number].source)
    ends = {end for number in lay_out(shape).paths for end in (shape.edges[number].source, shape.edges[number].target)}
    assert set(sorter.static_order()) == ends  # raises for a circle


def test_a_node_stands_one_layer_below_the_lowest_that_leads_to_it(shape: Drawing) -> None:
    layout = lay_out(shape)
    place = layer_of(layout)
    for node in shape.nodes:
        above = [place[path[0]] for path in layout.paths.values() if path[-1] == node.id]
        assert place[node.id] == max(above, default=-1) + 1


def test_the_same_drawing_has_the_same_layout(shape: Drawing) -> None:
    assert lay_out(shape) == lay_out(Drawing("another name", shape.nodes, shape.edges))


@pytest.mark.parametrize(
    ("drawing", "loops"),
    [
        (of("a b c", "a-b", "b-c", "a-c"), ()),
        (of("a", "a-a"), (0,)),
        (of("a b", "a-b", "b-a"), (1,)),
        (of("a b", "b-a", "a-b"), (0,)),
        (of("a b c", "a-b", "b-c", "c-a", "c-b"), (2, 3)),
        (of("a b", "a-b", "a-a", "b-b"), (1, 2)),
    ],
)
def test_only_edges_that_lead_back_are_loops(drawing: Drawing, loops: tuple[int, ...]) -> None:
    assert lay_out(drawing).loops == loops


def test_lines_that_need_not_cross_do_not() -> None:
    layout = lay_out(of("a b d c", "a-c", "b-d"))
    assert layout.layers == (("a", "b"), ("c", "d"))


def test_a_layer_that_an_edge_passes_by_keeps_a_place_for_it() -> None:
    layout = lay_out(of("a b c", "a-b", "b-c", "a-c"))
    assert layout.paths[2] == ("a", (2, 1), "c")
    assert [len(layer) for layer in layout.layers] == [1, 2, 1]


def test_nothing_has_no_layers() -> None:
    assert lay_out(Drawing("nothing", (), ())) == Layout((), {}, ())


def test_long_chains_need_no_recursion() -> None:
    names = [f"n{number}" for number in range(5000)]
    edges = [f"{one}-{other}" for one, other in pairwise(names)]
    layout = lay_out(of(" ".join(names), *edges, "n4999-n0"))
    assert (len(layout.layers), layout.loops) == (5000, (4999,))
