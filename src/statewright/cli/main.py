"""The command line as a whole."""

from __future__ import annotations

import signal
import sys
import threading
import warnings
from functools import cache
from typing import Annotated, Any

import typer

from statewright import __version__
from statewright.cli.chat import chat
from statewright.cli.check import check
from statewright.cli.db import db
from statewright.cli.definitions import definitions
from statewright.cli.dev import dev
from statewright.cli.draw import draw
from statewright.cli.failure import TERMINATED, WRONG_USE, WrongUse, end
from statewright.cli.init import init
from statewright.cli.keys import keys
from statewright.cli.printing import say, warn
from statewright.cli.resume import resume
from statewright.cli.run import run
from statewright.cli.runs import runs
from statewright.cli.schema import schema
from statewright.cli.serve import serve
from statewright.cli.test import test
from statewright.cli.threads import threads
from statewright.cli.workspaces import workspaces

COMMANDS = {command.__name__: command for command in (run, resume, chat, draw, check, test, schema, init, dev, serve)}
GROUPS = {
    "threads": threads,
    "db": db,
    "runs": runs,
    "definitions": definitions,
    "keys": keys,
    "workspaces": workspaces,
}
HELP = "Run, chat with, draw, check, test and serve workflows and state graphs, and inspect what runs have saved."


def _version(wanted: bool) -> None:
    if wanted:
        say(f"statewright {__version__}")
        raise typer.Exit


def _options(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version and exit.")
    ] = False,
) -> None: ...


@cache
def build(name: str | None = None) -> Any:
    """Return the command line, callable, with all commands or with one: building all takes longer than most run."""
    app = typer.Typer(
        name="statewright", help=HELP, no_args_is_help=True, add_completion=False, pretty_exceptions_enable=False
    )
    app.callback()(_options)
    for command_name, command in COMMANDS.items():
        if name in (None, command_name):
            app.command()(command)
    for group_name, group in GROUPS.items():
        if name in (None, group_name):
            app.add_typer(group)
    return _in_paragraphs(typer.main.get_command(app))


def _in_paragraphs(command: Any) -> Any:
    """The command with each paragraph of its help on one line, to be wrapped at the width of the terminal."""
    command.help = "\n\n".join(" ".join(one.split()) for one in (command.help or "").split("\n\n"))
    for part in getattr(command, "commands", {}).values():
        _in_paragraphs(part)
    return command


def _end_in_order_on_sigterm() -> None:
    """Let SIGTERM unwind the command, so that a run lets go of its thread. Commands that serve have handlers of their
    own; whoever has set another one keeps it."""
    if threading.current_thread() is threading.main_thread() and signal.getsignal(signal.SIGTERM) is signal.SIG_DFL:
        signal.signal(signal.SIGTERM, _terminate)


def _terminate(number: int, frame: object) -> None:
    sys.exit(TERMINATED)


def _warn_on_one_line() -> None:
    """Print warnings of this library as the sentences that they are: a place in its source helps nobody here."""
    print_any = warnings.showwarning

    def show(
        message: Any, category: type[Warning], filename: str, lineno: int, file: Any = None, line: Any = None
    ) -> None:
        if category.__module__.partition(".")[0] == "statewright":
            warn(f"warning: {message}")
        else:
            print_any(message, category, filename, lineno, file, line)

    warnings.showwarning = show


def main() -> None:
    """Run the command that was asked for; what cannot be done is one sentence and an exit code."""
    from statewright.errors import GraphError, StatewrightError

    _end_in_order_on_sigterm()
    _warn_on_one_line()
    name = sys.argv[1] if len(sys.argv) > 1 else None
    try:
        build(name if name in COMMANDS or name in GROUPS else None)()
    except (WrongUse, GraphError) as error:
        end(f"Error: {error}", WRONG_USE)
    except StatewrightError as error:
        from statewright.cli.failure import exit_code_of, told

        end(f"Error: {told(error)}", exit_code_of(error))
