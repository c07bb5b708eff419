"""Gates in the server that tests open: a task waits until as many are let through as its number says.

A gate is a file, which has the number of those that are let through. So it stays open if the server is restarted.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class Gates:
    """The gates in a folder, as the server sees them. Without a name there is no gate: tasks pass, others fail."""

    folder: Path

    def is_open(self, name: str, number: int = 0) -> bool:
        path = self.folder / (name or "none")
        return path.exists() and number < int(path.read_text())

    async def pass_through(self, name: str, number: int = 0) -> None:
        while name and not self.is_open(name, number):
            await asyncio.sleep(0.02)


@dataclass(frozen=True)
class Gate:
    """One gate, as a test sees it."""

    folder: Path
    name: str

    def open(self, count: int = 1_000_000) -> None:
        """Let the first `count` through."""
        self.folder.mkdir(exist_ok=True)
        temporary = self.folder / f".{self.name}"
        temporary.write_text(str(count))
        temporary.replace(self.folder / self.name)
