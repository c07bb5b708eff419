"""The error for a difference between a recorded run and its replay."""

from __future__ import annotations

import difflib
from dataclasses import dataclass, replace
from pprint import pformat
from typing import Final

MAX_LINE_LENGTH: Final = 80
"""The maximum length of a value that is printed on one line; longer values are compared line by line."""
MAX_LINES: Final = 40
"""The maximum number of lines that a comparison prints."""


@dataclass(slots=True)
class Position:
    """A position in a recording: a run, a superstep of it, or a task."""

    file: str
    call: int
    """The number of the call of the recorded graph, from 1."""
    namespace: str
    """The path of tasks to a subgraph; empty for the call itself."""
    thread_id: str | None
    superstep: int | None = None
    task: str | None = None
    """The name of the task's node."""
    index: int | None = None
    """The index of the task among the tasks of its node in this superstep; None if it is the only one."""

    def __str__(self) -> str:
        parts = [f"{self.file}, call {self.call}"]
        if self.thread_id is not None:
            parts[0] += f" (thread {self.thread_id!r})"
        if self.namespace:
            nodes = "|".join(call.partition(":")[0] for call in self.namespace.split("|"))
            parts.append(f"subgraph {nodes!r}")
        if self.superstep is not None:
            parts.append(f"superstep {self.superstep}")
        if self.task is not None:
            parts.append(f"task {self.task!r}" + (f" (number {self.index + 1})" if self.index is not None else ""))
        return ", ".join(parts)

    def at(self, superstep: int | None, task: str | None = None, index: int | None = None) -> Position:
        """Return the position of a superstep of the same run, or of a task in it."""
        return replace(self, superstep=superstep, task=task, index=index)


class ReplayMismatch(AssertionError):
    """The replay of a recorded run differs from the recording."""

    def __init__(self, position: Position, what: str, recorded: object, replayed: object, hint: str = "") -> None:
        self.call = position.call
        """The number of the call in the recording, from 1."""
        self.namespace = position.namespace
        """The path of tasks to a subgraph; empty for the call itself."""
        self.superstep = position.superstep
        self.task = position.task
        """The name of the task's node, if a single task differs."""
        self.what = what
        """The kind of difference, such as "its targets differ"."""
        self.recorded = recorded
        """The value in the recording, or a clause that says what happened."""
        self.came = replayed
        """The value in the replay, or a clause that says what happened."""
        super().__init__(
            f"{position}: {what}.\n{_format_comparison(recorded, replayed)}{f'{chr(10)}{hint}' if hint else ''}"
        )


def _format_comparison(recorded: object, replayed: object) -> str:
    """Return both values, one below the other, or a line-by-line diff if they are long."""
    before, after = (value if isinstance(value, str) else repr(value) for value in (recorded, replayed))
    is_text = isinstance(recorded, str) or isinstance(replayed, str)
    if is_text or (len(before) <= MAX_LINE_LENGTH and len(after) <= MAX_LINE_LENGTH):
        return f"  recorded: {before}\n  replayed: {after}"
    old, new = pformat(recorded, width=100).splitlines(), pformat(replayed, width=100).splitlines()
    lines = list(difflib.unified_diff(old, new, "recorded", "replayed", n=2, lineterm=""))
    more = [f"... {len(lines) - MAX_LINES} more lines"] if len(lines) > MAX_LINES else []
    return "\n".join(f"  {line}" for line in (*lines[:MAX_LINES], *more))
