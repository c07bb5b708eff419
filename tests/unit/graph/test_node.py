"""Nodes, join edges and branches."""

from typing import Any

import pytest

from statewright.graph import Branch, JoinEdge, Node


def nothing(state: Any) -> None: ...


def test_a_node_has_defaults() -> None:
    node = Node(name="a", action=nothing)

    assert (node.join, node.memory, node.destinations, node.undeclared) == ("any", "call", None, False)
    assert (node.on, node.inline, node.error_handler, node.tags, node.metadata) == ((), False, None, (), {})
    assert not node.is_subgraph


def test_nodes_do_not_share_metadata() -> None:
    assert Node(name="a", action=nothing).metadata is not Node(name="b", action=nothing).metadata


def test_different_join_edges_have_different_keys() -> None:
    edges = [
        JoinEdge(("a", "b"), "c"),
        JoinEdge(("b", "a"), "c"),
        JoinEdge(("a", "b"), "d"),
        JoinEdge(("a+b", "c"), "d"),
        JoinEdge(("a", "b+c"), "d"),
        JoinEdge(("a", "b"), "c>d"),
        JoinEdge(("a", "b>c"), "d"),
        JoinEdge(("a,b", "c"), "d"),
        JoinEdge(("a", "b,c"), "d"),
        JoinEdge(("a', 'b", "c"), "d"),
        JoinEdge(("a", "b', 'c"), "d"),
    ]

    assert len({edge.key for edge in edges}) == len(edges)


def test_the_key_of_a_join_edge_is_a_stable_string() -> None:
    assert JoinEdge(("a", "b"), "c").key == JoinEdge(("a", "b"), "c").key
    assert isinstance(JoinEdge(("a", "b"), "c").key, str)


@pytest.mark.parametrize(
    ("path", "name"), [(nothing, "nothing"), (lambda s: s, "<lambda>"), (type("P", (), {})(), "P")]
)
def test_a_branch_is_named_by_its_function(path: Any, name: str) -> None:
    assert Branch("a", path, None).name == name
