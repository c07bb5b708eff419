"""Lines from where there is no terminal."""

from __future__ import annotations

import io

import pytest

from statewright.cli.chat.input import Lines


def test_lines_come_one_by_one_until_there_are_no_more(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("sys.stdin", io.StringIO("one\r\n\nlast"))
    lines = Lines()
    assert [lines.read("> ") for _ in range(5)] == ["one", "", "last", None, None]
    assert not lines.is_terminal
    assert capsys.readouterr() == ("", "")


def test_what_is_no_text_is_replaced(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(b"caf\xe9\n"), encoding="utf-8"))
    assert Lines().read("> ") == "caf\N{REPLACEMENT CHARACTER}"
