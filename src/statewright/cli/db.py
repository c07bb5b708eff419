"""`statewright db`: the database as a whole."""

from __future__ import annotations

import typer

from statewright.cli.db_check import check
from statewright.cli.db_copy import backup, restore
from statewright.cli.db_vacuum import vacuum

db = typer.Typer(name="db", help="Check the database, back it up, restore it, make it smaller.", no_args_is_help=True)
for command in (check, backup, restore, vacuum):
    db.command()(command)
