"""The queues of a ledger: how many runs wait in them, and their limits, which hold for all workspaces and workers.

A queue exists as soon as a run or a worker names it. It has a record only if it has limits.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Generator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any, Final

from statewright.async_futures import aresolve
from statewright.errors import NotFound, RecordConflict, RequestConflict
from statewright.runs import (
    DEFAULT_QUEUE,
    Delete,
    Group,
    Insert,
    Ledger,
    Queue,
    QueueSize,
    Run,
    Update,
    Worker,
    where,
)
from statewright.service.context.records import SET_ASIDE
from statewright.service.context.validation import validate_field_names, validate_limit, validate_queue_name
from statewright.service.operations.workers import status_of

LIMITS: Final = ("max_running", "starts_per_minute")
"""The limits of a queue that callers set."""
_MAX_TRIES: Final = 10
"""Maximum number of tries to set limits that other processes set and remove concurrently."""


@dataclass(frozen=True, slots=True, kw_only=True)
class QueueReport:
    """A queue with its limits and its runs, of all workspaces together."""

    name: str
    max_running: int | None
    starts_per_minute: int | None
    depth: int
    """The number of due runs that no worker has claimed, including those that wait for a limit or for another run."""
    oldest_due_seconds: float | None
    """The seconds for which the oldest of them has been due; None if there are none."""
    claimed: int
    """The number of runs that workers are advancing."""
    dead: int
    """The number of runs that were set aside, because worker after worker was lost while it advanced them."""
    workers: int
    """The number of live workers that serve it."""


def report_queues(ledger: Ledger, now: datetime) -> Generator[Any, Any, list[QueueReport]]:
    """Read the default queue, and those that have limits, live workers, or runs that have not ended or were set aside;
    sorted by name. For `drive` and `adrive`.
    """
    limits: Mapping[str, Queue] = {queue.id: queue for queue in (yield ledger.find(Queue))}
    unfinished: Sequence[QueueSize] = yield ledger.queue_sizes(now)
    set_aside: Sequence[Group] = yield ledger.groups(Run, ["queue"], where=SET_ASIDE)
    workers: Sequence[Worker] = yield ledger.find(Worker)
    live = [worker for worker in workers if status_of(worker, now) == "live"]
    served: Counter[str] = Counter(name for worker in live for name in set(worker.queues or ()))
    serving_all = sum(worker.queues is None for worker in live)
    sizes = {size.queue: size for size in unfinished}
    dead: dict[str, int] = {group.key[0]: group.size for group in set_aside}
    reports: list[QueueReport] = []
    for name in sorted({DEFAULT_QUEUE, *limits, *served, *sizes, *dead}):
        size = sizes.get(name, QueueSize(name, 0, None, 0))
        reports.append(
            replace(
                report_of(limits.get(name, Queue(id=name))),
                depth=size.due,
                oldest_due_seconds=(now - size.due_since).total_seconds() if size.due_since is not None else None,
                claimed=size.claimed,
                dead=dead.get(name, 0),
                workers=served[name] + serving_all,
            )
        )
    return reports


def report_of(queue: Queue) -> QueueReport:
    """Return the report of a queue that has no runs and no workers."""
    return QueueReport(
        name=queue.id,
        max_running=queue.max_running,
        starts_per_minute=queue.starts_per_minute,
        depth=0,
        oldest_due_seconds=None,
        claimed=0,
        dead=0,
        workers=0,
    )


async def change_queue(ledger: Ledger, name: str, limits: Mapping[str, Any]) -> Queue:
    """Set limits of a queue, and return its record; None removes a limit. Limits that are not in `limits` stay.

    Raises InvalidRequest.
    """
    validate_queue_name(name)
    validate_field_names(limits, LIMITS, "A queue")
    values: dict[str, Any] = {key: validate_limit(value, f"The queue's {key}") for key, value in limits.items()}
    for _ in range(_MAX_TRIES):
        queue: Queue | None = await aresolve(ledger.get(Queue, name))
        changed = replace(queue or Queue(id=name), **values)
        with suppress(RecordConflict):  # another process has set or removed the limits since
            await aresolve(ledger.write([Insert(changed) if queue is None else Update(Queue, name, values)]))
            return changed
    raise RequestConflict(f"The limits of queue {name!r} are changed by other processes concurrently. Try again.")


async def remove_queue(ledger: Ledger, name: str) -> None:
    """Remove the limits of a queue, whose runs stay. Raises NotFound if it has none."""
    if await aresolve(ledger.get(Queue, name)) is None:
        raise NotFound(f"Queue {name!r} has no limits that could be removed.")
    await aresolve(ledger.write([Delete(Queue, where(id=name))]))
