"""Approval requests in Python graphs.

Their questions have the same form as approval requests in JSON steps, so a service lists both together.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from itertools import count
from typing import Any, Final, Literal, cast

from statewright.clock import Duration
from statewright.runtime.tasks.context import get_config
from statewright.runtime.tasks.interrupt import wait_for

Verdict = Literal["approved", "rejected", "edited", "expired"]
_VERDICTS: Final = ("approved", "rejected", "edited")


@dataclass(frozen=True, slots=True)
class Decision:
    """The decision on an approval request. If the time limit has expired first, the verdict is `expired`."""

    verdict: Verdict
    content: Any
    """The content to use: the edited one if the verdict is `edited`."""
    decided_by: str | None = None

    @property
    def is_approved(self) -> bool:
        """True if the content may be used, unchanged or edited."""
        return self.verdict in ("approved", "edited")


def request_approval(
    content: Any,
    *,
    prompt: str = "",
    content_key: str | None = None,
    key: str = "approval",
    timeout: Duration | None = None,
) -> Decision:
    """Request a decision on some content, and return the decision. Like `interrupt()`, this stops the node and the run.

    A service lists the request among its approval requests. `content_key` is the field of the state that holds the
    content. If a node makes several requests, give each its own `key`. Without a decision within `timeout`, the verdict
    is `expired`. The request is repeated after an invalid answer, and when a failed run is retried.
    """
    retry = get_config()["configurable"].get("retry", 0)  # how often a service has retried the run
    question = {"type": "approval", "contentKey": content_key, "content": content, "prompt": prompt}
    for number in count():
        answer = wait_for(
            "request_approval()", f"{key}.{retry}.{number}", timeout, lambda: {"value": question}, repeats=True
        )
        if answer is None:
            return Decision("expired", content)
        decision = _read_decision(answer, content)
        if decision is not None:
            return decision
    raise AssertionError  # not reached, because the loop only ends by a return


def _read_decision(answer: Any, content: Any) -> Decision | None:
    """Return an answer as a decision; None if it is invalid."""
    fields: Mapping[str, Any] = cast("Mapping[str, Any]", answer) if isinstance(answer, Mapping) else {}
    verdict = fields.get("decision")
    if verdict not in _VERDICTS or (verdict == "edited" and "content" not in fields):
        return None
    return Decision(verdict, fields["content"] if verdict == "edited" else content, fields.get("decidedBy"))
