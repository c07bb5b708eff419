"""Threads of runs: their state, history, forks and edits."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final, cast

from pydantic_core import to_json

from statewright.async_futures import adrive, aresolve
from statewright.checkpoint import Checkpointer, SavedCheckpoint, read_outlines
from statewright.clock import iso
from statewright.data.jsonable import as_json
from statewright.data.mappings import without_none
from statewright.errors import (
    CheckpointNotFound,
    InvalidRequest,
    NotFound,
    RecordConflict,
    RequestConflict,
    ServiceError,
    StatewrightError,
    StorageError,
)
from statewright.ids import CheckpointId
from statewright.runs import ApiKey, Condition, Run, RunStatus, where
from statewright.runtime import CompiledGraph, StateSnapshot
from statewright.runtime.concurrency.thread_calls import call_in_thread
from statewright.service.access.approval_permission import check_thread_change
from statewright.service.context.records import NEWEST_FIRST, find_first
from statewright.service.context.service_context import Operations
from statewright.service.operations.state_edit import prepare_edit, refusal_of
from statewright.service.operations.thread_edits import ACTIVE, EditRecorder, ResumableRun, guard_no_run_since
from statewright.stale_reads import for_history

_RUNS_PER_THREAD: Final = 5
"""Runs that are read for each thread of a list, to find the newest of each."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ThreadInList:
    """A thread on which runs have begun."""

    thread_id: str
    changed_at: datetime
    """When a run has begun or ceased to use it."""
    run: Run
    """Its newest run."""
    run_count: int


