"""Reading the records of a workspace: records of other workspaces count as not existing."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final, Generic, TypeVar

from statewright.async_futures import aresolve
from statewright.errors import InvalidRequest, NotFound
from statewright.runs import (
    ENDED,
    Absent,
    Among,
    Change,
    Condition,
    Ledger,
    Order,
    Record,
    Run,
    RunLabel,
    RunStatus,
    StepStatus,
    Where,
    where,
)
from statewright.service.context.requests import RunFilter

R = TypeVar("R", bound=Record)
LARGEST_PAGE: Final = 100
MOST_LABELS: Final = 50
"""Limit of tags and metadata entries in a filter, and of tags of a run."""
UNFINISHED: Final = [status for status in RunStatus if status not in ENDED]
"""The statuses of runs that have not ended."""
UNFINISHED_STEPS: Final = [StepStatus.PENDING, StepStatus.RUNNING, StepStatus.WAITING]


@dataclass(frozen=True, slots=True)
class Page(Generic[R]):
    """A page of records."""

    items: Sequence[R]
    page: int
    """From 1."""
    page_size: int
    total: int


async def get_own(ledger: Ledger, kind: type[R], workspace_id: str, record_id: str, noun: str) -> R:
    """Return a record of a workspace. Raises NotFound if there is none, or it belongs to another workspace."""
    record: Any = await aresolve(ledger.get(kind, record_id))
    if record is None or record.workspace_id != workspace_id:
        raise NotFound(f"{noun[0].upper()}{noun[1:]} {record_id!r} does not exist in this workspace.")
    return record


async def find_first(ledger: Ledger, kind: type[R], conditions: Where, order: Order | None = None) -> R | None:
    """Return the first of the matching records, sorted by id by default; None if there is none."""
    records = await aresolve(ledger.find(kind, conditions, order=order, limit=1))
    return records[0] if records else None


class Records:
    """Reads the ledger for workspaces."""

    def __init__(self, ledger: Ledger) -> None:
        self._ledger = ledger

    async def run(self, workspace_id: str, run_id: str) -> Run:
        """Return a run. Raises NotFound."""
        return await get_own(self._ledger, Run, workspace_id, run_id, "run")

    async def page(
        self, kind: type[R], conditions: Where, *, page: int, page_size: int, order: Order | None = None
    ) -> Page[R]:
        """Return a page of the matching records, the newest first by default. Raises InvalidRequest."""
        if page < 1 or not 1 <= page_size <= LARGEST_PAGE:
            raise InvalidRequest(
                f"page {page} of {page_size} is not valid: use pages from 1, with a size of 1 to {LARGEST_PAGE}."
            )
        sorted_by = order or Order("created_at", descending=True)
        offset = (page - 1) * page_size
        items = await aresolve(self._ledger.find(kind, conditions, order=sorted_by, limit=page_size, offset=offset))
        total = await aresolve(self._ledger.count(kind, conditions))
        return Page(items, page, page_size, total)

    async def all_of_run(self, kind: type[R], run: Run, *, order: str = "created_at") -> Sequence[R]:
        """Return the records of a kind that belong to a run, the oldest first."""
        return await aresolve(self._ledger.find(kind, where(run_id=run.id), order=Order(order)))


def others_on_thread(run: Run) -> list[Condition]:
    """Return conditions for the other runs that use the thread of a run, or are queued for it."""
    same_thread = where(workspace_id=run.workspace_id, thread_id=run.thread_id)
    return [*same_thread, Condition("id", "!=", run.id), Condition("status", "in", UNFINISHED)]


def conditions_of(workspace_id: str, filters: RunFilter) -> list[Condition]:
    """Return the conditions of a filter of runs. Raises InvalidRequest for too many."""
    names = ("graph", "definition_id", "thread_id", "idempotency_key", "parent_id")
    values = {name: getattr(filters, name) for name in names if getattr(filters, name) is not None}
    conditions = where(workspace_id=workspace_id, **values)
    if filters.status:
        conditions.append(Condition("status", "in", list(filters.status)))
    if filters.created_from is not None:
        conditions.append(Condition("created_at", ">=", filters.created_from))
    if filters.created_to is not None:
        conditions.append(Condition("created_at", "<", filters.created_to))
    labels = [("", tag) for tag in filters.tags] + list(entries_as_text(filters.metadata).items())
    if len(labels) > MOST_LABELS:  # each is a subquery, and databases take only so many
        raise InvalidRequest(f"The filter names {len(labels)} tags and metadata. Give at most {MOST_LABELS}.")
    for name, value in labels:
        conditions.append(Condition("id", "in", Among(RunLabel, "run_id", where(name=name, value=value))))
    return conditions


def entries_as_text(values: Mapping[str, Any]) -> dict[str, str]:
    """Return the entries of a map as searchable text: values that are not strings as JSON."""
    return {
        key: value if isinstance(value, str) else json.dumps(value, sort_keys=True) for key, value in values.items()
    }


async def load_if_claimed(ledger: Ledger, run: Run) -> Run | None:
    """Return the current record of a run if its claim is unchanged; None if the run is gone or has another claim."""
    current = await aresolve(ledger.get(Run, run.id))
    return current if current is not None and current.claim == run.claim else None


def released(due_at: datetime | None) -> dict[str, Any]:
    """Return the columns of a run that its worker releases. It can be claimed again once it is due, if ever."""
    return {"claim": None, "worker_id": None, "due_at": due_at}


def guard_claim(run: Run) -> Change:
    """Return a change that modifies nothing, and is refused unless the run still has the same claim."""
    return Absent(Run, [*where(id=run.id), Condition("claim", "!=", run.claim)])
