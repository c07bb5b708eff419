"""Values as the text that a model is shown."""

from __future__ import annotations

import json
from typing import Any


def as_text(value: Any) -> str:
    """A text as it is, anything else as JSON."""
    if isinstance(value, str):
        return value
    try:
        return json.dumps(value, ensure_ascii=False, default=str)
    except (TypeError, ValueError, RecursionError):
        return _somehow(value)


def _somehow(value: Any) -> str:
    try:
        return str(value)
    except Exception:  # an integer of thousands of digits, or what the class of a user does
        return f"<{type(value).__name__}>"
