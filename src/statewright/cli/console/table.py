"""Output with Rich: coloured states, and tables. Rich is slow to import, so other output does not use it.

A table is at most as wide as the terminal, and nothing is truncated: on a terminal, long cells are folded; elsewhere,
each record is one line. Column widths are computed here, because Rich would shrink all columns in proportion. It would
break names that users copy, even if other columns could be narrower instead.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import datetime
from typing import Any, Final, NamedTuple, TypeVar

from rich.cells import cell_len
from rich.console import Console, ConsoleOptions, RenderableType
from rich.segment import Segment
from rich.table import Table
from rich.text import Text

from statewright.cli.console.printing import say
from statewright.cli.console.values import to_json
from statewright.terminal_text import printable

T = TypeVar("T")


class PrintableConsole(Console):
    """A console that removes control characters from text, as `say` does, but keeps those of Rich itself."""

    def render(self, renderable: RenderableType, options: ConsoleOptions | None = None) -> Iterable[Segment]:
        """Yield the segments of a renderable."""
        for segment in super().render(renderable, options):
            if segment.control or not self.is_terminal:
                yield segment
            else:
                yield Segment(printable(segment.text), segment.style)


def print_state(state: Any, *, as_json: bool) -> None:
    """Print a state as JSON, in colour on a terminal unless `as_json` asks for plain JSON."""
    if as_json or not sys.stdout.isatty():
        say(to_json(state))
    else:
        PrintableConsole().print_json(to_json(state))


# -- tables


class Column(NamedTuple):
    """A column of a table."""

    title: str = ""
    keep_words: bool = False
    """True for a column of names that users copy. Its words are broken only as a last resort."""
    right: bool = False
    """True to align cells to the right."""


def print_table(columns: Sequence[Column], rows: Iterable[Sequence[object]]) -> None:
    """Print rows, under titles if the columns have titles. Long cells are folded, never truncated."""
    cells = [[_to_cell(cell) for cell in row] for row in rows]
    console = PrintableConsole(highlight=False)
    widths = [
        max(cell_len(text) for text in (column.title, *(row[index].plain for row in cells)))
        for index, column in enumerate(columns)
    ]
    if console.is_terminal:
        _shrink(widths, columns, cells, console.width - _GAP * (len(columns) - 1))
    has_titles = any(column.title for column in columns)
    table = Table(box=None, pad_edge=False, padding=(0, _GAP, 0, 0), header_style="bold", show_header=has_titles)
    for column, width in zip(columns, widths, strict=True):
        table.add_column(column.title, width=width, overflow="fold", justify="right" if column.right else "left")
    for row in cells:
        table.add_row(*row)
    console.width = max(sum(widths) + _GAP * (len(columns) - 1), 1)
    _print(console, table)


def print_records(records: Iterable[T], cells: Mapping[Column, Callable[[T], object]]) -> None:
    """Print a table with a row per record; `cells` has a function for each column that returns its cell."""
    print_table(list(cells), [[cell(record) for cell in cells.values()] for record in records])


def print_list(
    records: Sequence[T],
    cells: Mapping[Column, Callable[[T], object]],
    *,
    as_json: bool,
    to_data: Callable[[T], Any] = lambda record: record,
    if_empty: str = "",
) -> None:
    """Print records as JSON or as a table; `if_empty` replaces an empty table."""
    if as_json:
        say(to_json([to_data(record) for record in records]))
    elif records or not if_empty:
        print_records(records, cells)
    else:
        say(if_empty)


def print_fields(fields: Iterable[tuple[str, object]]) -> None:
    """Print names and values, one pair per line."""
    print_table([Column(keep_words=True), Column()], [(Text(name, "bold"), value) for name, value in fields])


def _to_cell(value: object) -> Text:
    """Return a value as the text of a cell, without line breaks and tabs."""
    text = value if isinstance(value, Text) else Text(str(value))
    if text.plain.isprintable():
        return text
    return Text(" ".join(text.plain.splitlines()).replace("\t", " "), text.style)


def _shrink(widths: list[int], columns: Sequence[Column], cells: Sequence[Sequence[Text]], max_width: int) -> None:
    """Narrow columns, in place, until the sum of their widths is at most `max_width` characters.

    The widest column is narrowed first, in four rounds with ever smaller minimum widths. The first two rounds break no
    words in columns with `keep_words`, the third breaks none in the first column, and the last may break any word.
    """
    if sum(widths) <= max_width:
        return
    widths[:] = [min(width, max(max_width, 1)) for width in widths]
    longest_words = [
        max(
            cell_len(word)
            for text in (column.title, *(row[index].plain for row in cells))
            for word in ["", *text.split()]
        )
        for index, column in enumerate(columns)
    ]
    preferred_minimums, smallest_minimums = (
        [
            word if column.keep_words else min(word, min_width)
            for column, word in zip(columns, longest_words, strict=True)
        ]
        for min_width in (_PREFERRED_MIN_WIDTH, _SMALLEST_MIN_WIDTH)
    )
    first_column_minimums = [longest_words[0], *(min(word, _SMALLEST_MIN_WIDTH) for word in longest_words[1:])]
    for minimums in (preferred_minimums, smallest_minimums, first_column_minimums, [1] * len(columns)):
        _shrink_to(widths, minimums, max_width)


def _shrink_to(widths: list[int], minimums: Sequence[int], max_width: int) -> None:
    """Shrink the widest column repeatedly, until the table fits or every column has reached its minimum width."""
    while (excess := sum(widths) - max_width) > 0:
        shrinkable = [index for index in range(len(widths)) if widths[index] > minimums[index]]
        if not shrinkable:
            return
        widest = max(shrinkable, key=widths.__getitem__)
        next_widest = max((widths[index] for index in shrinkable if index != widest), default=0)
        widths[widest] = max(minimums[widest], min(next_widest, widths[widest] - 1), widths[widest] - excess)


def _print(console: Console, table: Table) -> None:
    """Print a table without trailing spaces."""
    with console.capture() as capture:
        console.print(table)
    output = "\n".join(line.rstrip() for line in capture.get().splitlines())
    console.file.write(f"{output}\n")  # safe: the escape sequences are Rich's own, and the texts are printable


def format_instant(instant: datetime) -> str:
    """Format an instant in local time, to the second."""
    return instant.astimezone().strftime("%Y-%m-%d %H:%M:%S")


_GAP: Final = 2
"""Characters between columns."""
_PREFERRED_MIN_WIDTH: Final = 8
"""Preferred minimum width of a column, in characters; enough for most node names."""
_SMALLEST_MIN_WIDTH: Final = 4
"""Minimum width of a column if words of other columns with `keep_words` would otherwise have to be broken."""
