"""Drawings of various shapes, for the tests of all output formats."""

from __future__ import annotations

import random

import pytest

from statewright.graph.draw import Drawing, DrawnEdge, DrawnNode


def drawing_of(nodes: str, *edges: str) -> Drawing:
    """Return a drawing of named nodes, with edges such as `a-b`."""
    drawn_edges = tuple(DrawnEdge(*edge.split("-")) for edge in edges)
    return Drawing("shape", tuple(DrawnNode(name, name) for name in nodes.split()), drawn_edges)


def random_shape(seed: int) -> Drawing:
    """Return a drawing with loops, parallel edges and unconnected nodes."""
    rng = random.Random(seed)
    names = [f"node{number}{'x' * rng.randrange(8)}" for number in range(rng.randrange(2, 14))]
    edges = [f"{rng.choice(names)}-{rng.choice(names)}" for _ in range(rng.randrange(1, 24))]
    return drawing_of(" ".join(names), *edges)


SHAPES = {
    "one node": drawing_of("a"),
    "chain": drawing_of("a b c d", "a-b", "b-c", "c-d"),
    "diamond": drawing_of("a b c d", "a-b", "a-c", "b-d", "c-d"),
    "self loop": drawing_of("a b", "a-a", "a-b"),
    "only a self loop": drawing_of("a", "a-a"),
    "cycle": drawing_of("a b c", "a-b", "b-c", "c-a"),
    "two cycles": drawing_of("a b c", "a-b", "b-a", "b-c", "c-b"),
    "skipped layers": drawing_of("a b c d e", "a-b", "b-c", "c-d", "d-e", "a-e", "a-d", "b-e"),
    "parallel edges": drawing_of("a b", "a-b", "a-b"),
    "crossing": drawing_of("a b c d", "a-d", "b-c"),
    "complete bipartite": drawing_of("a b c d e f", *(f"{source}-{target}" for source in "abc" for target in "def")),
    "two components": drawing_of("a b c d", "a-b", "c-d"),
    "fan": drawing_of("root " + " ".join(f"leaf{n}" for n in range(9)), *(f"root-leaf{n}" for n in range(9))),
    "different widths": drawing_of("a looooooooooooong b c", "a-looooooooooooong", "a-b", "a-c", "b-c"),
    **{f"random {seed}": random_shape(seed) for seed in range(12)},
}


@pytest.fixture(params=SHAPES.values(), ids=list(SHAPES))
def shape(request: pytest.FixtureRequest) -> Drawing:
    """Return a drawing whose labels are the names of its nodes."""
    return request.param


@pytest.fixture
def kinds() -> Drawing:
    """Return a drawing with each kind of node and edge; no two edges have the same ends."""
    return Drawing(
        "kinds",
        (
            DrawnNode("__start__", "start", "start"),
            DrawnNode("plain", "plain", "node"),
            DrawnNode("waiting", "waiting", "waiting"),
            DrawnNode("inner", "inner", "subgraph"),
            DrawnNode("__end__", "end", "end"),
        ),
        (
            DrawnEdge("__start__", "plain", "plain"),
            DrawnEdge("plain", "waiting", "conditional", "if so"),
            DrawnEdge("plain", "inner", "declared"),
            DrawnEdge("inner", "__end__", "join"),
            DrawnEdge("waiting", "plain", "conditional", "once more"),
        ),
    )


@pytest.fixture(
    params=[
        "end",
        "graph",
        "two words",
        'quo"ted',
        "<b>bold</b>",
        "a&b",
        "a&amp;b",
        "back\\slash",
        "ends in \\",
        "semi;colon",
        "[brackets] (and) {more}",
        "--> x",
        "%% comment",
        "grüße",
        "世界",
        "🙂",
        "'single'",
        "`ticks`",
        "class",
    ]
)
def odd(request: pytest.FixtureRequest) -> str:
    """Return a name with a special meaning in one of the formats."""
    return request.param
