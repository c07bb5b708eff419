"""A call of a tool that is wrong in itself: whoever asked for it has to ask in another way."""

from __future__ import annotations

from statewright.errors import ToolError


class WrongCall(ToolError):
    """There is no such tool, its arguments do not fit, or nobody agrees to the call."""
