"""Permission to decide approvals, checked on every path that leads to a decision.

An approval is decided by `decide`, by an answer to its question, and, in effect, by changing the state of its thread so
that the run continues past it. A key needs the scope `approvals:decide` for each of these.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Mapping
from typing import Any, Final, cast

from statewright.async_futures import aresolve
from statewright.runs import Among, ApiKey, Approval, Condition, Ledger, Run, Wait, Where, where
from statewright.service.access import check_scope
from statewright.service.context.records import UNFINISHED
from statewright.service.engine.waits import APPROVAL, approval_of

SCOPE: Final = "approvals:decide"


def check_decider(key: ApiKey | None) -> None:
    """Raise Forbidden for a key without the scope. None is a caller that needs no key, and may decide everything."""
    if key is not None:
        check_scope(key, SCOPE)


def check_answers(key: ApiKey | None, waits: Iterable[Wait]) -> None:
    """Raise Forbidden for a key without the scope, if an approval is among the waits to answer."""
    if any(approval_of(wait) is not None or _is_tool_approval(wait.value) for wait in waits):
        check_decider(key)


async def check_thread_change(
    key: ApiKey | None, ledger: Ledger, workspace_id: str, thread_id: str, body_of: Callable[[str], Awaitable[Any]]
) -> None:
    """Raise Forbidden for a key without the scope, if the runs of a thread have asked for approvals, or can ask.

    Unfinished child runs count too, because a change of the thread can replace their result.
    `body_of` returns the body of a definition by its id.
    """
    if key is None:
        return
    runs: Where = where(workspace_id=workspace_id, thread_id=thread_id)
    while True:  # for one generation of runs after the other
        run_ids = Among(Run, "id", runs)
        of_runs = [Condition("run_id", "in", run_ids)]
        if await aresolve(ledger.count(Approval, of_runs)):
            check_decider(key)
        # Approvals of tool calls are recorded as waits only.
        check_answers(key, await aresolve(ledger.find(Wait, of_runs)))
        for group in await aresolve(ledger.groups(Run, ["definition_id"], where=runs)):
            if _has_approval_step(await body_of(group.key[0] or "")):
                check_decider(key)
        started = [Condition("parent_id", "in", run_ids), Condition("status", "in", UNFINISHED)]
        children = await aresolve(ledger.find(Run, started))
        if not children:
            return
        runs = [Condition("id", "in", [child.id for child in children])]


def _is_tool_approval(question: Any) -> bool:
    """Return True for the question whether a model may call a tool; see `agents/tools/calling.py`."""
    if not isinstance(question, Mapping):
        return False
    fields = cast("Mapping[str, Any]", question)
    return fields.get("kind") == APPROVAL and "tool" in fields


def _has_approval_step(body: Any) -> bool:
    if isinstance(body, Mapping):
        fields = cast("Mapping[str, Any]", body)
        return fields.get("type") == APPROVAL or any(map(_has_approval_step, fields.values()))
    return isinstance(body, list) and any(map(_has_approval_step, cast("list[Any]", body)))
