"""The end of a run, and its consequences for webhooks and for the parent run."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Self

from statewright.clock import iso
from statewright.ids import digest
from statewright.runs import ENDED, Announce, Change, Condition, Delete, Insert, Json, Run, RunStatus, Signal, Update
from statewright.runtime import RUN_ENDED
from statewright.service.context.records import release_values
from statewright.service.engine.waits import wake_change


@dataclass(frozen=True, slots=True)
class Ending:
    """The end of a run: its final status, the type and payload of its last event, and its output or error."""

    status: RunStatus
    event: str
    payload: Mapping[str, Json]
    output: Json = None
    error: Json = None

    @classmethod
    def completed(cls, output: Json) -> Self:
        return cls(RunStatus.COMPLETED, "WORKFLOW_COMPLETED", {}, output=output)

    @classmethod
    def failed(cls, error: Mapping[str, Json]) -> Self:
        return cls(RunStatus.FAILED, "WORKFLOW_FAILED", {"error": error}, error=error)

    @classmethod
    def cancelled(cls, reason: str | None) -> Self:
        return cls(RunStatus.CANCELLED, "WORKFLOW_CANCELLED", {"reason": reason})

    @classmethod
    def of(cls, run: Run) -> Self:
        """Return the ending of a run that has ended already."""
        return cls(run.status, f"WORKFLOW_{run.status.upper()}", {}, output=run.output, error=run.error)

    def values(self, now: datetime) -> dict[str, Any]:
        """Return the columns of the run that change when it ends, with their new values."""
        values: dict[str, Any] = {"status": self.status, f"{self.status}_at": now, "error": self.error}
        if self.status is RunStatus.COMPLETED:
            values |= {"output": self.output, "current_step": None}
        return {**values, **release_values(None), "deadline_at": None}

    @staticmethod
    def announcement(run: Run, kind: str, details: Mapping[str, Json], now: datetime) -> Announce:
        """Return the change that announces an event of a run to webhooks."""
        data = {"workflowRunId": run.id, "graph": run.graph, "definitionId": run.definition_id}
        return Announce(run.workspace_id, kind, {**data, "metadata": run.metadata, **details}, now, run.id)


def completion_changes(run: Run, ending: Ending, now: datetime) -> list[Change]:
    """Return the changes for the transaction in which a run ends: webhook messages, and a signal to its parent."""
    details = {"status": str(ending.status), "output": ending.output, "error": ending.error, "endedAt": iso(now)}
    changes: list[Change] = [Ending.announcement(run, f"workflow.{ending.status}", details, now)]
    if run.parent_id is not None and run.parent_waits:
        changes += report_to_parent(run, run.parent_id, ending, now)
    return changes


def report_again(run: Run, parent_id: str, reports: Sequence[Signal]) -> list[Change]:
    """Return the changes that report the end of a run to a parent that begins to wait for it.

    They replace the earlier `reports`. If the run has not ended yet, its end will be reported when it occurs.
    """
    changes: list[Change] = [Update(Signal, signal.id, {"taken": True}) for signal in reports]
    if run.status not in ENDED:
        return changes
    report = report_to_parent(run, parent_id, Ending.of(run), getattr(run, f"{run.status}_at"))
    # The same end may have been reported before: the id of a report is derived from it.
    same_report = [Condition("id", "=", change.record.id) for change in report if isinstance(change, Insert)]
    return [*changes, Delete(Signal, same_report), *report]


def report_to_parent(run: Run, parent_id: str, ending: Ending, now: datetime) -> list[Change]:
    """Return the changes that signal the end of a run to its parent, which may be waiting for it."""
    kind = f"{RUN_ENDED}{run.id}"
    payload = {"runId": run.id, "status": str(ending.status), "output": ending.output, "error": ending.error}
    # The id includes the time, because a run may fail, be retried, and end again: each end is reported.
    signal_id = digest("signal", run.id, kind, now)
    signal = Signal(id=signal_id, run_id=parent_id, type=kind, payload=payload, key=signal_id, created_at=now)
    return [Insert(signal), wake_change(parent_id, now)]
