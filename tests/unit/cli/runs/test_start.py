"""What is said of a run that is to be started."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.unit.cli.conftest import Command

from statewright.cli.console.failure import UsageError
from statewright.cli.runs.start import read_metadata


def test_metadata_are_names_with_values() -> None:
    assert read_metadata(["a=b", "c=d=e", "f="]) == {"a": "b", "c": "d=e", "f": ""}


@pytest.mark.parametrize("text", ["a", "=b", ""])
def test_what_has_no_name_is_refused(text: str) -> None:
    with pytest.raises(UsageError, match="is not NAME=VALUE"):
        read_metadata([text])


@pytest.mark.parametrize("words", [(), ("a", "--definition", "def_1")])
def test_one_thing_is_started(folder: Path, statewright: Command, words: tuple[str, ...]) -> None:
    ended = statewright("runs", "start", *words)
    assert (ended.code, ended.err) == (2, "Error: Give the name of a graph, or --definition ID.\n")
