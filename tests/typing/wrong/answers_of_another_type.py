"""The answer to a question has the type of its schema."""

from __future__ import annotations

from typing import Any

from statewright import interrupt, wait_for_event


def ask(state: dict[str, Any]) -> dict[str, Any]:
    name: str = interrupt("How many?", schema=int)  # pyright=reportAssignmentType mypy=assignment
    paid: int = wait_for_event("paid", schema=int, timeout=10)  # pyright=reportAssignmentType mypy=assignment
    return {"name": name, "paid": paid}
