"""The state of a thread before and after a step."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from statewright.async_futures import aresolve
from statewright.checkpoint import SavedCheckpoint
from statewright.data.jsonable import as_json
from statewright.errors import NotFound
from statewright.runs import Json, Run, StepRun
from statewright.service.context.service_context import Operations
from statewright.stale_reads import for_history

_PAGE: Final = 50
"""Checkpoints that are read at a time while that of a step is looked for."""
MAX_CHECKPOINTS: Final = 5_000
"""Checkpoints in which that of a step is looked for, from the newest of the thread on."""


@dataclass(frozen=True, slots=True)
class StepStates:
    """The states around the superstep of a step, with all fields of the graph's output schema."""

    step: StepRun
    before: Json
    """None if the checkpoint before the step is not kept any more."""
    after: Json
    """None if the superstep has not ended."""
    checkpoint_before: str | None
    checkpoint_after: str | None


class StepStateOperations(Operations):
    """Reads the states around steps."""

    async def step_states(self, workspace_id: str, run_id: str, step_id: str) -> StepStates:
        """Return the state before and after the superstep of a step, to show what it has changed.

        Steps of the same superstep run at the same time, so they have the same states. Raises NotFound.
        """
        run = await self.run(workspace_id, run_id)
        step = await aresolve(self.context.ledger.get(StepRun, step_id))
        if step is None or step.run_id != run.id:
            raise NotFound(f"Run {run.id} has no step {step_id!r}.")
        before, after = await self._find_checkpoints(run, step.superstep)
        program = (await self.context.versions.load_graph(run)).program

        def values_of(saved: SavedCheckpoint | None) -> Json:
            return as_json(program.output(saved.checkpoint.values)) if saved is not None else None

        return StepStates(
            step,
            values_of(before),
            values_of(after),
            str(before.id) if before is not None else None,
            str(after.id) if after is not None else None,
        )

    async def _find_checkpoints(
        self, run: Run, superstep: int
    ) -> tuple[SavedCheckpoint | None, SavedCheckpoint | None]:
        """Return the checkpoints before and after a superstep of a run, going back from the head of its thread."""
        saver = for_history(self.context.saver_of(run.workspace_id))
        after: SavedCheckpoint | None = None
        last = None
        for _ in range(MAX_CHECKPOINTS // _PAGE):
            page = await aresolve(saver.history(run.thread_id, before=last, limit=_PAGE))
            for saved in page:
                if after is not None:
                    if saved.id == after.parent_id:
                        return saved, after
                elif saved.run_id == run.id and saved.checkpoint.step == superstep:
                    after = saved
                elif saved.run_id == run.id and saved.checkpoint.step == superstep - 1:
                    return saved, None  # the superstep has not ended
            if len(page) < _PAGE:
                break
            last = page[-1].id
        return None, after
