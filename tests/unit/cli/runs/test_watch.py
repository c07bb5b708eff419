"""Following a run until it is idle."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from types import SimpleNamespace
from typing import Any

import pytest

from statewright.cli.runs.start import exit_with_outcome, follow_run


@dataclass
class ScriptedRuns:
    """Runs with scripted events and records."""

    scripted_events: Sequence[tuple[str, dict[str, Any]]]
    records: Sequence[Any]
    """The record of the run at each call; the last one is repeated."""
    calls: int = field(default=0, init=False)

    def follow(self, run_id: str, *, after: int = 0) -> Iterator[Any]:
        for seq, (kind, payload) in enumerate(self.scripted_events, 1):
            if seq > after:
                yield SimpleNamespace(seq=seq, event_type=kind, payload=payload)

    def get(self, run_id: str) -> Any:
        self.calls += 1
        return self.records[min(self.calls, len(self.records)) - 1]

    def events(self, run_id: str, *, after: int = 0) -> Any:
        return SimpleNamespace(items=list(self.follow(run_id, after=after)))


def record(status: str, **more: Any) -> Any:
    return SimpleNamespace(
        id="run_1", status=status, next_run_at=None, output={"n": 1}, error=None, raw={"a": 1}, **more
    )


def follow(runs: ScriptedRuns, **options: Any) -> list[str]:
    """Follow a run, and return the types of the events until it is idle."""
    seen: list[str] = []
    client: Any = SimpleNamespace(runs=runs)
    follow_run(client, "run_1", lambda event: seen.append(event.event_type), **options)
    return seen


PAUSE = ("WORKFLOW_PAUSED", {"reason": "approval"})
RESUMED = ("WORKFLOW_RESUMED", {})
END = ("WORKFLOW_COMPLETED", {})


def test_following_ends_when_the_run_waits() -> None:
    runs = ScriptedRuns([PAUSE], [record("waiting")])
    assert follow(runs) == ["WORKFLOW_PAUSED"]


def test_following_continues_after_a_past_pause() -> None:
    assert follow(ScriptedRuns([PAUSE, RESUMED, END], [record("completed")])) == [PAUSE[0], RESUMED[0], END[0]]
    assert follow(ScriptedRuns([PAUSE, RESUMED, PAUSE], [record("waiting")])) == [PAUSE[0], RESUMED[0], PAUSE[0]]


def test_following_continues_while_a_timer_runs() -> None:
    runs = ScriptedRuns([("WORKFLOW_PAUSED", {"reason": "timer"}), RESUMED, END], [record("waiting")])
    assert follow(runs) == ["WORKFLOW_PAUSED", "WORKFLOW_RESUMED", "WORKFLOW_COMPLETED"]


def test_following_continues_after_a_recent_answer() -> None:
    due = record("waiting")
    due.next_run_at = datetime.now(UTC) - timedelta(seconds=1)
    assert follow(ScriptedRuns([PAUSE, END], [due])) == ["WORKFLOW_PAUSED", "WORKFLOW_COMPLETED"]
    claimed = [record("waiting"), record("running")]
    assert follow(ScriptedRuns([PAUSE], claimed)) == ["WORKFLOW_PAUSED"]


def test_a_run_can_be_followed_to_its_end() -> None:
    runs = ScriptedRuns([PAUSE, RESUMED, END], [record("waiting")])
    assert follow(runs, to_the_end=True) == [PAUSE[0], RESUMED[0], END[0]]
    assert follow(ScriptedRuns([PAUSE, END], [record("waiting")]), to_the_end=True, after=1) == [END[0]]


@pytest.mark.parametrize(
    ("status", "code", "out"),
    [
        ("completed", 0, '{\n  "n": 1\n}\n'),
        ("failed", 1, ""),
        ("paused", 3, ""),
        ("cancelled", 130, ""),
        ("running", 1, ""),
    ],
)
def test_the_exit_code_follows_the_status_of_the_run(
    status: str, code: int, out: str, capsys: pytest.CaptureFixture[str]
) -> None:
    client: Any = SimpleNamespace()
    with pytest.raises(SystemExit) as exited:
        exit_with_outcome(client, record(status), None, as_json=False)
    assert (exited.value.code, capsys.readouterr().out) == (code, out)
    with pytest.raises(SystemExit) as exited:
        exit_with_outcome(client, record(status), None, as_json=True)
    assert (exited.value.code, capsys.readouterr().out) == (code, '{\n  "a": 1\n}\n')
