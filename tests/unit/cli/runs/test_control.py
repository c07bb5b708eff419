"""Commands that control a run."""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from tests.unit.cli.conftest import Command

from statewright.cli.console.failure import UsageError
from statewright.cli.runs import control
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


class RecordedRuns:
    """The runs of a client, of which some ids are retried."""

    def __init__(self, ids: list[str]) -> None:
        self.ids = ids
        self.filters: list[dict[str, Any]] = []

    def retry(self, run_id: str) -> Any:
        return SimpleNamespace(id=run_id, status="running")

    def retry_all(self, **filters: Any) -> list[str]:
        self.filters.append(filters)
        return self.ids


@pytest.fixture
def runs(monkeypatch: pytest.MonkeyPatch) -> RecordedRuns:
    recorded = RecordedRuns([])

    @contextmanager
    def open_client(url: str | None) -> Generator[Any]:
        yield SimpleNamespace(runs=recorded)

    monkeypatch.setattr(control, "open_client", open_client)
    return recorded


def test_a_retried_run_is_due_and_not_called_running(runs: RecordedRuns, statewright: Command) -> None:
    assert statewright("runs", "retry", "run_1").out == "run_1 is due again.\n"


@pytest.mark.parametrize(
    ("ids", "message"), [([], "0 runs are"), (["run_1"], "1 run is"), (["run_1", "run_2"], "2 runs are")]
)
def test_the_runs_that_were_set_aside_are_retried_together(
    runs: RecordedRuns, statewright: Command, ids: list[str], message: str
) -> None:
    runs.ids = ids
    assert statewright("runs", "retry", "--dead", "--graph", "g", "--queue", "q").out == f"{message} due again.\n"
    assert runs.filters == [{"dead": True, "graph": "g", "queue": "q"}]


@pytest.mark.parametrize("words", [(), ("run_1", "--dead"), ("run_1", "--graph", "g"), ("--queue", "q")])
def test_a_retry_names_a_run_or_all_that_were_set_aside(
    runs: RecordedRuns, statewright: Command, words: tuple[str, ...]
) -> None:
    assert (statewright("runs", "retry", *words).code, runs.filters) == (2, [])
