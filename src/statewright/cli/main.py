"""Entry point of the `statewright` command line. A command's module is imported only when the command is called."""

from __future__ import annotations

import signal
import sys
import threading
from functools import cache
from typing import Annotated, Any

import typer

from statewright import __version__
from statewright.cli.commands import LazyGroup, build_members
from statewright.cli.console.failure import DONE, FAILED, TERMINATED, USAGE_ERROR, UsageError, exit_with, format_error
from statewright.cli.console.printing import say, warn
from statewright.cli.console.warnings import redirect_warnings
from statewright.errors import GraphError, StatewrightError

_COMMAND_LINE_ERROR: Any = typer.BadParameter.__base__
"""The class of errors about the command line, which belongs to click, or in newer versions to typer itself."""


def main() -> None:
    """Run the command that the arguments name. Expected errors are printed as a message and set the exit code."""
    _exit_cleanly_on_sigterm()
    redirect_warnings(lambda text: warn(f"warning: {text}"))
    try:
        code = build_command()(standalone_mode=False)  # it returns the code of `typer.Exit`, else None
    except _COMMAND_LINE_ERROR as error:
        exit_with(_format_command_line_error(error), USAGE_ERROR)
    except typer.Abort:
        exit_with("Aborted.", FAILED)
    except UsageError as error:
        exit_with(f"Error: {error}", error.exit_code)
    except GraphError as error:
        exit_with(f"Error: {error}", USAGE_ERROR)
    except StatewrightError as error:
        exit_with(f"Error: {format_error(error)}", error.exit_code)
    raise SystemExit(code or DONE)


def _format_command_line_error(error: Any) -> str:
    """Return the message of an error that the parser of the command line has raised, on one line.

    It is empty if a command without arguments has printed its help instead.
    """
    if type(error).__name__ == "NoArgsIsHelpError":
        return ""
    message = " ".join(error.format_message().split())
    command = error.ctx.command_path if error.ctx is not None else "statewright"
    return f"Error: {message}{'' if message.endswith(('.', '?')) else '.'} See: {command} --help"


@cache
def build_command() -> Any:
    """Build the root command. When it is called, it reads the arguments of the process and runs the command."""
    app = typer.Typer(
        name="statewright",
        cls=LazyGroup,
        help="Run, draw, test, serve and inspect workflows and state graphs.",
        no_args_is_help=True,
        add_completion=False,
        pretty_exceptions_enable=False,
    )
    app.callback()(_root_options)
    command: Any = typer.main.get_command(app)
    command.commands.update(build_members())
    return command


def _print_version(is_set: bool) -> None:
    if is_set:
        say(f"statewright {__version__}")
        raise typer.Exit


def _root_options(
    version: Annotated[
        bool, typer.Option("--version", callback=_print_version, is_eager=True, help="Print the version and exit.")
    ] = False,
) -> None: ...


def _exit_cleanly_on_sigterm() -> None:
    """Make SIGTERM raise SystemExit, so that a run in progress still releases its thread.

    An existing handler is kept. Commands that start a server install handlers of their own.
    """
    if threading.current_thread() is threading.main_thread() and signal.getsignal(signal.SIGTERM) is signal.SIG_DFL:
        signal.signal(signal.SIGTERM, _terminate)


def _terminate(number: int, frame: object) -> None:
    sys.exit(TERMINATED)
