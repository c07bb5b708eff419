"""A step with arguments that its function does not take, and a result of another type."""

from __future__ import annotations

from typing import Any

from statewright import Runtime, get_runtime


def charge(amount: int) -> str:
    return f"charged {amount}"


def pay(state: dict[str, Any], runtime: Runtime) -> dict[str, Any]:
    runtime.step("charge", charge, "five")  # pyright=reportArgumentType mypy=arg-type
    receipt: int = runtime.step("charge", charge, 5)  # pyright=reportAssignmentType mypy=assignment
    return {"receipt": receipt}


user: int = get_runtime(str).context  # pyright=reportAssignmentType mypy=assignment