class Threads(Operations):
    """Reads and edits the threads on which a workspace has runs."""

    async def recent(self, workspace_id: str, *, prefix: str = "", limit: int = 100) -> list[ThreadInList]:
        """Return the threads whose ids begin with `prefix` and on which a run has begun, those used last first."""
        saver = for_history(self.context.saver_of(workspace_id))
        entries = await aresolve(saver.threads(prefix=prefix, limit=limit))
        on_threads = [
            *where(workspace_id=workspace_id),
            Condition("thread_id", "in", [entry.thread_id for entry in entries]),
        ]
        groups = await aresolve(self.context.ledger.groups(Run, ["thread_id"], where=on_threads))
        counts = {group.key[0]: group.size for group in groups}
        newest = await self._newest_runs(on_threads, set(counts))
        return [
            ThreadInList(
                thread_id=entry.thread_id,
                changed_at=entry.changed_at,
                run=newest[entry.thread_id],
                run_count=counts[entry.thread_id],
            )
            for entry in entries
            if entry.thread_id in newest
        ]

    async def _newest_runs(self, on_threads: list[Condition], thread_ids: set[str]) -> dict[str, Run]:
        """Return the newest run of each of some threads, as far as they are among the newest runs of them all."""
        runs = await aresolve(
            self.context.ledger.find(Run, on_threads, order=NEWEST_FIRST, limit=_RUNS_PER_THREAD * len(thread_ids))
        )
        newest: dict[str, Run] = {}
        for run in runs:
            newest.setdefault(run.thread_id, run)
        for thread_id in thread_ids - newest.keys():  # other threads have had very many runs since
            on_thread = [*on_threads, *where(thread_id=thread_id)]
            run = await find_first(self.context.ledger, Run, on_thread, NEWEST_FIRST)
            if run is not None:
                newest[thread_id] = run
        return newest

    async def state(self, workspace_id: str, thread_id: str, checkpoint_id: str | None = None) -> dict[str, Any]:
        """Return the state of a thread, now or at a checkpoint. Raises NotFound."""
        app = await self._app(workspace_id, thread_id)
        return _describe(await self._snapshot(app, thread_id, checkpoint_id))

    async def history(
        self, workspace_id: str, thread_id: str, *, branch: str | None = None, limit: int = 100
    ) -> list[dict[str, Any]]:
        """Return the states at the checkpoints of a thread, of all branches or of one, the newest first."""
        app = await self._app(workspace_id, thread_id)
        saver = for_history(self.context.saver_of(workspace_id))
        checkpoints = await aresolve(saver.history(thread_id, branch=branch, limit=limit))
        from statewright.runtime.lifecycle.snapshot import snapshot_of

        return [_describe(snapshot_of(app.program, checkpoint)) for checkpoint in checkpoints]

    async def checkpoints(
        self, workspace_id: str, thread_id: str, *, branch: str | None = None, before: str | None = None, limit: int
    ) -> Sequence[SavedCheckpoint]:
        """Return the checkpoints of a thread without their values, of all branches or of one, the newest first.

        With `before`, return those that come after this checkpoint in this order. They are read without the graph, so
        it need not be served any more. Raises NotFound.
        """
        on_thread = where(workspace_id=workspace_id, thread_id=thread_id)
        if await find_first(self.context.ledger, Run, on_thread) is None:
            raise _no_thread(thread_id)
        saver, last = for_history(self.context.saver_of(workspace_id)), CheckpointId(before) if before else None
        try:
            return await aresolve(read_outlines(saver, thread_id, branch=branch, before=last, limit=limit))
        except CheckpointNotFound as error:
            raise NotFound(str(error)) from error

    async def diff(self, workspace_id: str, thread_id: str, before: str, after: str) -> dict[str, Any]:
        """Return the fields that differ between two checkpoints, with both values."""
        app = await self._app(workspace_id, thread_id)
        old_values = (await self._snapshot(app, thread_id, before)).values
        new_values = (await self._snapshot(app, thread_id, after)).values
        from statewright.runtime import diff

        differences = diff(_fields(old_values), _fields(new_values))
        return {name: {"before": as_json(old), "after": as_json(new)} for name, (old, new) in differences.items()}

    async def fork(
        self,
        workspace_id: str,
        thread_id: str,
        checkpoint_id: str,
        branch: str | None = None,
        *,
        key: ApiKey | None = None,
    ) -> dict[str, Any]:
        """Make a checkpoint the head of the new branch `branch`, or of its own branch again if None.

        Return the new state of the thread.
        A run that waits on the branch now waits for the questions of that checkpoint, or is resumed if there are none.
        `key` is the API key of the caller; None if callers need no key. Raises Forbidden if a key needs a further scope
        (see `check_thread_change`), and RequestConflict while a run is being advanced on the thread, or is about to be
        resumed with an answer.
        """
        config = {"configurable": {"thread_id": thread_id, "checkpoint_id": checkpoint_id}}
        return await self._edit(workspace_id, thread_id, key, lambda app: app.fork(config, branch=branch))

    async def update(
        self,
        workspace_id: str,
        thread_id: str,
        values: Any,
        *,
        overwrite: Collection[str] = (),
        as_node: str | None = None,
        checkpoint_id: str | None = None,
        key: ApiKey | None = None,
    ) -> dict[str, Any]:
        """Change the state as if a node had returned the values. Return the new state of the thread.

        Values of fields in `overwrite` replace the old ones, instead of being passed to the reducers of the fields.
        A run that waits for a task is resumed if the change completes the task. `key` is the API key of the caller;
        None if callers need no key. Raises the errors of `fork`.
        """
        ids = {"thread_id": thread_id, "checkpoint_id": checkpoint_id}
        config = {"configurable": without_none(ids)}

        def update(app: CompiledGraph) -> dict[str, Any]:
            update = prepare_edit(app, values, overwrite, as_node)
            try:
                return app.update_state(config, update, as_node)
            except (CheckpointNotFound, StorageError, ServiceError):
                raise
            except Exception as error:  # of the graph, or raised by a reducer
                raise refusal_of(error, values, f"Graph {app.name!r}") from error

        return await self._edit(workspace_id, thread_id, key, update, as_node)

    async def _edit(
        self,
        workspace_id: str,
        thread_id: str,
        key: ApiKey | None,
        edit: Callable[[CompiledGraph], dict[str, Any]],
        as_node: str | None = None,
    ) -> dict[str, Any]:
        """Edit a thread, together with the records of the run that may continue on it. Return the new state."""
        app = await self._app_if_idle(workspace_id, thread_id)
        context = self.context
        resumable = await ResumableRun.find(context.ledger, workspace_id, thread_id, app.graph)
        # The permission is checked after the run was read: if the run, and with it the required permission, changes
        # after this, the edit is refused.
        await self._check_change(workspace_id, thread_id, key, as_node)
        if resumable is not None:
            changes_of = resumable.changes
        else:
            changes_of = guard_no_run_since((await self.runs(workspace_id, thread_id))[0])
        recorder = EditRecorder(context.saver_of(workspace_id), context.ledger, changes_of)
        try:
            head = await self._call(edit, app.with_services(checkpointer=cast("Checkpointer", recorder)))
        except RecordConflict as error:
            # A failed run changes only if it is retried, so another run most likely caused the conflict.
            run = resumable.run if resumable is not None and resumable.run.status is not RunStatus.FAILED else None
            raise RequestConflict(
                f"{f'Run {run.id}' if run is not None else 'Another run'} on thread {thread_id!r} has changed since "
                f"the thread was read. Read it again, and retry.",
                details={"runs": [run.id] if run is not None else []},
            ) from error
        context.publish(recorder.changes)
        return _describe(await self._call(app.get_state, head))

    async def _check_change(self, workspace_id: str, thread_id: str, key: ApiKey | None, as_node: str | None) -> None:
        async def body_of(definition_id: str) -> Any:
            return (await adrive(self.context.versions.find_by_id(workspace_id, definition_id))).body

        await check_thread_change(key, self.context.ledger, workspace_id, thread_id, body_of, as_node=as_node)

    async def runs(self, workspace_id: str, thread_id: str) -> list[Run]:
        """Return the runs on a thread, the newest first, at most 100. Raises NotFound if there are none."""
        conditions = where(workspace_id=workspace_id, thread_id=thread_id)
        runs = await aresolve(self.context.ledger.find(Run, conditions, order=NEWEST_FIRST, limit=100))
        if not runs:
            raise _no_thread(thread_id)
        return list(runs)

    async def _app(self, workspace_id: str, thread_id: str) -> CompiledGraph:
        """Return the graph of the run that has last advanced the thread, with the saver of the workspace."""
        newest = (await self.runs(workspace_id, thread_id))[0]
        if not newest.begun:  # the state was saved by an earlier run
            begun = where(workspace_id=workspace_id, thread_id=thread_id, begun=True)
            newest = await find_first(self.context.ledger, Run, begun, NEWEST_FIRST) or newest
        graph = await self.context.versions.load_graph(newest)
        return graph.with_services(checkpointer=self.context.saver_of(workspace_id), clock=self.context.clock)

    async def _app_if_idle(self, workspace_id: str, thread_id: str) -> CompiledGraph:
        """Return the graph of a thread. Raises RequestConflict while a run is being advanced on it."""
        app = await self._app(workspace_id, thread_id)
        on_thread = where(workspace_id=workspace_id, thread_id=thread_id)
        active = await aresolve(self.context.ledger.find(Run, [*on_thread, Condition("status", "in", ACTIVE)]))
        if active:
            raise RequestConflict(
                f"Thread {thread_id!r} is being advanced by run {active[0].id}. Pause the run, or wait for its end.",
                details={"runs": [run.id for run in active]},
            )
        return app

    async def _snapshot(self, app: CompiledGraph, thread_id: str, checkpoint_id: str | None) -> StateSnapshot:
        return await self._call(app.get_state, thread_id=thread_id, checkpoint_id=checkpoint_id)

    async def _call(self, function: Any, *args: Any, **options: Any) -> Any:
        """Call a method of a graph on a worker thread, and convert its errors to those of the service."""
        try:
            return await call_in_thread(function, *args, **options)
        except CheckpointNotFound as error:
            raise NotFound(str(error)) from error
        except (StorageError, ServiceError):
            raise
        except StatewrightError as error:
            raise InvalidRequest(str(error)) from error
        except Exception as error:  # raised by a reducer
            raise InvalidRequest(f"The graph has rejected the values: {type(error).__name__}: {error}") from error


