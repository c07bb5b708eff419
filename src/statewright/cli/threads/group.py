"""The command group `statewright threads`."""

from __future__ import annotations

import typer

from statewright.cli.threads.diff import diff
from statewright.cli.threads.edit import copy, fork, prune, release, rm
from statewright.cli.threads.export import export, import_
from statewright.cli.threads.show import history, ls, show

threads = typer.Typer(name="threads", help="Inspect saved threads, and change them.", no_args_is_help=True)
for command in (ls, show, history, diff, fork, prune, copy, release, rm):
    threads.command()(command)
threads.command()(export)
threads.command("import")(import_)
