"""When a run that is followed counts as at rest."""

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
    """Runs whose events and standings are written down."""

    events_told: Sequence[tuple[str, dict[str, Any]]]
    standings: Sequence[Any]
    """How the run stands, look by look; the last one for ever."""
    looks: int = field(default=0, init=False)

    def follow(self, run_id: str, *, after: int = 0) -> Iterator[Any]:
        for seq, (kind, payload) in enumerate(self.events_told, 1):
            if seq > after:
                yield SimpleNamespace(seq=seq, event_type=kind, payload=payload)

    def get(self, run_id: str) -> Any:
        self.looks += 1
        return self.standings[min(self.looks, len(self.standings)) - 1]

    def events(self, run_id: str, *, after: int = 0) -> Any:
        return SimpleNamespace(items=list(self.follow(run_id, after=after)))


def standing(status: str, **more: Any) -> Any:
    return SimpleNamespace(
        id="run_1", status=status, next_run_at=None, output={"n": 1}, error=None, raw={"a": 1}, **more
    )


def told(runs: ScriptedRuns, **options: Any) -> list[str]:
    """The events that were told until the run was left."""
    seen: list[str] = []
    client: Any = SimpleNamespace(runs=runs)
    follow_run(client, "run_1", lambda event: seen.append(event.event_type), **options)
    return seen


PAUSE = ("WORKFLOW_PAUSED", {"reason": "approval"})
GOES_ON = ("WORKFLOW_RESUMED", {})
END = ("WORKFLOW_COMPLETED", {})


def test_a_run_that_waits_for_somebody_is_left() -> None:
    runs = ScriptedRuns([PAUSE], [standing("waiting")])
    assert told(runs) == ["WORKFLOW_PAUSED"]


def test_a_pause_of_the_past_is_passed() -> None:
    assert told(ScriptedRuns([PAUSE, GOES_ON, END], [standing("completed")])) == [PAUSE[0], GOES_ON[0], END[0]]
    assert told(ScriptedRuns([PAUSE, GOES_ON, PAUSE], [standing("waiting")])) == [PAUSE[0], GOES_ON[0], PAUSE[0]]


def test_what_waits_only_for_the_clock_is_waited_for() -> None:
    runs = ScriptedRuns([("WORKFLOW_PAUSED", {"reason": "timer"}), GOES_ON, END], [standing("waiting")])
    assert told(runs) == ["WORKFLOW_PAUSED", "WORKFLOW_RESUMED", "WORKFLOW_COMPLETED"]


def test_an_answer_that_was_just_given_is_waited_for() -> None:
    due = standing("waiting")
    due.next_run_at = datetime.now(UTC) - timedelta(seconds=1)
    assert told(ScriptedRuns([PAUSE, END], [due])) == ["WORKFLOW_PAUSED", "WORKFLOW_COMPLETED"]
    taken_up = [standing("waiting"), standing("running")]
    assert told(ScriptedRuns([PAUSE], taken_up)) == ["WORKFLOW_PAUSED"]


def test_a_run_may_be_watched_to_its_end() -> None:
    runs = ScriptedRuns([PAUSE, GOES_ON, END], [standing("waiting")])
    assert told(runs, to_the_end=True) == [PAUSE[0], GOES_ON[0], END[0]]
    assert told(ScriptedRuns([PAUSE, END], [standing("waiting")]), to_the_end=True, after=1) == [END[0]]


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
def test_the_exit_code_says_how_a_run_stands(
    status: str, code: int, out: str, capsys: pytest.CaptureFixture[str]
) -> None:
    client: Any = SimpleNamespace()
    with pytest.raises(SystemExit) as left:
        exit_with_outcome(client, standing(status), None, as_json=False)
    assert (left.value.code, capsys.readouterr().out) == (code, out)
    with pytest.raises(SystemExit) as left:
        exit_with_outcome(client, standing(status), None, as_json=True)
    assert (left.value.code, capsys.readouterr().out) == (code, '{\n  "a": 1\n}\n')