def _no_thread(thread_id: str) -> NotFound:
    return NotFound(f"Thread {thread_id!r} does not exist.")


def _fields(values: Any) -> Mapping[str, Any]:
    """Return the fields of a state. If the state is not a map, it is returned as the field `value`."""
    return cast("Mapping[str, Any]", values) if isinstance(values, Mapping) else {"value": as_json(values)}


def _describe(snapshot: StateSnapshot) -> dict[str, Any]:
    """Return a snapshot as JSON, with the fields of `statewright.api.definitions.Thread`."""
    ids: Mapping[str, Any] = snapshot.config.get("configurable", {})
    parent_ids: Mapping[str, Any] = (snapshot.parent_config or {}).get("configurable", {})
    values = as_json(snapshot.values)
    return {
        "threadId": ids.get("thread_id"),
        "checkpointId": ids.get("checkpoint_id"),
        "parentCheckpointId": parent_ids.get("checkpoint_id"),
        "branch": ids.get("branch", "main"),
        "values": values,
        "sizeBytes": len(to_json(values)),
        "next": list(snapshot.next),
        "metadata": as_json(snapshot.metadata),
        "createdAt": iso(snapshot.created_at) if snapshot.created_at is not None else None,
        "tasks": [_describe_task(task) for task in snapshot.tasks],
    }


def _describe_task(task: Any) -> dict[str, Any]:
    return {
        "id": task.id,
        "name": task.name,
        "error": task.error,
        "result": as_json(task.result),
        "interrupts": [
            {"id": question.id, "kind": question.kind, "value": as_json(question.value)} for question in task.interrupts
        ],
    }
