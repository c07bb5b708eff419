"""Workflows of steps are checked before a server is called."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from tests.unit.cli.conftest import Command


def test_a_valid_workflow(folder: Path, statewright: Command) -> None:
    body = {"name": "x", "version": "1", "steps": [{"name": "a", "type": "task", "handler": "any"}]}
    (folder / "good.json").write_text(json.dumps(body), encoding="utf-8")
    assert statewright("definitions", "check", "good.json").out == "ok: x 1, 1 step\n"


@pytest.mark.parametrize("command", ["check", "add"])
@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("{", "bad.json has 1 problem:\n  1. Line 1, column 2: It is not valid JSON"),
        ('{"name": "x", "version": "1", "steps": [{"name": "a", "type": "task"}]}', "'handler' is missing."),
        ('{"name": "x", "version": "1", "steps": [{"name": "a", "type": "taks"}]}', "Did you mean 'task'?"),
        ("[]", "bad.json has 1 problem"),
    ],
)
def test_every_problem_is_reported(folder: Path, statewright: Command, command: str, text: str, message: str) -> None:
    (folder / "bad.json").write_text(text, encoding="utf-8")
    result = statewright("definitions", command, "bad.json")
    assert (result.code, result.out) == (2, "")
    assert message in result.err


def test_a_missing_file_is_reported(folder: Path, statewright: Command) -> None:
    result = statewright("definitions", "check", "none.json")
    assert (result.code, "The file 'none.json' cannot be read" in result.err) == (2, True)
