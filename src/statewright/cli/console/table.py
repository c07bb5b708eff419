"""Tables on standard output: no wider than the terminal if there is one, a line a record for other programs.

Nothing is cut off. On a terminal a cell that is too long is folded; elsewhere every cell stands whole on its line.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import datetime
from typing import Final, NamedTuple

from rich.cells import cell_len
from rich.console import Console
from rich.table import Table
from rich.text import Text

from statewright.cli.console.printing import console


class Column(NamedTuple):
    """A column of a table."""

    title: str = ""
    whole: bool = False
    """Whether it holds names to be copied: their words are broken only where there is no other way."""
    right: bool = False


def print_table(columns: Sequence[Column], rows: Iterable[Sequence[object]]) -> None:
    """Print rows, under titles if the columns have some. Nothing is cut off: what is too long is folded."""
    cells = [[_cell(cell) for cell in row] for row in rows]
    terminal = console(highlight=False)
    widths = [
        max(cell_len(text) for text in (column.title, *(row[place].plain for row in cells)))
        for place, column in enumerate(columns)
    ]
    if terminal.is_terminal:
        _shrink(widths, columns, cells, terminal.width - _GAP * (len(columns) - 1))
    has_titles = any(column.title for column in columns)
    table = Table(box=None, pad_edge=False, padding=(0, _GAP, 0, 0), header_style="bold", show_header=has_titles)
    for column, width in zip(columns, widths, strict=True):
        table.add_column(column.title, width=width, overflow="fold", justify="right" if column.right else "left")
    for row in cells:
        table.add_row(*row)
    terminal.width = max(sum(widths) + _GAP * (len(columns) - 1), 1)
    _print(terminal, table)


def print_fields(fields: Iterable[tuple[str, object]]) -> None:
    """Print names with what they mean, a line each."""
    print_table([Column(whole=True), Column()], [(Text(name, "bold"), meaning) for name, meaning in fields])


def _cell(value: object) -> Text:
    """A cell without breaks: each row is one record."""
    text = value if isinstance(value, Text) else Text(str(value))
    if text.plain.isprintable():
        return text
    return Text(" ".join(text.plain.splitlines()).replace("\t", " "), text.style)


def _shrink(widths: list[int], columns: Sequence[Column], cells: Sequence[Sequence[Text]], room: int) -> None:
    """Make columns narrower until they fit: the widest first, names last of all, the first column after the others."""
    if sum(widths) <= room:
        return
    widths[:] = [min(width, max(room, 1)) for width in widths]
    words = [
        max(
            cell_len(word)
            for text in (column.title, *(row[place].plain for row in cells))
            for word in ["", *text.split()]
        )
        for place, column in enumerate(columns)
    ]
    usual = [word if column.whole else min(word, _NARROW) for column, word in zip(columns, words, strict=True)]
    narrow = [word if column.whole else min(word, _NARROWEST) for column, word in zip(columns, words, strict=True)]
    first_alone = [words[0], *(min(word, _NARROWEST) for word in words[1:])]
    for floors in (usual, narrow, first_alone, [1] * len(columns)):
        _shrink_to(widths, floors, room)


def _shrink_to(widths: list[int], floors: Sequence[int], room: int) -> None:
    """Take from the widest column what is too much, as long as one is wider than its floor."""
    while (excess := sum(widths) - room) > 0:
        wide = [place for place in range(len(widths)) if widths[place] > floors[place]]
        if not wide:
            return
        widest = max(wide, key=widths.__getitem__)
        next_widest = max((widths[place] for place in wide if place != widest), default=0)
        least = max(floors[widest], min(next_widest, widths[widest] - 1), widths[widest] - excess)
        widths[widest] = least


def _print(terminal: Console, table: Table) -> None:
    with terminal.capture() as captured:
        terminal.print(table)
    written = "\n".join(line.rstrip() for line in captured.get().splitlines())
    terminal.file.write(f"{written}\n")  # its styles are the console's own, and its texts are printable


def moment(instant: datetime) -> str:
    """An instant as people here read it: local time, to the second."""
    return instant.astimezone().strftime("%Y-%m-%d %H:%M:%S")


_GAP: Final = 2
"""Columns of the terminal between two of a table."""
_NARROW: Final = 8
"""To how little a column may shrink; most names of nodes are no longer."""
_NARROWEST: Final = 4
"""To how little it may shrink where names of other columns would be broken otherwise."""
