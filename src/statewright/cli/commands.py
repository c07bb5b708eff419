"""The table of commands, with the module and the short description of each.

A command is imported only when it is called, so that `--help` is fast and a command loads only what it needs.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Mapping
from dataclasses import fields, is_dataclass
from functools import wraps
from importlib import import_module
from typing import Any, Final, NamedTuple, get_type_hints

import typer
from typer.core import TyperCommand, TyperGroup


class CommandEntry(NamedTuple):
    """A command: its function, as `MODULE:FUNCTION` relative to `statewright.cli`, and a short description."""

    target: str
    help: str


class CommandGroup(NamedTuple):
    """A group of commands."""

    help: str
    commands: Mapping[str, CommandEntry]


COMMANDS: Final[Mapping[str, CommandEntry | CommandGroup]] = {
    "run": CommandEntry("workflow.run:run", "Run a graph until it completes or waits for input."),
    "resume": CommandEntry("workflow.run:resume", "Continue a run: answer questions, send an event, or retry it."),
    "chat": CommandEntry("chat.conversation:chat", "Chat with an agent, a network or a workflow."),
    "draw": CommandEntry("workflow.check:draw", "Draw a graph."),
    "check": CommandEntry("workflow.check:check", "Check workflows and graphs, and list all problems."),
    "test": CommandEntry("workflow.test:test", "Run the test cases of a workflow."),
    "schema": CommandEntry("workflow.init:schema", "Print the JSON Schema of workflows, for editors."),
    "init": CommandEntry("workflow.init:init", "Create a small example project."),
    "dev": CommandEntry("serve.serve:dev", "Serve graphs for development, reloading them on changes."),
    "serve": CommandEntry("serve.serve:serve", "Serve graphs in production."),
    "worker": CommandEntry("workers.worker:worker", "Advance runs in production, without an HTTP API."),
    "threads": CommandGroup(
        "Inspect and edit saved threads.",
        {
            "ls": CommandEntry("threads.show:ls", "List threads, most recently changed first."),
            "show": CommandEntry("threads.show:show", "Show the state, next nodes and open questions of a thread."),
            "history": CommandEntry("threads.show:history", "List the checkpoints of a thread, newest first."),
            "diff": CommandEntry("threads.show:diff", "Compare the values of two checkpoints."),
            "fork": CommandEntry("threads.edit:fork", "Start a new branch at a checkpoint."),
            "prune": CommandEntry("threads.edit:prune", "Delete old checkpoints."),
            "copy": CommandEntry("threads.edit:copy", "Copy a thread with its history."),
            "release": CommandEntry("threads.edit:release", "Release a thread that is held by a dead run."),
            "rm": CommandEntry("threads.edit:rm", "Delete a thread."),
            "export": CommandEntry("threads.edit:export", "Export a thread to a file."),
            "import": CommandEntry("threads.edit:import_", "Import a thread from a file."),
        },
    ),
    "db": CommandGroup(
        "Migrate, check, copy, back up, restore and shrink the database.",
        {
            "migrate": CommandEntry("db.migrate:migrate", "Create the tables, or migrate them to this version."),
            "check": CommandEntry("db.check:check", "Check that the database is intact."),
            "copy": CommandEntry("db.copy:copy", "Copy everything to another database, e.g. on Postgres."),
            "backup": CommandEntry("db.backup:backup", "Copy the database file, even while it is in use."),
            "restore": CommandEntry("db.backup:restore", "Replace the database file with a backup."),
            "vacuum": CommandEntry("db.backup:vacuum", "Shrink the database file."),
        },
    ),
    "runs": CommandGroup(
        "Start, follow and control runs on a server.",
        {
            "ls": CommandEntry("runs.show:ls", "List runs, newest first."),
            "show": CommandEntry("runs.show:show", "Show the status, steps and last events of a run."),
            "start": CommandEntry("runs.start:start", "Start a run."),
            "watch": CommandEntry("runs.start:watch", "Follow the events of a run."),
            "cancel": CommandEntry("runs.control:cancel", "Cancel a run and its child runs."),
            "pause": CommandEntry("runs.control:pause", "Pause a run after its current step."),
            "resume": CommandEntry("runs.control:resume", "Continue a paused run, or answer a waiting one."),
            "retry": CommandEntry("runs.control:retry", "Retry a failed run, or all that were set aside."),
            "signal": CommandEntry("runs.control:signal", "Send a signal to a run."),
            "approve": CommandEntry("runs.control:approve", "Approve or reject a request of a run."),
            "logs": CommandEntry("runs.show:logs", "Print the logs and output of the steps of a run."),
        },
    ),
    "workers": CommandGroup(
        "List and drain the workers of a database.",
        {
            "ls": CommandEntry("workers.manage:list_workers", "List the workers, the oldest first."),
            "drain": CommandEntry("workers.manage:drain", "Ask a worker to release its runs and to claim no more."),
        },
    ),
    "queues": CommandGroup(
        "List queues, and limit the runs in them.",
        {
            "ls": CommandEntry("workers.manage:list_queues", "List the queues, with the runs that wait in them."),
            "set": CommandEntry("workers.manage:set_queue", "Set limits of a queue."),
            "rm": CommandEntry("workers.manage:remove_queue", "Remove the limits of a queue."),
        },
    ),
    "definitions": CommandGroup(
        "Check, store and list step workflows (JSON).",
        {
            "check": CommandEntry("serve.definitions:check", "Check a step workflow, and list all problems."),
            "add": CommandEntry("serve.definitions:add", "Store a version of a step workflow on a server."),
            "ls": CommandEntry("serve.definitions:ls", "List the stored versions, newest first."),
            "show": CommandEntry("serve.definitions:show", "Print a stored version."),
        },
    ),
    "keys": CommandGroup(
        "Create, list and revoke the API keys of a server.",
        {
            "create": CommandEntry("serve.access:create_key", "Create an API key."),
            "ls": CommandEntry("serve.access:list_keys", "List the API keys of a workspace, newest first."),
            "revoke": CommandEntry("serve.access:revoke_key", "Revoke an API key."),
        },
    ),
    "workspaces": CommandGroup(
        "Create and list the workspaces of a server.",
        {
            "create": CommandEntry("serve.access:create_workspace", "Create a workspace."),
            "ls": CommandEntry("serve.access:list_workspaces", "List the workspaces with their limits."),
            "spending": CommandEntry("serve.access:show_spending", "Show today's spending of each workspace."),
        },
    ),
}
"""The commands, in the order in which `--help` lists them."""


_BRACES: Final = re.compile(r"^\{(.+)\}")


class _FlagsWithoutType:
    """Omits the type of flags from the help. Typer would show `<bool>`, although a flag takes no value."""

    def get_params(self, ctx: Any) -> list[Any]:
        """Return the parameters, including `--help`."""
        parent: Any = super()
        params: list[Any] = parent.get_params(ctx)
        for param in params:
            if getattr(param, "is_flag", False):
                param.metavar = ""
        return params


class _Command(_FlagsWithoutType, TyperCommand):
    """An imported command."""

    def collect_usage_pieces(self, ctx: Any) -> list[str]:
        """Return the parts of the usage line. Required arguments have no braces, which newer versions of typer add."""
        parent: Any = super()
        pieces: list[str] = parent.collect_usage_pieces(ctx)
        return [_BRACES.sub(r"\1", piece) for piece in pieces]


class LazyCommand(TyperCommand):
    """A placeholder with the name and the short description of a command. `load` imports the command itself."""

    def __init__(self, name: str, entry: CommandEntry) -> None:
        super().__init__(name, help=entry.help)
        self._target = entry.target

    def load(self) -> Any:
        """Import the command and build it. Each paragraph of its help becomes one line, for the terminal to wrap."""
        module, _, function = self._target.partition(":")
        app = typer.Typer(add_completion=False, pretty_exceptions_enable=False)
        app.command(self.name, cls=_Command)(
            expand_groups(getattr(import_module(f"statewright.cli.{module}"), function))
        )
        command: Any = typer.main.get_command(app)
        command.help = "\n\n".join(" ".join(paragraph.split()) for paragraph in (command.help or "").split("\n\n"))
        return command


def expand_groups(command: Callable[..., Any]) -> Callable[..., Any]:
    """Return a command function in which each parameter that is a dataclass is replaced by one parameter per field.

    Such a dataclass groups options that several commands have in common.
    """
    parameters: list[inspect.Parameter] = []
    groups: dict[str, Any] = {}  # the dataclasses, by the names of the replaced parameters
    for parameter in inspect.signature(command, eval_str=True).parameters.values():
        if not is_dataclass(parameter.annotation):
            # Keyword-only, like the fields, so that parameters with and without a default can be mixed.
            parameters.append(parameter.replace(kind=parameter.KEYWORD_ONLY))
            continue
        groups[parameter.name] = group = parameter.annotation
        hints = get_type_hints(group, include_extras=True)
        parameters += [
            inspect.Parameter(field.name, parameter.KEYWORD_ONLY, default=field.default, annotation=hints[field.name])
            for field in fields(group)
        ]

    @wraps(command)
    def call(**values: Any) -> Any:
        for name, group in groups.items():
            values[name] = group(**{field.name: values.pop(field.name) for field in fields(group)})
        return command(**values)

    expanded: Any = call
    expanded.__signature__ = inspect.Signature(parameters)
    expanded.__annotations__ = {parameter.name: parameter.annotation for parameter in parameters}
    return expanded


class LazyGroup(_FlagsWithoutType, TyperGroup):
    """A command group whose members are imported only when called."""

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        """Return the name of the called command, the imported command, and its arguments."""
        name, command, remaining_args = super().resolve_command(ctx, args)
        return name, command.load() if isinstance(command, LazyCommand) else command, remaining_args


def build_members(commands: Mapping[str, CommandEntry | CommandGroup] = COMMANDS) -> dict[str, Any]:
    """Build the commands and groups that a table lists, by name, in the form in which a group stores its members."""
    return {
        name: LazyCommand(name, entry)
        if isinstance(entry, CommandEntry)
        else LazyGroup(name=name, help=entry.help, commands=build_members(entry.commands), no_args_is_help=True)
        for name, entry in commands.items()
    }
