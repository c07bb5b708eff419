"""Permission to decide approvals, checked on every path that leads to a decision.

There are three such paths: `decide`, an answer to the question that requests the approval, and a change to the state of
the thread that lets the run continue past that question. A key needs the scope `approvals:decide` for each of them.
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
    """Raise Forbidden for a key without the scope. None means that the caller needs no key and may decide."""
    if key is not None:
        check_scope(key, SCOPE)


def check_answers(key: ApiKey | None, waits: Iterable[Wait]) -> None:
    """Raise Forbidden for a key without the scope, if any of the waits to answer is an approval."""
    if any(approval_of(wait) is not None or _is_tool_approval(wait.value) for wait in waits):
        check_decider(key)


async def check_thread_change(
    key: ApiKey | None,
    ledger: Ledger,
    workspace_id: str,
    thread_id: str,
    body_of: Callable[[str], Awaitable[Any]],
    *,
    as_node: str | None = None,
) -> None:
    """Raise Forbidden for a key without the scope if runs on a thread have requested approvals or may request some.

    Unfinished child runs of these runs are checked, too, because a change to the thread can replace their results.
    `body_of` returns the body of a definition, given its id. `as_node` is the node that the change names; see
    `check_definition`.
    """
    if key is None:
        return
    runs: Where = where(workspace_id=workspace_id, thread_id=thread_id)
    while True:  # one generation of runs at a time
        run_ids = Among(Run, "id", runs)
        belongs_to_runs = [Condition("run_id", "in", run_ids)]
        if await aresolve(ledger.count(Approval, belongs_to_runs)):
            check_decider(key)
        # An approval of a tool call has no record of its own, only a wait.
        check_answers(key, await aresolve(ledger.find(Wait, belongs_to_runs)))
        for group in await aresolve(ledger.groups(Run, ["definition_id"], where=runs)):
            check_definition(key, await body_of(group.key[0] or ""), as_node=as_node)
        unfinished_children = [Condition("parent_id", "in", run_ids), Condition("status", "in", UNFINISHED)]
        children = await aresolve(ledger.find(Run, unfinished_children))
        if not children:
            return
        runs = [Condition("id", "in", [child.id for child in children])]


def check_definition(key: ApiKey | None, body: Any, *, as_node: str | None = None) -> None:
    """Raise Forbidden for a key without the scope if a definition, given its body, may request approvals.

    A graph in Python has no body, so it is not known which of its nodes request approvals. There, a change that takes
    the place of a node (`as_node`) needs the scope, because it may be one that has not requested its approval yet.
    """
    if _has_approval_step(body) or (body is None and as_node is not None):
        check_decider(key)


def _is_tool_approval(question: Any) -> bool:
    """Return True for a question that asks to approve a tool call of a model; see `agents/tools/calling.py`."""
    if not isinstance(question, Mapping):
        return False
    fields = cast("Mapping[str, Any]", question)
    return fields.get("kind") == APPROVAL and "tool" in fields


def _has_approval_step(body: Any) -> bool:
    if isinstance(body, Mapping):
        fields = cast("Mapping[str, Any]", body)
        return fields.get("type") == APPROVAL or any(map(_has_approval_step, fields.values()))
    return isinstance(body, list) and any(map(_has_approval_step, cast("list[Any]", body)))
