"""Print the table row by row, and write it to `RESULTS.md`."""

import os
import platform
import re
from collections.abc import Iterable, Sequence
from datetime import date
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

from benchmarks.environment import PEERS
from benchmarks.harness import Row
from benchmarks.numerals import plain

_HEADINGS = ("case", "statewright", "peer", "ratio", "must reach", "reached?")
_WIDTHS = (64, 11, 32, 11, 13, 8)
_VERDICTS = {True: "yes", False: "NO", None: "-"}
RESULTS = Path(__file__).with_name("RESULTS.md")
REMARKS = Path(__file__).with_name("remarks.md")


def heading() -> str:
    """Return the first two lines of the table."""
    return f"{_line(_HEADINGS)}\n{_line('-' * width for width in _WIDTHS)}"


def line(row: Row) -> str:
    """Return one row of the table, readable as text and as Markdown."""
    peer = f"{row.peer} {plain(row.other)}" if row.peer else "-"
    requirement = row.requirement
    compared = requirement.compare(row.ours, row.other)
    return _line((row.case, plain(row.ours), peer, compared, requirement.demand(), _VERDICTS[row.is_met]))


def save(rows: Sequence[Row]) -> None:
    """Write `RESULTS.md`: the environment, the table, and the missed targets, if any."""
    sections = ["# Results", _environment(), "\n".join([heading(), *map(line, rows)])]
    missed = [row for row in rows if row.is_met is False]
    if missed:
        sections += ["## Targets that were missed", "\n".join(map(_shortfall, missed)), _remarks()]
    RESULTS.write_text("\n\n".join(filter(None, sections)) + "\n", encoding="utf-8")


def _line(cells: Iterable[str]) -> str:
    return f"| {' | '.join(cell.ljust(width) for cell, width in zip(cells, _WIDTHS, strict=True))} |"


def _environment() -> str:
    machine = f"Python {platform.python_version()}, {os.cpu_count()} cores."
    return f"{machine} {date.today().isoformat()}. {', '.join(_versions())}.\n\n{_READING}"


_READING = (
    "Costs, so smaller is better: the best pass of each engine. The engines of a row take turns in one run, each in "
    "its own process. The ratio is the peer's cost divided by ours."
)


def _versions() -> list[str]:
    """Return the installed versions of Statewright and of the peers."""
    names = ["statewright", *re.findall(r"^[\w-]+", PEERS.read_text(), re.MULTILINE)]
    return [f"{name} {_version(name)}" for name in names]


def _version(name: str) -> str:
    try:
        return version(name)
    except PackageNotFoundError:
        return "(not installed)"


def _shortfall(row: Row) -> str:
    comparison = f", {row.peer} {plain(row.other)}" if row.peer else ""
    return f"- {row.case}: {plain(row.ours)}{comparison}; must reach {row.requirement.demand()}."


def _remarks() -> str:
    return REMARKS.read_text(encoding="utf-8").strip() if REMARKS.exists() else ""
