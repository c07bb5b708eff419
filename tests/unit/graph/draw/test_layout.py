"""The layout of drawings: every node is in one layer, and all edges but loops run down."""

from __future__ import annotations

from graphlib import TopologicalSorter
from itertools import pairwise

import pytest

from statewright.graph.draw import Drawing, DrawnEdge, DrawnNode
from statewright.graph.draw.layout import Layout, lay_out


def drawing_of(nodes: str, *edges: str) -> Drawing:
    ends = (edge.split("-") for edge in edges)
    drawn = tuple(DrawnEdge(source, target) for source, target in ends)
    return Drawing("layout", tuple(DrawnNode(name, name) for name in nodes.split()), drawn)


def layer_of(layout: Layout) -> dict[object, int]:
    return {slot: number for number, layer in enumerate(layout.layers) for slot in layer}


def test_every_node_is_in_one_layer(shape: Drawing) -> None:
    placed = [slot for layer in lay_out(shape).layers for slot in layer if isinstance(slot, str)]
    assert sorted(placed) == sorted(node.id for node in shape.nodes)


def test_no_layer_is_empty(shape: Drawing) -> None:
    assert all(lay_out(shape).layers)


def test_every_edge_is_a_path_or_a_loop(shape: Drawing) -> None:
    layout = lay_out(shape)
    assert sorted([*layout.paths, *layout.loops]) == list(range(len(shape.edges)))


def test_a_path_leads_from_source_to_target_through_every_layer(shape: Drawing) -> None:
    layout = lay_out(shape)
    layers = layer_of(layout)
    for number, path in layout.paths.items():
        assert (path[0], path[-1]) == (shape.edges[number].source, shape.edges[number].target)
        assert all(layers[lower] == layers[upper] + 1 for upper, lower in pairwise(path))


def test_bends_are_the_slots_of_paths_between_their_ends(shape: Drawing) -> None:
    layout = lay_out(shape)
    bends = [slot for layer in layout.layers for slot in layer if not isinstance(slot, str)]
    assert sorted(bends) == sorted(bend for path in layout.paths.values() for bend in path[1:-1])  # type: ignore[type-var]
    assert len(set(bends)) == len(bends)


def test_paths_have_no_cycles(shape: Drawing) -> None:
    sorter: TopologicalSorter[str] = TopologicalSorter()
    for number in lay_out(shape).paths:
        sorter.add(shape.edges[number].target, shape.edges[number].source)
    ends = {end for number in lay_out(shape).paths for end in (shape.edges[number].source, shape.edges[number].target)}
    assert set(sorter.static_order()) == ends  # raises for a cycle


def test_a_node_is_one_layer_below_its_lowest_predecessor(shape: Drawing) -> None:
    layout = lay_out(shape)
    layers = layer_of(layout)
    for node in shape.nodes:
        above = [layers[path[0]] for path in layout.paths.values() if path[-1] == node.id]
        assert layers[node.id] == max(above, default=-1) + 1


def test_the_same_drawing_has_the_same_layout(shape: Drawing) -> None:
    assert lay_out(shape) == lay_out(Drawing("another name", shape.nodes, shape.edges))


@pytest.mark.parametrize(
    ("drawing", "loops"),
    [
        (drawing_of("a b c", "a-b", "b-c", "a-c"), ()),
        (drawing_of("a", "a-a"), (0,)),
        (drawing_of("a b", "a-b", "b-a"), (1,)),
        (drawing_of("a b", "b-a", "a-b"), (0,)),
        (drawing_of("a b c", "a-b", "b-c", "c-a", "c-b"), (2, 3)),
        (drawing_of("a b", "a-b", "a-a", "b-b"), (1, 2)),
    ],
)
def test_only_edges_that_lead_back_are_loops(drawing: Drawing, loops: tuple[int, ...]) -> None:
    assert lay_out(drawing).loops == loops


def test_layers_are_ordered_to_avoid_crossings() -> None:
    layout = lay_out(drawing_of("a b d c", "a-c", "b-d"))
    assert layout.layers == (("a", "b"), ("c", "d"))


def test_a_layer_has_a_slot_for_an_edge_that_passes_through() -> None:
    layout = lay_out(drawing_of("a b c", "a-b", "b-c", "a-c"))
    assert layout.paths[2] == ("a", (2, 1), "c")
    assert [len(layer) for layer in layout.layers] == [1, 2, 1]


def test_an_empty_drawing_has_no_layers() -> None:
    assert lay_out(Drawing("nothing", (), ())) == Layout((), {}, ())


def test_the_layout_of_a_long_chain_needs_no_recursion() -> None:
    names = [f"n{number}" for number in range(5000)]
    edges = [f"{source}-{target}" for source, target in pairwise(names)]
    layout = lay_out(drawing_of(" ".join(names), *edges, "n4999-n0"))
    assert (len(layout.layers), layout.loops) == (5000, (4999,))
