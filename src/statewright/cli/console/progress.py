"""Progress on a terminal: a line a node, with how often it ran, for how long, and what it waits for."""

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

from statewright.cli.console.printing import console
from statewright.runtime import StreamMode

_WAITS: Final = {"question": "waits for an answer", "event": "waits for an event", "timer": "waits for a timer"}


@dataclass(slots=True)
class NodeProgress:
    """The tasks of one node, counted; `seconds` is wall time in which at least one of them ran."""

    running: int = 0
    finished: int = 0
    failed: int = 0
    seconds: float = 0.0
    expected: int = 0
    """Tasks of the present superstep, if they are known; `done` of them have ended."""
    done: int = 0
    waiting: Counter[str] = field(default_factory=Counter[str])
    """Tasks that wait, by the kind of what they wait for."""
    since: float = 0.0
    """When the first of those that run now was started."""

    @property
    def text(self) -> str:
        """How far the node is: of a fan-out as a share, else how often it ran; and what its tasks wait for."""
        share = self.expected > 1 and self.done < self.expected and not self.waiting
        ran = f"{self.done} of {self.expected}" if share else f"{self.finished}×" if self.finished else ""
        waits = [f"{_WAITS[kind]}{f' ({count} tasks)' if count > 1 else ''}" for kind, count in self.waiting.items()]
        return ", ".join([*([ran] if ran else []), *waits])

    def elapsed(self, now: float) -> float:
        """Return the wall time of the node in seconds."""
        return self.seconds + (now - self.since if self.running else 0.0)


class Progress:
    """Follows the `tasks` and `checkpoints` parts of a stream. Draws on standard error if that is a terminal."""

    def __init__(self) -> None:
        self.nodes: dict[str, NodeProgress] = {}
        self._live: Live | None = None
        if sys.stderr.isatty():
            self._live = Live(console=console(stderr=True), refresh_per_second=12, get_renderable=self._table)

    @property
    def modes(self) -> list[StreamMode]:
        """The modes of the stream that are needed."""
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
        """Count the start or the end of a task, or the tasks that a checkpoint says are next."""
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
        kinds = [one["kind"] for one in part["interrupts"]]
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
                continue  # it is due, and has not begun
            table.add_row(_sign(node), escape(name), node.text, f"{node.elapsed(now):.2f} s")
        return table


def _sign(node: NodeProgress) -> str:
    if node.failed:
        return "[red]✗"
    if node.running:
        return "[yellow]…"
    return "[cyan]?" if node.waiting else "[green]✓"
