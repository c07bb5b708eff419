"""Lines of input without a terminal."""

from __future__ import annotations

import io

import pytest

from statewright.cli.chat.input import LineReader


def test_lines_are_read_until_the_end_of_the_input(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("sys.stdin", io.StringIO("one\r\n\nlast"))
    lines = LineReader()
    assert [lines.read("> ") for _ in range(5)] == ["one", "", "last", None, None]
    assert not lines.is_terminal
    assert capsys.readouterr() == ("", "")


def test_invalid_bytes_are_replaced(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(b"caf\xe9\n"), encoding="utf-8"))
    assert LineReader().read("> ") == "caf\N{REPLACEMENT CHARACTER}"
