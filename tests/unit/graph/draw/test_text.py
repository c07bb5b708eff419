"""The text output: complete boxes, lines from each source to each target, and loops below."""

from __future__ import annotations

import re
from itertools import pairwise
from typing import NamedTuple

import pytest

from statewright.graph.draw import Drawing, DrawnEdge, DrawnNode
from statewright.graph.draw.text import render_text

UP, DOWN, LEFT, RIGHT = (-1, 0), (1, 0), (0, -1), (0, 1)
DIRECTIONS = {
    "│": (UP, DOWN), "─": (LEFT, RIGHT), "┌": (DOWN, RIGHT), "┐": (DOWN, LEFT), "└": (UP, RIGHT), "┘": (UP, LEFT),
    "├": (UP, DOWN, RIGHT), "┤": (UP, DOWN, LEFT), "┬": (LEFT, RIGHT, DOWN), "┴": (LEFT, RIGHT, UP),
    "┼": (UP, DOWN, LEFT, RIGHT), "▼": (UP,),
}  # fmt: skip


class Box(NamedTuple):
    top: int
    left: int
    right: int

    @property
    def middle(self) -> int:
        return (self.left + self.right) // 2


def lines(drawing: Drawing) -> list[str]:
    drawn = render_text(drawing)
    width = max(map(len, drawn.splitlines()), default=0)
    return [line.ljust(width) for line in drawn.splitlines()]


def boxes(drawing: Drawing) -> dict[str, Box]:
    """Return the position of each box. Fail if a box is not complete."""
    rows = [row for row in lines(drawing) if not row.startswith("↺")]
    positions: dict[str, Box] = {}
    for node in drawing.nodes:
        label = rf"[│║┆]( *{re.escape(node.label)} *)[│║┆]"
        ((number, match),) = ((number, match) for number, row in enumerate(rows) for match in re.finditer(label, row))
        left, right = match.start(), match.end() - 1
        assert re.fullmatch(r"[┌╭]─+[┐╮]", rows[number - 1][left : right + 1])
        assert re.fullmatch(r"[└╰]─+[┘╯]", rows[number + 1][left : right + 1])
        positions[node.label] = Box(number - 1, left, right)
    return positions


def reachable_heads(rows: list[str], start: tuple[int, int]) -> set[tuple[int, int]]:
    """Return the arrow heads that lines from below a box reach."""
    seen: set[tuple[int, int]] = set()
    walk = [start]
    while walk:
        row, column = walk.pop()
        if (row, column) in seen or row >= len(rows):
            continue
        seen.add((row, column))
        for down, right in DIRECTIONS.get(rows[row][column], ()):
            neighbour = rows[row + down][column + right]
            if (-down, -right) in DIRECTIONS.get(neighbour, ()):
                walk.append((row + down, column + right))
    return {(row, column) for row, column in seen if rows[row][column] == "▼"}


def test_every_node_is_one_complete_box(shape: Drawing) -> None:
    assert list(boxes(shape)) == [node.label for node in shape.nodes]


def test_no_two_boxes_touch(shape: Drawing) -> None:
    placed = sorted(boxes(shape).values())
    for first, second in pairwise(placed):
        assert second.top >= first.top + 3 or (second.top == first.top and second.left > first.right + 1)


def test_every_downward_edge_has_a_line_to_its_target(shape: Drawing) -> None:
    rows, placed = lines(shape), boxes(shape)
    drawn = "\n".join(rows)
    for edge in shape.edges:
        if f"↺ {edge.source} → {edge.target}" in drawn:
            continue
        source, target = placed[edge.source], placed[edge.target]
        assert source.top < target.top
        assert (target.top - 1, target.middle) in reachable_heads(rows, (source.top + 3, source.middle)), edge


def test_every_arrow_points_at_a_box(shape: Drawing) -> None:
    heads = {(number, match.start()) for number, row in enumerate(lines(shape)) for match in re.finditer("▼", row)}
    assert heads <= {(box.top - 1, box.middle) for box in boxes(shape).values()}


