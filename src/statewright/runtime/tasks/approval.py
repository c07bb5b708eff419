"""Approvals in Python graphs, in the same form as those of JSON steps, so that a service lists both together."""

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
    """A decision, or the end of the time limit without one."""

    verdict: Verdict
    content: Any
    """The content to use from now on, edited if the decision changed it."""
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
    """Ask for a decision on some content, and return it. Stops the node and the run until then, like `interrupt()`.

    A service shows it among its approval requests. `content_key` is the field of the state that holds the content.
    Several approvals in one node are told apart by `key`. If nobody decides within `timeout`, the verdict is `expired`.
    An answer that is no decision is asked for again, and so is every decision when somebody tries a failed run again.
    """
    again = get_config()["configurable"].get("retry", 0)  # a service counts here how often it was told to
    asked = {"type": "approval", "contentKey": content_key, "content": content, "prompt": prompt}
    for number in count():
        answer = wait_for(
            "request_approval()", f"{key}.{again}.{number}", timeout, lambda: {"value": asked}, repeats=True
        )
        if answer is None:
            return Decision("expired", content)
        decision = _read(answer, content)
        if decision is not None:
            return decision
    raise AssertionError  # the loop has no other end


def _read(answer: Any, content: Any) -> Decision | None:
    """The decision that an answer is; None if it is none."""
    told: Mapping[str, Any] = cast("Mapping[str, Any]", answer) if isinstance(answer, Mapping) else {}
    verdict = told.get("decision")
    if verdict not in _VERDICTS or (verdict == "edited" and "content" not in told):
        return None
    return Decision(verdict, told["content"] if verdict == "edited" else content, told.get("decidedBy"))
