"""Workflows of steps, checked before anybody is asked."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from tests.unit.cli.conftest import Command


def test_a_workflow_that_is_right_is_told(folder: Path, statewright: Command) -> None:
    body = {"name": "x", "version": "1", "steps": [{"name": "a", "type": "task", "handler": "any"}]}
    (folder / "good.json").write_text(json.dumps(body), encoding="utf-8")
    assert statewright("definitions", "check", "good.json").out == "ok: x 1, 1 step\n"


@pytest.mark.parametrize("command", ["check", "add"])
@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("{", "bad.json has 1 problem:\n  1. Line 1, column 2: It is not valid JSON"),
        ('{"name": "x", "version": "1", "steps": [{"name": "a", "type": "task"}]}', "'handler' is missing."),
        ('{"name": "x", "version": "1", "steps": [{"name": "a", "type": "taks"}]}', "Did you mean 'task'?"),
        ("[]", "bad.json has 1 problem"),
    ],
)
def test_every_problem_is_told(folder: Path, statewright: Command, command: str, text: str, said: str) -> None:
    (folder / "bad.json").write_text(text, encoding="utf-8")
    ended = statewright("definitions", command, "bad.json")
    assert (ended.code, ended.out) == (2, "")
    assert said in ended.err


def test_a_file_that_is_not_there_is_told(folder: Path, statewright: Command) -> None:
    ended = statewright("definitions", "check", "none.json")
    assert (ended.code, "The file 'none.json' cannot be read" in ended.err) == (2, True)
