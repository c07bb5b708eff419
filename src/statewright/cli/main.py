"""Entry point of the `statewright` command line.

Commands are listed by name and module. A command line that names a command imports only the module of that command,
because importing and building all of them takes longer than most commands run.
"""

from __future__ import annotations

import signal
import sys
import threading
import warnings
from collections.abc import Mapping
from functools import cache
from importlib import import_module
from typing import Annotated, Any, Final

import typer

from statewright import __version__
from statewright.cli.console.failure import TERMINATED, USAGE_ERROR, UsageError, exit_with
from statewright.cli.console.printing import say, warn

COMMANDS: Final[Mapping[str, str]] = {
    "run": "statewright.cli.workflow.run",
    "resume": "statewright.cli.workflow.resume",
    "chat": "statewright.cli.chat.command",
    "draw": "statewright.cli.workflow.draw",
    "check": "statewright.cli.workflow.check",
    "test": "statewright.cli.workflow.test",
    "schema": "statewright.cli.workflow.check",
    "init": "statewright.cli.workflow.init",
    "dev": "statewright.cli.serve.dev",
    "serve": "statewright.cli.serve.serve",
}
"""The module of each command; the function in it has the name of the command."""
GROUPS: Final[Mapping[str, str]] = {
    "threads": "statewright.cli.threads.group",
    "db": "statewright.cli.db.group",
    "runs": "statewright.cli.runs.group",
    "definitions": "statewright.cli.serve.definitions",
    "keys": "statewright.cli.serve.keys",
    "workspaces": "statewright.cli.serve.workspaces",
}
"""The module of each group of commands; the group in it has the name under which it is called."""
HELP: Final = (
    "Run, chat with, draw, check, test and serve workflows and state graphs, and inspect what runs have saved."
)


def main() -> None:
    """Run the command that the arguments name. Expected errors become one sentence and an exit code."""
    from statewright.errors import GraphError, StatewrightError

    _exit_cleanly_on_sigterm()
    _print_warnings_on_one_line()
    name = sys.argv[1] if len(sys.argv) > 1 else None
    try:
        build(name if name in COMMANDS or name in GROUPS else None)()
    except (UsageError, GraphError) as error:
        exit_with(f"Error: {error}", USAGE_ERROR)
    except StatewrightError as error:
        from statewright.cli.console.failure import exit_code_for, message_of

        exit_with(f"Error: {message_of(error)}", exit_code_for(error))


@cache
def build(name: str | None = None) -> Any:
    """Build the command line as a callable: with the one command or group that is named, else with all of them."""
    app = typer.Typer(
        name="statewright", help=HELP, no_args_is_help=True, add_completion=False, pretty_exceptions_enable=False
    )
    app.callback()(_options)
    for command_name, module in COMMANDS.items():
        if name in (None, command_name):
            app.command()(getattr(import_module(module), command_name))
    for group_name, module in GROUPS.items():
        if name in (None, group_name):
            app.add_typer(getattr(import_module(module), group_name))
    return _unwrap_help(typer.main.get_command(app))


def _print_version(is_wanted: bool) -> None:
    if is_wanted:
        say(f"statewright {__version__}")
        raise typer.Exit


def _options(
    version: Annotated[
        bool, typer.Option("--version", callback=_print_version, is_eager=True, help="Print the version and exit.")
    ] = False,
) -> None: ...


def _unwrap_help(command: Any) -> Any:
    """Put each paragraph of the help on one line, so that it is wrapped at the width of the terminal."""
    command.help = "\n\n".join(" ".join(paragraph.split()) for paragraph in (command.help or "").split("\n\n"))
    for subcommand in getattr(command, "commands", {}).values():
        _unwrap_help(subcommand)
    return command


def _exit_cleanly_on_sigterm() -> None:
    """Make SIGTERM raise SystemExit, so that a run releases its thread.

    A handler that has already been set is kept; commands that serve install their own.
    """
    if threading.current_thread() is threading.main_thread() and signal.getsignal(signal.SIGTERM) is signal.SIG_DFL:
        signal.signal(signal.SIGTERM, _terminate)


def _terminate(number: int, frame: object) -> None:
    sys.exit(TERMINATED)


def _print_warnings_on_one_line() -> None:
    """Print warnings of this library as plain sentences: the line of its source that raised them helps no user."""
    print_default = warnings.showwarning

    def show(
        message: Any, category: type[Warning], filename: str, lineno: int, file: Any = None, line: Any = None
    ) -> None:
        if category.__module__.partition(".")[0] == "statewright":
            warn(f"warning: {message}")
        else:
            print_default(message, category, filename, lineno, file, line)

    warnings.showwarning = show
