"""Child runs: runs that nodes start.

A child is created in the transaction that saves the result of the node that starts it. So a node that fails has started
no run. A node that is executed again gives its child the same run id, by which it finds the run that it started before.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from statewright.data.jsonable import as_json
from statewright.errors import InvalidRequest, suggestion
from statewright.futures import drive, resolve
from statewright.runs import Change, Run, Signal, where
from statewright.runtime import RUN_ENDED
from statewright.service.context.requests import StartRun
from statewright.service.context.service_context import ServiceContext
from statewright.service.engine.completion import report_again
from statewright.service.engine.progress import Progress
from statewright.service.operations.starting import Starter, check_start

OPTIONS: Final = ("thread_id", "timeout", "tags", "metadata", "concurrency_key", "concurrency_limit", "settings")


class ChildStarter:
    """Starts child runs for the nodes of one run. Called on the threads of nodes, where blocking calls are allowed."""

    def __init__(self, run: Run, progress: Progress, context: ServiceContext, starter: Starter) -> None:
        self._run = run
        self._progress = progress
        self._context = context
        self._starter = starter
        self._started: dict[str, StartRun] = {}
        """Requests by run id. Their runs may not have been written yet."""

    def start(
        self,
        run_id: str,
        graph: str,
        input: Any,  # noqa: A002  # the name in the API
        *,
        work: Sequence[str],
        awaited: bool,
        options: Mapping[str, Any],
    ) -> None:
        """Queue the creation of a child run, unless it was started before.

        `work` has the ids of the task that starts the child and its enclosing tasks, the innermost first. `awaited` is
        True if the task waits for the child to end. `options` are those of `StartRun` that are listed in `OPTIONS`.

        Raises InvalidRequest, NotFound for an unknown graph, PayloadTooLarge.
        """
        unknown = next((name for name in options if name not in OPTIONS), None)
        if unknown is not None:
            raise InvalidRequest(
                f"start_run() has no option {unknown!r}. " + suggestion(unknown, OPTIONS, noun="Options")
            )
        if awaited and options.get("thread_id") is not None:
            self._check_thread(run_id, options["thread_id"])
        if run_id in self._started:
            return
        if self._load(run_id) is not None:  # an earlier execution of the node has started it
            if awaited:
                self._progress.steps.queue(work, self._report_again(run_id))
            return
        request = StartRun(
            graph=graph,
            input=as_json(input),
            run_id=run_id,
            source=f"run:{self._run.id}",
            parent_id=self._run.id,
            parent_waits=awaited,
            on_busy="enqueue",
            **options,
        )
        check_start(request, self._context.settings)
        definition = drive(self._context.versions.find_requested(self._run.workspace_id, request))
        _, changes = self._starter.build_run(self._run.workspace_id, request, definition, self._context.now())
        self._started[run_id] = request
        self._progress.steps.queue(work, changes)

    def _check_thread(self, run_id: str, thread_id: str) -> None:
        """Raise InvalidRequest if a run that waits for a child, directly or for one of its parents, holds a thread."""
        holder: Run | None = self._run
        while holder is not None:
            if holder.thread_id == thread_id:
                who = "its parent" if holder.id == self._run.id else f"run {holder.id}, which has started its parent,"
                raise InvalidRequest(
                    f"Child run {run_id} cannot use thread {thread_id!r}, which {who} holds while it waits for the "
                    f"child. Give it another thread, or none."
                )
            parent_id = holder.parent_id if holder.parent_waits else None
            holder = self._load(parent_id) if parent_id is not None else None

    def differs(self, run_id: str, graph: str, input: Any) -> bool:  # noqa: A002
        """Return True if the child was started before, with another graph or input."""
        existing = self._started.get(run_id) or self._load(run_id)
        return existing is not None and (existing.graph, existing.input) != (graph, as_json(input))

    def _load(self, run_id: str) -> Run | None:
        return resolve(self._context.ledger.get(Run, run_id))

    def _report_again(self, run_id: str) -> list[Change]:
        """Return the changes that report to the run that a child has ended, replacing earlier reports."""
        unprocessed = where(run_id=self._run.id, type=f"{RUN_ENDED}{run_id}", taken=False)
        reports = resolve(self._context.ledger.find(Signal, unprocessed))
        # The child is loaded last. If it ends between the two queries, the end may be reported twice, but is not lost.
        child = self._load(run_id)
        return report_again(child, self._run.id, reports) if child is not None else []
