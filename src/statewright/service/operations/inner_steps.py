"""The steps inside the subgraphs that the steps of a run have called, two levels deep.

The ledger has records of the steps of the run's own graph only: a record of each step inside would cost every one of
them a further write, although few are ever looked at. But the saver logs the end of each task with the commit of its
superstep, and what is under way is in the checkpoints of subgraphs that have not ended. So inner steps are derived from
these when a trace is read. Only failed attempts are events of the ledger (`SUBGRAPH_STEP_FAILED`), because the thread
keeps nothing of them; so a subgraph without failures writes nothing for its steps.

A step inside begins when the superstep before it in the same call has ended, or when its call has begun.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from datetime import UTC, datetime
from typing import Any, Final

from statewright.async_futures import aresolve
from statewright.checkpoint import Checkpointer, SavedCheckpoint, Task
from statewright.events import Event
from statewright.runs import Run, RunEvent, StepRun, StepStatus
from statewright.service.context.namespaces import node_in, segments_of, task_id_in
from statewright.service.operations.trace_model import Attempt, Call, InnerStep, agent_of

MAX_DEPTH: Final = 2
"""Levels of subgraphs whose steps are shown."""
MAX_SHOWN: Final = 200
"""Inner steps that are shown of one step, the newest."""
MAX_ENTRIES: Final = 20_000
"""Entries of the log that a page reads."""
MAX_OPEN_CALLS: Final = 50
"""Calls of subgraphs that are under way, and whose checkpoints a page reads."""
_BATCH: Final = 1_000


class InnerSteps:
    """The inner steps of the steps of a page."""

    def __init__(self, steps: Sequence[StepRun], *, redact: Callable[[Any], Any] | None = None) -> None:
        """`redact` removes secrets from the errors of tools, which the thread stores as they are."""
        self._steps = {step.task_id: step for step in steps}
        self._redact = redact
        self._found: dict[str, dict[str, InnerStep]] = defaultdict(dict)
        """The inner steps by id, by the id of the step."""
        self._calls: dict[tuple[str, str], list[Call]] = defaultdict(list)
        """The calls of models and tools by the id of the step, and of the inner task that has made them."""
        self._superstep_ends: dict[str, datetime] = {}
        """The end of the last superstep, by namespace."""
        self._ends: dict[int, int] = {}
        """The number of the entry for the first end of each superstep of the run's own graph."""
        self.is_complete = True
        """False if there is more than a page reads."""

    def end_of(self, superstep: int) -> int:
        """Return the number of the entry with which a superstep has first ended; 0 if it is not known."""
        return self._ends.get(superstep, 0)

    def of(self, step: StepRun) -> tuple[list[InnerStep], int]:
        """Return the newest inner steps of a step, the oldest first, and the number of all of them."""
        inner_steps = list(self._found[step.id].values())
        inner_steps.sort(key=lambda inner: (inner.started_at or inner.ended_at or _LATEST, len(inner.path)))
        for inner in inner_steps:
            inner.calls = self._calls.get((step.id, inner.id), [])
            inner.agent = agent_of(inner.calls)
        return inner_steps[-MAX_SHOWN:], len(inner_steps)

    # -- the log of the thread

    async def read(self, saver: Checkpointer, run: Run, *, after: int) -> None:
        """Read what the thread of the run has about its inner steps, from the log after the entry `after`."""
        if self._steps:
            await self._read_log(saver, run, after)
            await self._read_open_calls(saver, run)

    async def _read_log(self, saver: Checkpointer, run: Run, after: int) -> None:
        ends = [step.completed_at for step in self._steps.values()]
        last_end = max((end for end in ends if end is not None), default=None) if None not in ends else None
        count = 0
        while count < MAX_ENTRIES:
            batch = await aresolve(saver.events(run.thread_id, run_id=run.id, after=after, limit=_BATCH))
            for entry in batch:
                self._apply(entry)
            if len(batch) < _BATCH:
                return
            count, after = count + len(batch), batch[-1].seq or 0
            at = batch[-1].at
            if last_end is not None and at is not None and at > last_end:
                return
        self.is_complete = False

    def _apply(self, entry: Event) -> None:
        if not entry.namespace:
            if entry.kind == "superstep_finished":
                self._ends.setdefault(entry.step, entry.seq or 0)
            return
        segments = segments_of(entry.namespace)
        step = self._step_of(segments[0], entry.at)
        # A fork that repeats a step replaces its record; what was before belongs to the earlier execution.
        if step is None or (step.started_at is not None and entry.at is not None and entry.at < step.started_at):
            return
        if entry.kind in ("model_called", "tool_called"):
            self._add_call(step, segments, entry)
        elif len(segments) > MAX_DEPTH:
            return
        elif entry.kind == "superstep_finished" and entry.at is not None:
            self._superstep_ends[entry.namespace] = entry.at
        elif entry.kind == "task_finished" and entry.task_id is not None:
            failed = entry.data is not None and "error" in entry.data
            inner = self._add(step, segments, entry.task_id, entry.node or "", entry.step)
            inner.status = StepStatus.FAILED if failed else StepStatus.COMPLETED
            inner.started_at, inner.ended_at = self._start_in(step, segments), entry.at

    def _add(self, step: StepRun, segments: Sequence[str], task_id: str, node: str, superstep: int) -> InnerStep:
        """Return the inner step of a task, which is added if it is new."""
        inner_steps = self._found[step.id]
        if task_id not in inner_steps:
            names = [step.name, *(node_in(segment) for segment in segments[1:])]
            parent_id = task_id_in(segments[-1]) if len(segments) > 1 else None
            inner_steps[task_id] = InnerStep(
                id=task_id, parent_id=parent_id, path=(*names, node), superstep=superstep, status=StepStatus.RUNNING
            )
        return inner_steps[task_id]

    def _add_call(self, step: StepRun, segments: Sequence[str], entry: Event) -> None:
        """Add a call of a model or a tool to the inner step that has made it, and to those that have called it."""
        data, at = entry.data, entry.at
        assert at is not None
        call = Call.of_model(data, at) if entry.kind == "model_called" else Call.of_tool(data, at, self._redact)
        callers = [task_id_in(segment) for segment in segments[1 : MAX_DEPTH + 1]]
        for task_id in (*callers, *([entry.task_id] if len(segments) <= MAX_DEPTH else [])):
            if task_id is not None:
                self._calls[step.id, task_id].append(call)

    def _step_of(self, segment: str, at: datetime | None) -> StepRun | None:
        """Return the step that has called the subgraph with a namespace that begins with a segment."""
        by_task = next((self._steps[part] for part in segment.split(":") if part in self._steps), None)
        if by_task is not None or task_id_in(segment) is not None:
            return by_task
        # The namespace of a subgraph that keeps its state has no task.
        name = node_in(segment)
        return next((step for step in self._steps.values() if step.name == name and _was_active(step, at)), None)

    def _start_in(self, step: StepRun, segments: Sequence[str]) -> datetime | None:
        """Return when the superstep that follows in a namespace has begun."""
        for length in range(len(segments), 0, -1):
            ended_at = self._superstep_ends.get("|".join(segments[:length]))
            if ended_at is not None and (step.started_at is None or ended_at >= step.started_at):
                return ended_at
        return step.started_at

    # -- subgraphs that are under way

    async def _read_open_calls(self, saver: Checkpointer, run: Run) -> None:
        """Add the tasks that are due in the subgraphs of steps that have not completed."""
        is_open = any(step.status not in (StepStatus.COMPLETED, StepStatus.SKIPPED) for step in self._steps.values())
        namespaces: Sequence[str] = await aresolve(saver.namespaces(run.thread_id)) if is_open else ()
        now, count = run.updated_at, 0
        for namespace in namespaces:
            segments = segments_of(namespace)
            step = self._step_of(segments[0], now) if namespace and len(segments) <= MAX_DEPTH else None
            if step is None or step.status in (StepStatus.COMPLETED, StepStatus.SKIPPED):
                continue
            if count == MAX_OPEN_CALLS:
                self.is_complete = False
                return
            count += 1
            head = await aresolve(saver.load(run.thread_id, namespace=namespace))
            if head is not None and head.run_id == run.id and not head.metadata.get("reset"):
                for task in head.checkpoint.frontier:
                    inner = self._add(step, segments, task.id, task.node, head.checkpoint.step + 1)
                    inner.status, inner.started_at = _status_of(task, head, step), head.created_at
                    inner.ended_at = step.completed_at if inner.status in _ENDED else None

    # -- failures

    def add_failures(self, step: StepRun, events: Iterable[RunEvent]) -> None:
        """Add the failed attempts at inner steps, given the events of their step."""
        inner_steps = self._found[step.id]
        for event in events:
            if event.type != "SUBGRAPH_STEP_FAILED":
                continue
            payload: Any = event.payload
            inner = inner_steps.get(payload["taskId"])
            if inner is None:
                path = tuple(payload["path"])
                if len(path) > MAX_DEPTH + 1:
                    continue
                inner = inner_steps[payload["taskId"]] = InnerStep(
                    id=payload["taskId"],
                    parent_id=payload["parentId"],
                    path=path,
                    superstep=payload["superstep"],
                    status=StepStatus.FAILED,
                    started_at=step.started_at,
                    ended_at=event.at,
                )
            retry_at = datetime.fromisoformat(payload["retryAt"]) if payload["retryAt"] is not None else None
            before = inner.attempts[-1].retry_at or inner.attempts[-1].ended_at if inner.attempts else inner.started_at
            inner.attempts.append(Attempt(payload["attempt"], before, event.at, payload["error"], retry_at))
        for inner in inner_steps.values():
            last = inner.attempts[-1] if inner.attempts else None
            if last is not None and (last.retry_at is not None or inner.status is StepStatus.COMPLETED):
                ended_at = inner.ended_at if inner.status in _ENDED else None
                inner.attempts.append(Attempt(last.number + 1, last.retry_at or last.ended_at, ended_at))


_LATEST: Final = datetime.max.replace(tzinfo=UTC)
_ENDED: Final = (StepStatus.COMPLETED, StepStatus.FAILED, StepStatus.CANCELLED)


def _was_active(step: StepRun, at: datetime | None) -> bool:
    return (
        at is not None
        and (step.started_at is None or step.started_at <= at)
        and (step.completed_at is None or at <= step.completed_at)
    )


def _status_of(task: Task, head: SavedCheckpoint, step: StepRun) -> StepStatus:
    """Return the status of a task that is due in a subgraph whose caller has not completed."""
    pending = head.pending
    if task.id in pending.completed:
        return StepStatus.COMPLETED
    if pending.open_of(task.id):
        return StepStatus.WAITING
    if step.status is StepStatus.FAILED:
        return StepStatus.FAILED if task.id in pending.errors else StepStatus.CANCELLED
    return step.status
