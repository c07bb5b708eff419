"""Queries for the records of a workspace. Records of other workspaces are treated as missing."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, Final, Generic, TypeVar

from statewright.async_futures import aresolve
from statewright.clock import Clock
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
    any_of,
    where,
)
from statewright.service.context.requests import RunFilter
from statewright.stale_reads import for_history

R = TypeVar("R", bound=Record)
MAX_PAGE_SIZE: Final = 100
MAX_LABELS: Final = 50
"""Maximum number of tags and metadata entries in a filter together, and maximum number of tags of a run."""
NEWEST_FIRST: Final = Order("created_at", descending=True)
UNFINISHED: Final = [status for status in RunStatus if status not in ENDED]
"""The statuses of runs that have not ended."""
UNFINISHED_STEPS: Final = [StepStatus.PENDING, StepStatus.RUNNING, StepStatus.WAITING]
"""The statuses of steps that have not ended."""


@dataclass(frozen=True, slots=True)
class Page(Generic[R]):
    """A page of records."""

    items: Sequence[R]
    page: int
    """The page number, starting at 1."""
    page_size: int
    """The maximum number of items per page."""
    total: int
    """The number of items on all pages."""


_SETTLED: Final = timedelta(minutes=5)
"""The time after the end of a run from which its records are read on a replica, which lags behind by less."""


async def get_in_workspace(ledger: Ledger, cls: type[R], workspace_id: str, record_id: str, label: str) -> R:
    """Return a record of a workspace. Raises NotFound if it does not exist or belongs to another workspace.

    `label` says in the error message what the record is, such as `webhook`.
    """
    record: Any = await aresolve(ledger.get(cls, record_id))
    if record is None or record.workspace_id != workspace_id:
        raise NotFound(f"{label.capitalize()} {record_id!r} does not exist in this workspace.")
    return record


async def find_first(ledger: Ledger, cls: type[R], conditions: Where, order: Order | None = None) -> R | None:
    """Return the first matching record, sorted by id by default; None if no record matches."""
    records = await aresolve(ledger.find(cls, conditions, order=order, limit=1))
    return records[0] if records else None


class Records:
    """Queries the ledger for the records of workspaces."""

    def __init__(self, ledger: Ledger, clock: Clock) -> None:
        self._ledger = ledger
        self._clock = clock

    async def run(self, workspace_id: str, run_id: str) -> Run:
        """Return a run. Raises NotFound."""
        return await get_in_workspace(self._ledger, Run, workspace_id, run_id, "run")

    async def page(
        self,
        cls: type[R],
        conditions: Where,
        *,
        page: int,
        page_size: int,
        order: Order = NEWEST_FIRST,
        stale_ok: bool = False,
    ) -> Page[R]:
        """Return a page of the matching records. Raises InvalidRequest for an invalid page number or size.

        With `stale_ok`, the page may show the records of some time ago.
        """
        if page < 1 or not 1 <= page_size <= MAX_PAGE_SIZE:
            raise InvalidRequest(
                f"Page {page} with {page_size} items does not exist. Pages start at 1, and have 1 to {MAX_PAGE_SIZE} "
                f"items."
            )
        offset = (page - 1) * page_size
        ledger = for_history(self._ledger) if stale_ok else self._ledger
        items = await aresolve(ledger.find(cls, conditions, order=order, limit=page_size, offset=offset))
        total = await aresolve(ledger.count(cls, conditions))
        return Page(items, page, page_size, total)

    async def all_of_run(self, cls: type[R], run: Run, *, order: str = "created_at") -> Sequence[R]:
        """Return the records of a class that belong to a run, sorted by the column `order`, ascending."""
        return await aresolve(self.ledger_of(run).find(cls, where(run_id=run.id), order=Order(order)))

    def ledger_of(self, run: Run) -> Ledger:
        """Return the ledger for records of a run that are shown. They may be a little old if it ended long ago, because
        nothing is missing then.
        """
        is_settled = run.status in ENDED and run.updated_at < self._clock.now() - _SETTLED
        return for_history(self._ledger) if is_settled else self._ledger


def others_on_thread(run: Run) -> list[Condition]:
    """Return the conditions that match the other runs that use the thread of a run or are queued for the thread."""
    same_thread = where(workspace_id=run.workspace_id, thread_id=run.thread_id)
    return [*same_thread, Condition("id", "!=", run.id), Condition("status", "in", UNFINISHED)]


SET_ASIDE: Final = (Condition("status", "=", RunStatus.FAILED), Condition("losses", ">", 0))
"""Match the runs that were set aside, because worker after worker was lost while it advanced them. Runs that fail for
another reason have no losses."""


def filter_conditions(workspace_id: str, filters: RunFilter) -> list[Condition]:
    """Return the conditions for a filter of runs. Raises InvalidRequest for too many tags and metadata entries."""
    names = ("graph", "definition_id", "thread_id", "idempotency_key", "parent_id", "queue")
    values = {name: getattr(filters, name) for name in names if getattr(filters, name) is not None}
    conditions = where(workspace_id=workspace_id, **values)
    if filters.status:
        conditions.append(Condition("status", "in", list(filters.status)))
    if filters.dead:
        conditions += SET_ASIDE
    if filters.created_from is not None:
        conditions.append(Condition("created_at", ">=", filters.created_from))
    if filters.created_to is not None:
        conditions.append(Condition("created_at", "<", filters.created_to))
    labels = [("", tag) for tag in filters.tags] + list(entries_as_text(filters.metadata).items())
    if len(labels) > MAX_LABELS:  # each label becomes a subquery, and databases limit the number of subqueries
        raise InvalidRequest(
            f"The filter has {len(labels)} tags and metadata entries. Give at most {MAX_LABELS} altogether."
        )
    for name, value in labels:
        conditions.append(Condition("id", "in", Among(RunLabel, "run_id", where(name=name, value=value))))
    if len(filters.any_tags) > MAX_LABELS:
        raise InvalidRequest(f"The filter has {len(filters.any_tags)} alternative tags. Give at most {MAX_LABELS}.")
    if filters.any_tags:
        has_any = [*where(name=""), Condition("value", "in", list(filters.any_tags))]
        conditions.append(Condition("id", "in", Among(RunLabel, "run_id", has_any)))
    if filters.text:
        conditions.append(_contains_text(filters.text))
    return conditions


def _contains_text(text: str) -> Condition:
    """Return the condition that one of the texts by which people know a run contains another text."""
    columns = ("id", "thread_id", "graph", "idempotency_key")
    in_label = Condition("id", "in", Among(RunLabel, "run_id", [Condition("value", "contains", text)]))
    return any_of(*([Condition(column, "contains", text)] for column in columns), [in_label])


def entries_as_text(values: Mapping[str, Any]) -> dict[str, str]:
    """Return a map with its values converted to searchable strings: strings unchanged, other values as JSON."""
    return {
        key: value if isinstance(value, str) else json.dumps(value, sort_keys=True) for key, value in values.items()
    }


async def load_if_claimed(ledger: Ledger, run: Run) -> Run | None:
    """Return the current record of a run; None if it was deleted, or its claim has changed."""
    current = await aresolve(ledger.get(Run, run.id))
    return current if current is not None and current.claim == run.claim else None


def release_values(due_at: datetime | None) -> dict[str, Any]:
    """Return the columns that release the claim on a run, with their values.

    From `due_at` on, workers may claim the run again. If it is None, they may not, until another change makes it due.
    """
    return {"claim": None, "worker_id": None, "due_at": due_at}


def guard_claim(run: Run) -> Change:
    """Return a change that modifies nothing, but is refused if the claim on the run has changed."""
    return Absent(Run, [*where(id=run.id), Condition("claim", "!=", run.claim)])
