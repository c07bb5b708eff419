"""Drawings as text: whole boxes, lines that lead from each source to each target, and loops below."""

from __future__ import annotations

import re
from itertools import pairwise
from typing import NamedTuple

import pytest

from statewright.graph.draw import Drawing, DrawnEdge, DrawnNode
from statewright.graph.draw.text import text

UP, DOWN, LEFT, RIGHT = (-1, 0), (1, 0), (0, -1), (0, 1)
WAYS = {
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
    drawn = text(drawing)
    width = max(map(len, drawn.splitlines()), default=0)
    return [line.ljust(width) for line in drawn.splitlines()]


def boxes(drawing: Drawing) -> dict[str, Box]:
    """Where each box stands; every box has to be whole."""
    rows = [row for row in lines(drawing) if not row.startswith("↺")]
    found: dict[str, Box] = {}
    for node in drawing.nodes:
        label = rf"[│║┆]( *{re.escape(node.label)} *)[│║┆]"
        ((number, match),) = ((number, match) for number, row in enumerate(rows) for match in re.finditer(label, row))
        left, right = match.start(), match.end() - 1
        assert re.fullmatch(r"[┌╭]─+[┐╮]", rows[number - 1][left : right + 1])
        assert re.fullmatch(r"[└╰]─+[┘╯]", rows[number + 1][left : right + 1])
        found[node.label] = Box(number - 1, left, right)
    return found


def reached(rows: list[str], start: tuple[int, int]) -> set[tuple[int, int]]:
    """The arrow heads to which lines lead from below a box."""
    seen: set[tuple[int, int]] = set()
    walk = [start]
    while walk:
        row, column = walk.pop()
        if (row, column) in seen or row >= len(rows):
            continue
        seen.add((row, column))
        for down, right in WAYS.get(rows[row][column], ()):
            beside = rows[row + down][column + right]
            if (-down, -right) in WAYS.get(beside, ()):
                walk.append((row + down, column + right))
    return {(row, column) for row, column in seen if rows[row][column] == "▼"}


def test_every_node_is_one_whole_box(shape: Drawing) -> None:
    assert list(boxes(shape)) == [node.label for node in shape.nodes]


def test_no_two_boxes_touch(shape: Drawing) -> None:
    placed = sorted(boxes(shape).values())
    for one, other in pairwise(placed):
        assert other.top >= one.top + 3 or (other.top == one.top and other.left > one.right + 1)


def test_every_edge_that_runs_down_can_be_followed_to_its_target(shape: Drawing) -> None:
    rows, placed = lines(shape), boxes(shape)
    below = "\n".join(rows)
    for edge in shape.edges:
        if f"↺ {edge.source} → {edge.target}" in below:
            continue
        source, target = placed[edge.source], placed[edge.target]
        assert source.top < target.top
        assert (target.top - 1, target.middle) in reached(rows, (source.top + 3, source.middle)), edge


def test_every_arrow_points_at_a_box(shape: Drawing) -> None:
    heads = {(number, at.start()) for number, row in enumerate(lines(shape)) for at in re.finditer("▼", row)}
    assert heads <= {(box.top - 1, box.middle) for box in boxes(shape).values()}


def test_lines_end_without_blanks_and_the_drawing_with_one_line_break(shape: Drawing) -> None:
    drawn = text(shape)
    assert not re.search(r"[ \t]\n", drawn)
    assert drawn.endswith("\n")
    assert not drawn.endswith("\n\n")


@pytest.mark.parametrize(
    ("ends", "listed"),
    [
        ([("a", "b", "")], []),
        ([("a", "a", "")], ["↺ a → a"]),
        ([("a", "b", ""), ("b", "a", "")], ["↺ b → a"]),
        ([("a", "b", ""), ("b", "a", "again"), ("b", "b", "")], ["↺ b → a  (again)", "↺ b → b"]),
    ],
)
def test_loops_are_listed_below_with_what_chooses_them(ends: list[tuple[str, str, str]], listed: list[str]) -> None:
    edges = tuple(DrawnEdge(source, target, "plain", label) for source, target, label in ends)
    drawn = text(Drawing("loops", (DrawnNode("a", "a"), DrawnNode("b", "b")), edges))
    assert [line for line in drawn.splitlines() if line.startswith("↺")] == listed


def test_kinds_of_nodes_are_told_apart(kinds: Drawing) -> None:
    drawn = text(kinds)
    assert "│ start │" in drawn
    assert "┆ waiting ┆" in drawn
    assert "║ inner ║" in drawn
    assert drawn.count("╭") == drawn.count("╯") == 2


def test_what_chooses_an_edge_stands_beside_its_arrow() -> None:
    nodes = (DrawnNode("a", "a"), DrawnNode("b", "b"))
    drawn = text(Drawing("labels", nodes, (DrawnEdge("a", "b", "conditional", "if it rains"),)))
    assert "▼ if it rains" in drawn


def test_several_reasons_for_one_way_are_listed_once_each() -> None:
    nodes = (DrawnNode("a", "a"), DrawnNode("b", "b"))
    edges = tuple(DrawnEdge("a", "b", "conditional", label) for label in ("yes", "maybe", "yes"))
    assert "▼ yes, maybe" in text(Drawing("labels", nodes, edges))


@pytest.mark.parametrize("label", ["two words", "[brackets]", "a|b", "<b>", "tab\\t"])
def test_odd_names_stand_in_whole_boxes(label: str) -> None:
    drawing = Drawing("odd", (DrawnNode("1", label), DrawnNode("2", "b")), (DrawnEdge("1", "2"),))
    assert set(boxes(drawing)) == {label, "b"}


def test_a_small_drawing_looks_like_this() -> None:
    nodes = (DrawnNode("s", "start", "start"), DrawnNode("a", "work"), DrawnNode("e", "end", "end"))
    drawing = Drawing(
        "small", nodes, (DrawnEdge("s", "a"), DrawnEdge("a", "a", "conditional", "more"), DrawnEdge("a", "e"))
    )
    assert text(drawing).splitlines() == [
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


def test_nothing_is_an_empty_line() -> None:
    assert text(Drawing("nothing", (), ())).strip() == ""


def test_labels_beside_each_other_can_be_read() -> None:
    nodes = tuple(DrawnNode(name, name) for name in "abc")
    reasons = ("approved by the boss", "rejected by nobody")
    edges = tuple(DrawnEdge("a", end, "conditional", why) for end, why in zip("bc", reasons, strict=True))
    drawn = text(Drawing("labels", nodes, edges))
    assert [why for why in reasons if why not in drawn] == []


def test_a_name_of_several_lines_stays_in_its_box() -> None:
    drawn = text(Drawing("lines", (DrawnNode("a", "one\ntwo"),), ()))
    assert len(drawn.splitlines()) == 3
