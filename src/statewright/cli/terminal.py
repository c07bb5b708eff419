"""Progress on a terminal: a line a node, with how often it ran and for how long."""

from __future__ import annotations

import sys
import time
from dataclasses import dataclass
from types import TracebackType
from typing import Any, Self

from rich.console import Console
from rich.live import Live
from rich.markup import escape
from rich.table import Table


@dataclass(slots=True)
class NodeProgress:
    """What a node has done so far."""

    running: int = 0
    finished: int = 0
    failed: int = 0
    seconds: float = 0.0


class Progress:
    """Follows the `tasks` parts of a stream. Draws on standard error if that is a terminal, else says nothing."""

    def __init__(self) -> None:
        self.nodes: dict[str, NodeProgress] = {}
        self._started: dict[str, float] = {}
        self._live: Live | None = None
        if sys.stderr.isatty():
            self._live = Live(console=Console(stderr=True), refresh_per_second=12, get_renderable=self._table)

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
        """Count the start or the end of a task."""
        node = self.nodes.setdefault(part["name"], NodeProgress())
        if "error" not in part:
            node.running += 1
            self._started[part["id"]] = time.monotonic()
            return
        node.running -= 1
        node.finished += 1
        node.failed += part["error"] is not None
        node.seconds += time.monotonic() - self._started.pop(part["id"], time.monotonic())

    def _table(self) -> Table:
        table = Table.grid(padding=(0, 2))
        for name, node in self.nodes.items():
            sign = "[red]✗" if node.failed else "[yellow]…" if node.running else "[green]✓"
            table.add_row(sign, escape(name), f"{node.finished}×", f"{node.seconds:.2f} s")
        return table
