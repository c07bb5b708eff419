"""Runs that the nodes of a run start: they begin with the superstep that starts them, or not at all."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from statewright.errors import InvalidRequest, NotFound, suggestion
from statewright.promise import resolved
from statewright.runs import Ledger, Run
from statewright.service.desk import Desk
from statewright.service.plain import as_json
from statewright.service.progress import Progress
from statewright.service.request import StartRun
from statewright.service.starting import Starter, check_start, foreign_to
from statewright.service.versions import asked_here

OPTIONS: Final = ("thread_id", "timeout", "tags", "metadata", "concurrency_key", "concurrency_limit", "settings")


class ChildStarter:
    """Starts runs for the nodes of one run. Called on the threads of nodes: it may wait for the ledger there."""

    def __init__(self, run: Run, progress: Progress, desk: Desk, starter: Starter) -> None:
        self._run = run
        self._progress = progress
        self._desk = desk
        self._starter = starter
        self._started: set[str] = set()

    def start(
        self,
        run_id: str,
        graph: str,
        input: Any,  # noqa: A002  # the field's word
        *,
        task_id: str,
        awaited: bool,
        options: Mapping[str, Any],
    ) -> None:
        unknown = next((name for name in options if name not in OPTIONS), None)
        if unknown is not None:
            raise InvalidRequest(
                f"start_run() has no option {unknown!r}. " + suggestion(unknown, OPTIONS, noun="Known")
            )
        if awaited and options.get("thread_id") == self._run.thread_id:
            raise InvalidRequest(
                f"Run {run_id} was to advance thread {self._run.thread_id!r}, which its parent holds while it waits "
                f"for it. Give it another thread, or none."
            )
        if run_id in self._started or self._is_there(self._desk.ledger, run_id):
            return
        self._check_own(options.get("thread_id"))
        wanted = StartRun(
            graph=graph,
            input=as_json(input),
            run_id=run_id,
            source=f"run:{self._run.id}",
            parent_id=self._run.id,
            parent_waits=awaited,
            on_busy="enqueue",
            **options,
        )
        check_start(wanted, self._desk.settings)
        definition = asked_here(self._starter.versions.meant(self._run.workspace_id, wanted))
        _, changes = self._starter.made(self._run.workspace_id, wanted, definition, self._desk.now())
        self._started.add(run_id)
        self._progress.steps.add(task_id, changes)

    def _check_own(self, thread_id: str | None) -> None:
        """Raise NotFound for a thread of another workspace."""
        if thread_id is not None:
            foreign = self._desk.ledger.find(Run, foreign_to(self._run.workspace_id, thread_id), limit=1)
            if resolved(foreign):
                raise NotFound(f"There is no thread {thread_id!r}.")

    def _is_there(self, ledger: Ledger, run_id: str) -> bool:
        """Whether the run was started when the node was executed before; a task that is new has started none."""
        return resolved(ledger.get(Run, run_id)) is not None
