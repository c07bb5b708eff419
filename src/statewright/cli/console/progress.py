"""Progress display on a terminal: a line per node, with its number of tasks, its duration and its open interrupts."""

from __future__ import annotations

import sys
import time
from collections import Counter
from dataclasses import dataclass, field
from types import TracebackType
from typing import Any, Final, Self

from rich.live import Live
from rich.markup import escape
from rich.table import Table

from statewright.cli.console.table import PrintableConsole
from statewright.runtime import StreamMode

_WAITS: Final = {"question": "waiting for an answer", "event": "waiting for an event", "timer": "waiting for a timer"}
"""The text for a waiting task, by the kind of its interrupt."""


@dataclass(slots=True)
class NodeProgress:
    """The progress of one node: counts of its tasks, and its duration."""

    running: int = 0
    finished: int = 0
    failed: int = 0
    seconds: float = 0.0
    """Wall time during which at least one task was running, without the current period if a task is running now."""
    expected: int = 0
    """Tasks in the current superstep; 0 if unknown."""
    done: int = 0
    """Tasks of the current superstep that have ended."""
    waiting: Counter[str] = field(default_factory=Counter[str])
    """Waiting tasks by kind of interrupt."""
    running_since: float = 0.0
    """When the first of the currently running tasks started, by the monotonic clock."""

    @property
    def text(self) -> str:
        """The progress as text: `3 of 7` during a fan-out, else the number of finished tasks; then the waits."""
        is_partial = self.expected > 1 and self.done < self.expected and not self.waiting
        progress = f"{self.done} of {self.expected}" if is_partial else f"{self.finished}×" if self.finished else ""
        waits = [f"{_WAITS[kind]}{f' ({count} tasks)' if count > 1 else ''}" for kind, count in self.waiting.items()]
        return ", ".join([*([progress] if progress else []), *waits])

    def elapsed(self, now: float) -> float:
        """Return the wall time of the node in seconds, including the current period; `now` is the monotonic time."""
        return self.seconds + (now - self.running_since if self.running else 0.0)


class Progress:
    """Tracks the progress of a run from its stream, and displays it on standard error if that is a terminal."""

    def __init__(self) -> None:
        self.nodes: dict[str, NodeProgress] = {}
        self._live_display: Live | None = None
        if sys.stderr.isatty():
            self._live_display = Live(
                console=PrintableConsole(stderr=True), refresh_per_second=12, get_renderable=self._table
            )

    @property
    def modes(self) -> list[StreamMode]:
        """The stream modes to subscribe to."""
        return ["tasks", "checkpoints"] if self._live_display is not None else ["tasks"]

    def __enter__(self) -> Self:
        if self._live_display is not None:
            self._live_display.start()
        return self

    def __exit__(
        self, error_type: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        if self._live_display is not None:
            self._live_display.stop()

    def record(self, part: dict[str, Any]) -> None:
        """Record a part of the stream: the start or end of a task, or a checkpoint with the next tasks."""
        if "next" in part:
            for name, count in Counter[str](part["next"]).items():
                self._node(name).expected, self._node(name).done = count, 0
            return
        node = self._node(part["name"])
        if "error" not in part:  # the start of a task
            node.waiting.clear()  # the node was resumed
            if not node.running:
                node.running_since = time.monotonic()
            node.running += 1
            return
        node.seconds = node.elapsed(time.monotonic()) if node.running == 1 else node.seconds
        node.running -= 1
        node.done += 1
        interrupt_kinds = [interrupt["kind"] for interrupt in part["interrupts"]]
        node.waiting.update(interrupt_kinds)
        node.finished += not interrupt_kinds
        node.failed += part["error"] is not None

    def _node(self, name: str) -> NodeProgress:
        return self.nodes.setdefault(name, NodeProgress())

    def _table(self) -> Table:
        table = Table.grid(padding=(0, 2))
        now = time.monotonic()
        for name, node in self.nodes.items():
            if not (node.running or node.done or node.finished or node.failed):
                continue  # due, but not started yet
            table.add_row(_status_mark(node), escape(name), node.text, f"{node.elapsed(now):.2f} s")
        return table


def _status_mark(node: NodeProgress) -> str:
    if node.failed:
        return "[red]✗"
    if node.running:
        return "[yellow]…"
    return "[cyan]?" if node.waiting else "[green]✓"
