"""The option `--queues` of commands that advance runs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated

import typer

from statewright.cli.console.failure import UsageError
from statewright.runs import is_queue_name

QueuesOption = Annotated[
    list[str] | None,
    typer.Option(
        "--queues",
        "-Q",
        metavar="NAME,...",
        help="Advance only runs of these queues. Repeatable. Default: the project's, or all queues.",
    ),
]


def read_queue_names(values: Sequence[str] | None) -> list[str] | None:
    """Return the names in the values of `--queues`, without duplicates; None if it was not given.

    Raises UsageError for a name that no queue can have.
    """
    if not values:
        return None
    names = list(dict.fromkeys(name.strip() for value in values for name in value.split(",")))
    for name in names:
        if not is_queue_name(name):
            raise UsageError(
                f"--queues: {name!r} is not a valid name of a queue. Use 1 to 63 letters, digits, hyphens, dots and "
                f"underscores, and commas between the names."
            )
    return names