def test_lines_have_no_trailing_spaces_and_the_text_ends_with_one_line_break(shape: Drawing) -> None:
    drawn = render_text(shape)
    assert not re.search(r"[ \t]\n", drawn)
    assert drawn.endswith("\n")
    assert not drawn.endswith("\n\n")


@pytest.mark.parametrize(
    ("edges", "loops"),
    [
        ([("a", "b", "")], []),
        ([("a", "a", "")], ["↺ a → a"]),
        ([("a", "b", ""), ("b", "a", "")], ["↺ b → a"]),
        ([("a", "b", ""), ("b", "a", "again"), ("b", "b", "")], ["↺ b → a  (again)", "↺ b → b"]),
    ],
)
def test_loops_are_listed_below_with_their_labels(edges: list[tuple[str, str, str]], loops: list[str]) -> None:
    drawn_edges = tuple(DrawnEdge(source, target, "plain", label) for source, target, label in edges)
    drawn = render_text(Drawing("loops", (DrawnNode("a", "a"), DrawnNode("b", "b")), drawn_edges))
    assert [line for line in drawn.splitlines() if line.startswith("↺")] == loops


def test_kinds_of_nodes_have_different_boxes(kinds: Drawing) -> None:
    drawn = render_text(kinds)
    assert "│ start │" in drawn
    assert "┆ waiting ┆" in drawn
    assert "║ inner ║" in drawn
    assert drawn.count("╭") == drawn.count("╯") == 2


def test_the_label_of_an_edge_is_next_to_its_arrow() -> None:
    nodes = (DrawnNode("a", "a"), DrawnNode("b", "b"))
    drawn = render_text(Drawing("labels", nodes, (DrawnEdge("a", "b", "conditional", "if it rains"),)))
    assert "▼ if it rains" in drawn


def test_labels_of_parallel_edges_are_listed_once() -> None:
    nodes = (DrawnNode("a", "a"), DrawnNode("b", "b"))
    edges = tuple(DrawnEdge("a", "b", "conditional", label) for label in ("yes", "maybe", "yes"))
    assert "▼ yes, maybe" in render_text(Drawing("labels", nodes, edges))


@pytest.mark.parametrize("label", ["two words", "[brackets]", "a|b", "<b>", "tab\\t"])
def test_names_with_special_characters_have_complete_boxes(label: str) -> None:
    drawing = Drawing("odd", (DrawnNode("1", label), DrawnNode("2", "b")), (DrawnEdge("1", "2"),))
    assert set(boxes(drawing)) == {label, "b"}


def test_the_text_of_a_small_drawing() -> None:
    nodes = (DrawnNode("s", "start", "start"), DrawnNode("a", "work"), DrawnNode("e", "end", "end"))
    drawing = Drawing(
        "small", nodes, (DrawnEdge("s", "a"), DrawnEdge("a", "a", "conditional", "more"), DrawnEdge("a", "e"))
    )
    assert render_text(drawing).splitlines() == [
        "╭───────╮",
        "│ start │",
        "╰───────╯",
        "    │",
        "    ▼",
        "┌───────┐",
        "│  work │",
        "└───────┘",
        "    │",
        "    ▼",
        " ╭─────╮",
        " │ end │",
        " ╰─────╯",
        "",
        "↺ work → work  (more)",
    ]


def test_an_empty_drawing_is_an_empty_line() -> None:
    assert render_text(Drawing("nothing", (), ())).strip() == ""


def test_labels_of_neighbouring_arrows_do_not_overlap() -> None:
    nodes = tuple(DrawnNode(name, name) for name in "abc")
    choices = ("approved by the boss", "rejected by the team")
    edges = tuple(DrawnEdge("a", end, "conditional", choice) for end, choice in zip("bc", choices, strict=True))
    drawn = render_text(Drawing("labels", nodes, edges))
    assert [choice for choice in choices if choice not in drawn] == []


def test_a_name_with_line_breaks_has_one_box() -> None:
    drawn = render_text(Drawing("lines", (DrawnNode("a", "one\ntwo"),), ()))
    assert len(drawn.splitlines()) == 3
