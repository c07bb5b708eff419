"""The answers that runs have received: with what, when, and with which key, after their questions were closed.

The inbox of a run keeps its answers. The id of a wait follows from its run and its interrupt, so an answer is known by
the id of the wait that it has ended.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Final

from statewright.async_futures import aresolve
from statewright.errors import InvalidRequest
from statewright.runs import Among, Approval, Condition, Json, Ledger, Order, Run, Signal, where
from statewright.service.context.service_context import Operations
from statewright.service.engine.waits import wait_id
from statewright.stale_reads import for_history

MAX_ANSWERS: Final = 200
"""The maximum number of answers of a page."""
_ACCEPTED: Final = (Condition("interrupt_id", "!=", None), Condition("key", "!=", None))
"""An answer that was refused, or whose question is asked again, has no key any more."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PastAnswer:
    """An answer to a question of a run."""

    id: str
    """The id of the wait that it has ended."""
    cursor: str
    """The id of the answer itself."""
    run_id: str
    graph: str
    answer: Json
    by_key: str | None
    created_at: datetime


async def read_answers(ledger: Ledger, run_id: str) -> Mapping[str, Json]:
    """Return the answers to the questions of a run, by the id of the wait."""
    signals = await aresolve(ledger.find(Signal, [*where(run_id=run_id), *_ACCEPTED]))
    return {wait_id(run_id, str(signal.interrupt_id)): signal.payload for signal in signals}


class AnswerOperations(Operations):
    """Lists answers."""

    async def answers(self, workspace_id: str, *, before: str | None = None, limit: int = 100) -> list[PastAnswer]:
        """Return answers to the questions of all runs of a workspace, the newest first, without decided approvals.

        With `before`, return those that come after the answer with this cursor. Raises InvalidRequest.
        """
        if not 1 <= limit <= MAX_ANSWERS:
            raise InvalidRequest(f"limit is {limit}, but a page has 1 to {MAX_ANSWERS} answers.")
        answers: list[PastAnswer] = []
        while len(answers) < limit:
            signals = await self._read_page(workspace_id, before, limit)
            answers += await self._describe(signals)
            if len(signals) < limit:
                break
            before = signals[-1].id
        return answers[:limit]

    async def _read_page(self, workspace_id: str, before: str | None, limit: int) -> Sequence[Signal]:
        of_workspace = Condition("run_id", "in", Among(Run, "id", where(workspace_id=workspace_id)))
        conditions = [of_workspace, *_ACCEPTED, *([Condition("id", "<", before)] if before is not None else [])]
        newest_first = Order("id", descending=True)  # ids sort by time, and have an index
        ledger = for_history(self.context.ledger)
        return await aresolve(ledger.find(Signal, conditions, order=newest_first, limit=limit))

    async def _describe(self, signals: Sequence[Signal]) -> list[PastAnswer]:
        """Return signals as answers, without those that have decided approvals."""
        if not signals:
            return []
        ledger = for_history(self.context.ledger)
        run_ids = sorted({signal.run_id for signal in signals})
        graphs = {run.id: run.graph for run in await aresolve(ledger.find(Run, [Condition("id", "in", run_ids)]))}
        ids = {signal.id: wait_id(signal.run_id, str(signal.interrupt_id)) for signal in signals}
        with_these_ids = [Condition("id", "in", sorted(ids.values()))]
        approvals = {approval.id for approval in await aresolve(ledger.find(Approval, with_these_ids))}
        return [
            PastAnswer(
                id=ids[signal.id],
                cursor=signal.id,
                run_id=signal.run_id,
                graph=graphs[signal.run_id],
                answer=signal.payload,
                by_key=signal.sent_by_key,
                created_at=signal.created_at,
            )
            for signal in signals
            if ids[signal.id] not in approvals and signal.run_id in graphs
        ]
