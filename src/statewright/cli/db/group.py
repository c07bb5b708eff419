"""The command group `statewright db`."""

from __future__ import annotations

import typer

from statewright.cli.db.backup import backup, restore, vacuum
from statewright.cli.db.check import check

db = typer.Typer(name="db", help="Check the database, back it up, restore it, make it smaller.", no_args_is_help=True)
for command in (check, backup, restore, vacuum):
    db.command()(command)
