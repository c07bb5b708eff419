"""The results of many scenarios, and their table."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

COLUMNS: Final = (
    "runs",
    "kills",
    "in commits",
    "in compactions",
    "in forks or copies",
    "supersteps",
    "acknowledged",
    "lost in flight",
    "lost under exit",
    "forks",
    "copies",
    "tasks run again",
    "effects repeated",
)
"""The counts that are shown."""


def format_table(counts: Mapping[str, Counter[str]]) -> str:
    """Return the counts as a table, with a row for each shape."""
    rows = [["shape", *COLUMNS, "seconds"]]
    total = sum(counts.values(), Counter[str]())
    for name, count in [*counts.items(), ("all", total)]:
        seconds = f"{count['milliseconds'] / 1000:.1f}"
        rows.append([name, *(str(count[column]) for column in COLUMNS), seconds])
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    padded = [[cell.rjust(width) for cell, width in zip(row, widths, strict=True)] for row in rows]
    return "\n".join(
        "  ".join([row[0].ljust(widths[0]), *numbers]) for row, (_, *numbers) in zip(rows, padded, strict=True)
    )


@dataclass
class Report:
    """The results of many scenarios."""

    counts: dict[str, Counter[str]] = field(default_factory=dict[str, Counter[str]])
    """Counts by shape."""
    broken_promises: list[str] = field(default_factory=list[str])

    @property
    def kills(self) -> int:
        return sum(count["kills"] for count in self.counts.values())

    def __str__(self) -> str:
        summary = f"{self.kills} kills, {len(self.broken_promises)} broken promises"
        return "\n".join([format_table(self.counts), "", *self.broken_promises, summary])
