"""The report of an audit, as Markdown."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from measure import FileMeasure

ROWS = 20
"""Maximum number of rows of a table."""


def write_report(path: Path, state: Mapping[str, Any], drawing: str) -> None:
    """Write the report, replacing an older one."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("\n".join(_lines(state, drawing)) + "\n", encoding="utf-8")


def _lines(state: Mapping[str, Any], drawing: str) -> Iterable[str]:
    measures: Sequence[FileMeasure] = state["measures"]
    yield f"# Audit of `{Path(state['root']).resolve().name}`\n"
    yield from _totals(measures)
    yield "\n## What stands out\n"
    yield from _findings(state)
    yield "\n## The largest files\n"
    largest = sorted(measures, key=lambda file: file.lines, reverse=True)[:ROWS]
    yield from _table(
        ("file", "lines", "functions", "TODOs"),
        [(file.path, file.lines, len(file.functions), file.todos) for file in largest],
    )
    unread = [file for file in measures if file.problem is not None]
    if unread:
        yield "\n## Not measured\n"
        yield from _table(("file", "why"), [(file.path, file.problem) for file in unread])
    yield f"\n## The graph\n\n```mermaid\n{drawing.strip()}\n```"


def _totals(measures: Sequence[FileMeasure]) -> Iterable[str]:
    functions = [function for file in measures for function in file.functions]
    mean = sum(function.length for function in functions) / len(functions) if functions else 0.0
    rows = [
        ("files", len(measures)),
        ("lines", sum(file.lines for file in measures)),
        ("functions", len(functions)),
        ("mean length of a function", f"{mean:.1f}"),
        ("TODOs", sum(file.todos for file in measures)),
    ]
    return _table(("measure", "value"), rows)


def _findings(state: Mapping[str, Any]) -> Iterable[str]:
    if not state["findings"]:
        return ["Nothing: every function is short, flat and simple."]
    rows = [
        (
            f"`{function.name}`",
            f"{path}:{function.line}",
            function.length,
            function.nesting,
            function.complexity,
            advice,
        )
        for (path, function), advice in zip(state["findings"], state["advice"], strict=True)
    ]
    table = _table(("function", "where", "lines", "nesting", "complexity", "advice"), rows[:ROWS])
    more = len(rows) - ROWS
    return [*table, f"\nand {more} more."] if more > 0 else table


def _table(head: Sequence[str], rows: Sequence[Sequence[object]]) -> list[str]:
    cells = [[str(cell).replace("|", "\\|").replace("\n", " ") for cell in row] for row in rows]
    return [f"| {' | '.join(row)} |" for row in (head, ["---"] * len(head), *cells)]
