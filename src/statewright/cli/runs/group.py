"""The command group `statewright runs`."""

from __future__ import annotations

import typer

from statewright.cli.runs.control import approve, cancel, pause, resume, retry, signal
from statewright.cli.runs.show import logs, ls, show
from statewright.cli.runs.start import start, watch

runs = typer.Typer(name="runs", help="Start, follow and control the runs of a server.", no_args_is_help=True)
for command in (ls, show, start, watch, cancel, pause, resume, retry, signal, approve, logs):
    runs.command()(command)
