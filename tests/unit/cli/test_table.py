"""Tables: nothing is cut off, on terminals of any width and elsewhere."""

from __future__ import annotations

from typing import Any

import pytest

from statewright.cli.table import Column, moment, print_fields, print_table
from statewright.clock import SystemClock

COLUMNS = (Column("ID", whole=True), Column("STEP", whole=True, right=True), Column("NODES"))
ID = "0123456789abcdef" * 2
ROWS = [(ID, 3, ", ".join(f"node-{n}" for n in range(12))), ("b", 10, "")]


def test_for_programs_it_is_as_wide_as_it_is_and_plain(capsys: Any) -> None:
    print_table(COLUMNS, ROWS)
    lines = capsys.readouterr().out.splitlines()
    assert [line.split()[0] for line in lines] == ["ID", ID, "b"]
    assert lines[1].endswith("node-11")
    assert all(line == line.rstrip() and "\x1b" not in line for line in lines)
    assert len({line.index("STEP") + 4 if "STEP" in line else line.index("3", 33) + 1 for line in lines[:2]}) == 1


@pytest.mark.parametrize("width", [40, 80, 120])
def test_on_terminals_it_fits_and_names_stay_whole(width: int, capsys: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FORCE_COLOR", "1")
    monkeypatch.setenv("NO_COLOR", "1")
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("COLUMNS", str(width))
    print_table(COLUMNS, ROWS)
    text = _plain(capsys.readouterr().out)
    assert ID in text
    assert all(f"node-{n}" in text for n in range(12))
    assert max(len(line.rstrip()) for line in text.splitlines()) <= max(width, 32 + 2 + 4 + 2 + 8)


@pytest.mark.parametrize("width", [40, 200])
def test_names_and_what_they_mean(width: int, capsys: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", str(width))
    print_fields([("thread", "a [b]"), ("status", "x" * 100)])
    assert capsys.readouterr().out == f"thread  a [b]\nstatus  {'x' * 100}\n"


def test_an_instant_is_read_to_the_second() -> None:
    assert len(moment(SystemClock().now())) == 19


def _plain(text: str) -> str:
    import re

    return re.sub("\x1b\\[[0-9;]*m", "", text)
