"""Tables on standard output: as wide as the terminal if there is one, as wide as they are for other programs."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import datetime
from typing import Final, NamedTuple

from rich.measure import Measurement
from rich.table import Table
from rich.text import Text

from statewright.cli.printing import console


class Column(NamedTuple):
    """A column of a table."""

    title: str
    whole: bool = False
    """Whether its cells are never broken into lines: they are names to be copied."""
    right: bool = False


def print_table(columns: Sequence[Column], rows: Sequence[Sequence[object]]) -> None:
    """Print rows under titles. Nothing is cut off: what is too wide is broken into lines, names are left whole."""
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="bold")
    for place, column in enumerate(columns):
        longest = max(len(one) for one in (column.title, *(str(row[place]) for row in rows)))
        table.add_column(
            column.title,
            no_wrap=column.whole,
            overflow="fold",
            justify="right" if column.right else "left",
            min_width=longest if column.whole else min(longest, _NARROWEST),
        )
    for row in rows:
        table.add_row(*(Text(str(cell)) for cell in row))
    print_whole(table)


def print_fields(fields: Iterable[tuple[str, object]]) -> None:
    """Print names with what they mean, a line each."""
    table = Table.grid(padding=(0, 2, 0, 0))
    table.add_column(style="bold", no_wrap=True)
    table.add_column(overflow="fold")
    for name, meaning in fields:
        table.add_row(name, Text(str(meaning)))
    print_whole(table)


def print_whole(table: Table) -> None:
    """Print a table in a width that cuts nothing off."""
    terminal = console(highlight=False)
    measured = Measurement.get(terminal, terminal.options.update(max_width=_WIDEST), table)
    terminal.width = max(terminal.width, measured.minimum) if terminal.is_terminal else max(measured.maximum, 1)
    with terminal.capture() as captured:
        terminal.print(table)
    lines = captured.get().splitlines()
    written = "\n".join(lines if terminal.is_terminal else [line.rstrip() for line in lines])
    terminal.file.write(f"{written}\n")  # its styles are the console's own, and its texts are printable


def moment(instant: datetime) -> str:
    """An instant as people here read it: local time, to the second."""
    return instant.astimezone().strftime("%Y-%m-%d %H:%M:%S")


_NARROWEST: Final = 8
"""To how little a column may shrink; most names of nodes are no longer."""
_WIDEST: Final = 100_000
"""More columns than any terminal has."""
