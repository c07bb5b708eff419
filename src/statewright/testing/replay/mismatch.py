"""The error for a recorded run that would take another course today: its position, and both values."""

from __future__ import annotations

import difflib
from dataclasses import dataclass, replace
from pprint import pformat
from typing import Final

MAX_LINE_LENGTH: Final = 80
"""Values of at most this many characters are printed on one line."""
MAX_LINES: Final = 40
"""The maximum number of lines of a difference that are printed."""


@dataclass(slots=True)
class Position:
    """A position in a recording."""

    file: str
    call: int
    namespace: str
    thread_id: str | None
    superstep: int | None = None
    task: str | None = None
    index: int | None = None
    """The index among several tasks of one node."""

    def __str__(self) -> str:
        parts = [f"{self.file}, call {self.call}"]
        if self.thread_id is not None:
            parts[0] += f" (thread {self.thread_id!r})"
        if self.namespace:
            parts.append("subgraph " + repr("|".join(call.partition(":")[0] for call in self.namespace.split("|"))))
        if self.superstep is not None:
            parts.append(f"superstep {self.superstep}")
        if self.task is not None:
            parts.append(f"task {self.task!r}" + (f" (number {self.index + 1})" if self.index is not None else ""))
        return ", ".join(parts)

    def at(self, superstep: int | None, task: str | None = None, index: int | None = None) -> Position:
        """Return the position of a superstep or task of the same run."""
        return replace(self, superstep=superstep, task=task, index=index)


class ReplayMismatch(AssertionError):
    """A recorded run would take another course today."""

    def __init__(self, position: Position, what: str, recorded: object, came: object, hint: str = "") -> None:
        self.call = position.call
        """The number of the call in the recording, from 1."""
        self.namespace = position.namespace
        """Empty for the call itself; the path of tasks that leads to a subgraph."""
        self.superstep = position.superstep
        self.task = position.task
        """The node of the task, if a single task differs."""
        self.what = what
        """The difference, as in "it has other targets"."""
        self.recorded = recorded
        self.came = came
        """The value of the replayed run."""
        super().__init__(
            f"{position}: {what}.\n{_format_comparison(recorded, came)}{f'{chr(10)}{hint}' if hint else ''}"
        )


def _format_comparison(recorded: object, replayed: object) -> str:
    """Return both values, one under the other; line by line if they are long."""
    before, after = (value if isinstance(value, str) else repr(value) for value in (recorded, replayed))
    is_text = isinstance(recorded, str) or isinstance(replayed, str)
    if is_text or (len(before) <= MAX_LINE_LENGTH and len(after) <= MAX_LINE_LENGTH):
        return f"  recorded: {before}\n  replayed: {after}"
    old, new = pformat(recorded, width=100).splitlines(), pformat(replayed, width=100).splitlines()
    lines = list(difflib.unified_diff(old, new, "recorded", "replayed", n=2, lineterm=""))
    more = [f"... {len(lines) - MAX_LINES} more lines"] if len(lines) > MAX_LINES else []
    return "\n".join(f"  {line}" for line in (*lines[:MAX_LINES], *more))
