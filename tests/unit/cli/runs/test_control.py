"""Commands that control a run."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.unit.cli.conftest import Command

from statewright.cli.console.failure import UsageError
from statewright.cli.workflow.inputs import read_text, read_value


def test_edited_content_is_json_text_or_a_file(folder: Path) -> None:
    (folder / "better.json").write_text('{"a": [1]}', encoding="utf-8")
    (folder / "better.txt").write_text("Dear Ada\n", encoding="utf-8")
    assert [read_value(read_text(text)) for text in ("5", "Dear Ada", "@better.json", "@better.txt")] == [
        5,
        "Dear Ada",
        {"a": [1]},
        "Dear Ada\n",
    ]
    with pytest.raises(UsageError, match="The input file 'none' cannot be read"):
        read_text("@none")


def test_an_approval_has_one_decision(folder: Path, statewright: Command) -> None:
    result = statewright("runs", "approve", "a", "--reject", "--edit", "1")
    assert (result.code, result.err) == (2, "Error: Use only one of --reject and --edit.\n")
