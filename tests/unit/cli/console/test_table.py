"""Tables: nothing is cut off, on terminals of any width and in pipes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from rich.cells import cell_len

from statewright.cli.console.table import Column, format_instant, print_fields, print_table
from statewright.clock import SystemClock

COLUMNS = (Column("ID", keep_words=True), Column("STEP", keep_words=True, right=True), Column("NODES"))
ID = "0123456789abcdef" * 2
ROWS = [(ID, 3, ", ".join(f"node-{n}" for n in range(12))), ("b", 10, "")]


def test_output_to_programs_is_plain_and_not_folded(capsys: Any) -> None:
    print_table(COLUMNS, ROWS)
    lines = capsys.readouterr().out.splitlines()
    assert [line.split()[0] for line in lines] == ["ID", ID, "b"]
    assert lines[1].endswith("node-11")
    assert all(line == line.rstrip() and "\x1b" not in line for line in lines)
    assert len({line.index("STEP") + 4 if "STEP" in line else line.index("3", 33) + 1 for line in lines[:2]}) == 1


@pytest.fixture
def terminal(monkeypatch: pytest.MonkeyPatch) -> Callable[[int], None]:
    """Return a function that sets the width of the terminal."""
    for name, value in {"FORCE_COLOR": "1", "NO_COLOR": "1", "TERM": "xterm"}.items():
        monkeypatch.setenv(name, value)
    return lambda width: monkeypatch.setenv("COLUMNS", str(width))


@pytest.mark.parametrize("width", [20, 40, 48, 80, 120])
def test_a_table_fits_on_the_terminal_and_nothing_is_cut_off(
    width: int, capsys: Any, terminal: Callable[[int], None]
) -> None:
    terminal(width)
    print_table(COLUMNS, ROWS)
    text = _without_styles(capsys.readouterr().out)
    assert max(len(line) for line in text.splitlines()) <= width
    cells = [*(column.title for column in COLUMNS), *(str(cell) for row in ROWS for cell in row)]
    assert sorted("".join(text.split())) == sorted("".join("".join(cells).split()))


@pytest.mark.parametrize("width", [48, 80, 120])
def test_names_are_not_broken_if_there_is_room(width: int, capsys: Any, terminal: Callable[[int], None]) -> None:
    terminal(width)
    print_table(COLUMNS, ROWS)
    assert ID in capsys.readouterr().out


def test_instants_and_words_are_folded_before_names(capsys: Any, terminal: Callable[[int], None]) -> None:
    terminal(80)
    titles = ("RUN", "GRAPH", "STATUS", "STEP", "CREATED", "TAGS")
    columns = [Column(title, keep_words=title in ("RUN", "STATUS", "CREATED")) for title in titles]
    run = f"run_{ID}"
    print_table(columns, [(run, "send-the-mail", "completed", "approve", "2026-11-23 14:20:17", "a, b")])
    lines = _without_styles(capsys.readouterr().out).splitlines()
    assert max(len(line) for line in lines) <= 80
    assert all(any(name in line for line in lines) for name in (run, "completed", "2026-11-23", "14:20:17"))


def test_each_record_is_one_line_for_programs(capsys: Any) -> None:
    print_table([Column("A"), Column("B")], [("one\ntwo", "x" * 500), ("tab\tbed", "two  spaces")])
    assert capsys.readouterr().out.splitlines()[1:] == [f"one two  {'x' * 500}", "tab bed  two  spaces"]


def test_a_table_without_titles_has_no_header(capsys: Any) -> None:
    print_table([Column(), Column()], [("a", "b")])
    assert capsys.readouterr().out == "a  b\n"


def test_wide_characters_count_as_two_cells(capsys: Any, terminal: Callable[[int], None]) -> None:
    terminal(30)
    print_table([Column("A"), Column("B")], [("名" * 20, "b")])
    lines = _without_styles(capsys.readouterr().out).splitlines()
    assert max(cell_len(line) for line in lines) <= 30
    assert sum(line.count("名") for line in lines) == 20


@pytest.mark.parametrize("width", [40, 200])
def test_fields_are_printed_one_per_line(width: int, capsys: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", str(width))
    print_fields([("thread", "a [b]"), ("status", "x" * 100)])
    assert capsys.readouterr().out == f"thread  a [b]\nstatus  {'x' * 100}\n"


def test_an_instant_is_formatted_to_the_second() -> None:
    assert len(format_instant(SystemClock().now())) == 19


def _without_styles(text: str) -> str:
    import re

    return re.sub("\x1b\\[[0-9;]*m", "", text)
