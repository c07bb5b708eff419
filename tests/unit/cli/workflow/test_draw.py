"""`statewright draw`: every format, to standard output or to a file."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest

FORMATS = ("ascii", "mermaid", "dot", "svg", "json")


@pytest.mark.parametrize("form", FORMATS)
def test_every_format_shows_the_nodes_and_ends_with_one_line_break(statewright: Any, flow: Path, form: str) -> None:
    result = statewright("draw", flow, "--format", form)
    assert (result.code, result.err) == (0, "")
    assert "double" in result.out
    assert result.out.endswith("\n")
    assert not result.out.endswith("\n\n")


def test_the_default_format_is_ascii(statewright: Any, flow: Path) -> None:
    assert statewright("draw", flow).out == statewright("draw", flow, "-f", "ascii").out


def test_json_has_nodes_and_edges(statewright: Any, flow: Path) -> None:
    drawn = json.loads(statewright("draw", flow, "-f", "json").out)
    assert [node["label"] for node in drawn["nodes"]] == ["start", "double", "end"]
    assert len(drawn["edges"]) == 2


def test_svg_is_xml(statewright: Any, flow: Path) -> None:
    assert ElementTree.fromstring(statewright("draw", flow, "-f", "svg").out).tag.endswith("svg")


@pytest.mark.parametrize("form", FORMATS)
def test_a_file_has_the_same_content_as_the_output(statewright: Any, flow: Path, form: str) -> None:
    printed = statewright("draw", flow, "-f", form).out
    result = statewright("draw", flow, "-f", form, "--output", "drawn.txt")
    assert (result.code, result.out, result.err) == (0, "", "")
    assert (flow.parent / "drawn.txt").read_text(encoding="utf-8") == printed


@pytest.mark.parametrize("output", ["no/such/folder.svg", "."])
def test_a_file_that_cannot_be_written_is_reported(statewright: Any, flow: Path, output: str) -> None:
    result = statewright("draw", flow, "-o", output)
    assert (result.code, result.out) == (2, "")
    assert f"Error: The drawing cannot be written to '{output}'" in result.err


def test_xray_shows_the_nodes_of_subgraphs(statewright: Any, flow: Path) -> None:
    closed = json.loads(statewright("draw", "flow.py:outer", "-f", "json").out)
    opened = json.loads(statewright("draw", "flow.py:outer", "-f", "json", "--xray").out)
    assert [node["label"] for node in closed["nodes"]] == ["start", "inner", "end"]
    assert "double" in [node["label"] for node in opened["nodes"]]


def test_a_drawing_is_deterministic(statewright: Any, flow: Path) -> None:
    assert statewright("draw", flow, "-f", "svg") == statewright("draw", flow, "-f", "svg")
