"""Options of `statewright runs start`."""

from __future__ import annotations

from contextlib import nullcontext
from datetime import UTC, datetime
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from tests.unit.cli.conftest import Command

from statewright.cli.console.failure import UsageError
from statewright.cli.runs.start import read_metadata


def test_the_queue_and_the_priority_are_sent_if_they_are_given(
    folder: Path, statewright: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    sent: list[dict[str, Any]] = []

    def start(*arguments: Any, **options: Any) -> SimpleNamespace:
        sent.append({name: value for name, value in options.items() if value is not None})
        return SimpleNamespace(id="run_1", created=True)

    client = SimpleNamespace(runs=SimpleNamespace(start=start))
    monkeypatch.setattr("statewright.cli.runs.start.open_client", lambda *a, **k: nullcontext(client))
    assert statewright("runs", "start", "double", "--queue", "gpu", "--priority", "-5").code == 0
    assert statewright("runs", "start", "double").code == 0
    assert sent == [{"queue": "gpu", "priority": -5}, {}]
    assert statewright("runs", "start", "double", "--concurrency-key", "c", "--concurrency-limit", "2").code == 0
    assert statewright("runs", "start", "double", "--on-busy", "enqueue", "--after", "2026-03-01T18:00+01:00").code == 0
    assert sent[2:] == [
        {"concurrency_key": "c", "concurrency_limit": 2},
        {"on_busy": "enqueue", "after": datetime(2026, 3, 1, 17, tzinfo=UTC)},
    ]
    assert statewright("runs", "start", "double", "--priority", 1001).code == 2


def test_metadata_is_parsed() -> None:
    assert read_metadata(["a=b", "c=d=e", "f="]) == {"a": "b", "c": "d=e", "f": ""}


@pytest.mark.parametrize("text", ["a", "=b", ""])
def test_invalid_metadata_is_refused(text: str) -> None:
    with pytest.raises(UsageError, match="does not have the form NAME=VALUE"):
        read_metadata([text])


@pytest.mark.parametrize("words", [(), ("a", "--definition", "def_1")])
def test_a_graph_or_a_definition_is_required(folder: Path, statewright: Command, words: tuple[str, ...]) -> None:
    result = statewright("runs", "start", *words)
    assert (result.code, result.err) == (2, "Error: Specify either the name of a graph or --definition ID.\n")


@pytest.mark.parametrize(("options", "is_reported"), [((), False), (("--idempotency-key", "k"), True)])
def test_only_the_idempotency_key_of_the_user_is_reported_as_used(
    folder: Path, statewright: Command, monkeypatch: pytest.MonkeyPatch, options: tuple[str, ...], is_reported: bool
) -> None:
    """Without a key, the client sends a random one, and repeats a start whose answer was lost."""
    runs = SimpleNamespace(start=lambda *arguments, **options: SimpleNamespace(id="run_1", created=False))
    monkeypatch.setattr(
        "statewright.cli.runs.start.open_client", lambda *a, **k: nullcontext(SimpleNamespace(runs=runs))
    )
    result = statewright("runs", "start", "double", *options)
    assert (result.code, result.out, "started earlier" in result.err) == (0, "run_1\n", is_reported)
