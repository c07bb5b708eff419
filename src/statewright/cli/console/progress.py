"""Progress display on a terminal: one line per node with its number of runs, its time and what it waits for."""

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

_WAITS: Final = {"question": "waits for an answer", "event": "waits for an event", "timer": "waits for a timer"}


@dataclass(slots=True)
class NodeProgress:
    """Counts of the tasks of one node; `seconds` is the wall time during which at least one of them ran."""

    running: int = 0
    finished: int = 0
    failed: int = 0
    seconds: float = 0.0
    expected: int = 0
    """Tasks of the current superstep, if known; `done` of them have ended."""
    done: int = 0
    waiting: Counter[str] = field(default_factory=Counter[str])
    """Waiting tasks by the kind of their interrupt."""
    since: float = 0.0
    """When the first of the tasks that are running now was started."""

    @property
    def text(self) -> str:
        """The progress as text: `3 of 7` for a fan-out, else the number of runs; and what its tasks wait for."""
        is_partial = self.expected > 1 and self.done < self.expected and not self.waiting
        progress = f"{self.done} of {self.expected}" if is_partial else f"{self.finished}×" if self.finished else ""
        waits = [f"{_WAITS[kind]}{f' ({count} tasks)' if count > 1 else ''}" for kind, count in self.waiting.items()]
        return ", ".join([*([progress] if progress else []), *waits])

    def elapsed(self, now: float) -> float:
        """Return the wall time of the node in seconds."""
        return self.seconds + (now - self.since if self.running else 0.0)


class Progress:
    """Follows the `tasks` and `checkpoints` parts of a stream, and draws on standard error if that is a terminal."""

    def __init__(self) -> None:
        self.nodes: dict[str, NodeProgress] = {}
        self._live: Live | None = None
        if sys.stderr.isatty():
            self._live = Live(console=PrintableConsole(stderr=True), refresh_per_second=12, get_renderable=self._table)

    @property
    def modes(self) -> list[StreamMode]:
        """The stream modes to subscribe to."""
        return ["tasks", "checkpoints"] if self._live is not None else ["tasks"]

    def __enter__(self) -> Self:
        if self._live is not None:
            self._live.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._live is not None:
            self._live.stop()

    def take(self, part: dict[str, Any]) -> None:
        """Record the start or end of a task, or the tasks that a checkpoint lists as next."""
        if "next" in part:
            for name, count in Counter[str](part["next"]).items():
                self._node(name).expected, self._node(name).done = count, 0
            return
        node = self._node(part["name"])
        if "error" not in part:
            node.waiting.clear()  # it is resumed
            if not node.running:
                node.since = time.monotonic()
            node.running += 1
            return
        node.seconds = node.elapsed(time.monotonic()) if node.running == 1 else node.seconds
        node.running -= 1
        node.done += 1
        kinds = [interrupt["kind"] for interrupt in part["interrupts"]]
        node.waiting.update(kinds)
        node.finished += not kinds
        node.failed += part["error"] is not None

    def _node(self, name: str) -> NodeProgress:
        return self.nodes.setdefault(name, NodeProgress())

    def _table(self) -> Table:
        table = Table.grid(padding=(0, 2))
        now = time.monotonic()
        for name, node in self.nodes.items():
            if not (node.running or node.done or node.finished or node.failed):
                continue  # due, but not started yet
            table.add_row(_sign(node), escape(name), node.text, f"{node.elapsed(now):.2f} s")
        return table


def _sign(node: NodeProgress) -> str:
    if node.failed:
        return "[red]✗"
    if node.running:
        return "[yellow]…"
    return "[cyan]?" if node.waiting else "[green]✓"
