"""What is said of a run that is to be started."""

from __future__ import annotations

from contextlib import nullcontext
from pathlib import Path
from types import SimpleNamespace

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


@pytest.mark.parametrize(("options", "is_reported"), [((), False), (("--idempotency-key", "k"), True)])
def test_only_a_key_of_the_user_is_reported_as_used_before(
    folder: Path, statewright: Command, monkeypatch: pytest.MonkeyPatch, options: tuple[str, ...], is_reported: bool
) -> None:
    """A client draws a key where none was given, and repeats a start whose answer was lost."""
    runs = SimpleNamespace(start=lambda *arguments, **options: SimpleNamespace(id="run_1", created=False))
    monkeypatch.setattr(
        "statewright.cli.runs.start.open_client", lambda *a, **k: nullcontext(SimpleNamespace(runs=runs))
    )
    ended = statewright("runs", "start", "double", *options)
    assert (ended.code, ended.out, "already started" in ended.err) == (0, "run_1\n", is_reported)
