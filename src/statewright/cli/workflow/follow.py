"""Running a graph or a workflow until it is idle, and printing its progress, its result, and how to continue."""

from __future__ import annotations

import json
import shlex
import sys
import traceback
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NoReturn, cast

from statewright.checkpoint import Interrupt
from statewright.cli.console.failure import (
    CANCELLED,
    FAILED,
    USAGE_ERROR,
    WAITING,
    exit_with,
    format_error,
    format_failure,
    format_location,
    node_note,
)
from statewright.cli.console.options import RunOptions
from statewright.cli.console.printing import say, warn
from statewright.cli.console.progress import Progress
from statewright.cli.console.table import format_instant, print_state
from statewright.cli.console.values import jsonable
from statewright.errors import SerdeError, StatewrightError
from statewright.runtime import CompiledGraph, StateSnapshot
from statewright.runtime.streaming.modes import INTERRUPT

if TYPE_CHECKING:
    from statewright.agents import Network


@dataclass(frozen=True, kw_only=True, slots=True)
class SavedRun:
    """The location of a saved run, and the command lines that continue or inspect it."""

    thread: str
    target: str
    """The file with the graph."""
    args: tuple[str, ...] = ()
    """Command-line arguments that select the database and the branch."""
    model_args: tuple[str, ...] = ()
    """Command-line arguments that select the models, or the script that replaces them."""
    is_in_database: bool = True
    """True if the run is in a database that other commands can open; False if it is in the graph's own saver."""

    def command(self, *args: str) -> str:
        """Return a command line with the arguments that select the database and the branch."""
        return shlex.join(["statewright", *args, *self.args])

    @property
    def show_command(self) -> str:
        """The command line that shows the thread."""
        return self.command("threads", "show", self.thread)

    def resume_command(self, *args: str) -> str:
        """Return the command line that resumes the run, with further arguments."""
        return self.command("resume", self.thread, self.target, *args, *self.model_args)

    @property
    def chat_command(self) -> str:
        """The command line that continues the conversation."""
        return self.command("chat", self.target, "--thread", self.thread, *self.model_args)


RunResult = tuple[Any, Sequence[Interrupt]]
"""The state of an idle run, and its open interrupts."""


def follow(app: CompiledGraph, run_input: Any, config: dict[str, Any]) -> RunResult:
    """Run a graph until it is idle, showing its progress on a terminal."""
    state: Any = None
    questions: Sequence[Interrupt] = ()
    with Progress() as progress:
        for mode, part in app.stream(run_input, config, stream_mode=[*progress.modes, "values"], durability="sync"):
            if mode != "values":
                progress.record(part)
            elif isinstance(part, dict) and INTERRUPT in part:
                questions = cast(dict[str, Any], part)[INTERRUPT]
            else:
                state = cast(Any, part)
    return state, questions


def run_and_exit(
    run: Callable[[], RunResult],
    app: CompiledGraph,
    config: dict[str, Any],
    saved: SavedRun | None,
    options: RunOptions,
    *,
    network: Network[Any] | None,
    is_workflow: bool,
) -> None:
    """Call `run`, print the outcome of the run, and exit with the code of its status unless it has completed.

    For a graph, the final state is printed; for a network, its last answer; for a workflow, its result. With --json,
    the state is printed for networks too, and for a workflow a record of the run.
    """
    state: Any = None
    questions: Sequence[Interrupt] = ()
    error: Exception | None = None
    try:
        state, questions = run()
    except KeyboardInterrupt:
        exit_with("\n".join(["Cancelled.", *_hints(saved, "Continue with:")]), CANCELLED)
    except Exception as raised:
        error = raised
    if is_workflow:
        _end_workflow(app.get_state(config), error, config["thread_id"], saved, options)
    elif error is not None:
        _exit_failed(error, saved, show_traceback=options.show_traceback)
    elif network is None or options.json:
        print_state(state, as_json=options.json)
    elif not questions and (results := network.state_of(state).results):
        say(results[-1].text)
    if questions and not is_workflow:
        _exit_waiting(questions, saved)
    _print_inspect_hint(saved)


def _end_workflow(
    snapshot: StateSnapshot[Any], error: Exception | None, thread_id: str, saved: SavedRun | None, options: RunOptions
) -> None:
    """Print the result of a workflow or, with --json, a record of its run. Exit unless it has completed."""
    values = snapshot.values
    if options.json:
        status = "failed" if error is not None else "waiting" if snapshot.next else "completed"
        record = {"status": status, "error": format_failure(error) if error is not None else None}
        record |= {name: values.get(name) for name in ("result", "context", "visits", "messages")}
        say(json.dumps(jsonable({**record, "thread_id": thread_id}), ensure_ascii=False))
    if error is not None:
        _exit_failed(error, saved, show_traceback=options.show_traceback)
    if not options.json:
        result = values.get("result")
        say(result if isinstance(result, str) else json.dumps(result, ensure_ascii=False, indent=2))
    if snapshot.next:
        _exit_paused(snapshot.next, saved, as_json=options.json)


def is_interactive() -> bool:
    """Return True if standard error is a terminal, so that hints are useful."""
    return sys.stderr.isatty()


def _hints(saved: SavedRun | None, intro: str) -> list[str]:
    if saved is None or not is_interactive():
        return []
    return [
        f"{intro}\n  {saved.resume_command()}",
        *([f"Inspect it with:\n  {saved.show_command}"] if saved.is_in_database else []),
    ]


def _print_inspect_hint(saved: SavedRun | None) -> None:
    if saved is not None and saved.is_in_database and is_interactive():
        warn(f"Inspect it with: {saved.show_command}")


def _exit_paused(next_nodes: Sequence[str], saved: SavedRun | None, *, as_json: bool) -> NoReturn:
    """Exit from a workflow that is waiting before its next states, after printing how to continue it."""
    if not as_json:
        commands = (saved.resume_command(), saved.resume_command("--answer", "TEXT")) if saved is not None else ()
        lines = [f"The run is waiting before {', '.join(sorted(set(next_nodes)))}. Continue with:"]
        warn("\n".join([*lines, *(f"  {command}" for command in commands)]))
    _print_inspect_hint(saved)
    raise SystemExit(WAITING)


def _exit_waiting(questions: Sequence[Interrupt], saved: SavedRun | None) -> NoReturn:
    lines = ["The run is waiting for answers:", *(f"  {format_question(question)}" for question in questions)]
    if saved is not None:
        lines += ["Continue with:", *(f"  {command}" for command in resume_commands(questions, saved))]
        lines += ["Inspect it with:", f"  {saved.show_command}"] if saved.is_in_database else []
    exit_with("\n".join(lines), WAITING)


def format_question(question: Interrupt) -> str:
    """Format an interrupt as one line: its id, value, event and deadline."""
    event = f"  event {question.event!r}" if question.event is not None else ""
    preposition = "due at" if question.kind == "timer" else "until"
    until = f"  {preposition} {format_instant(question.due_at)}" if question.due_at is not None else ""
    return f"{question.id}  {question.value!r}{event}{until}"


def resume_commands(questions: Sequence[Interrupt], saved: SavedRun) -> list[str]:
    """Return the command lines that resume a waiting run."""
    open_questions = [question for question in questions if question.kind == "question"]
    is_single = len(questions) == 1
    answers = [
        arg for question in open_questions for arg in ("--answer", "VALUE" if is_single else f"{question.id}=VALUE")
    ]
    events = sorted({question.event for question in questions if question.event is not None})
    commands = [saved.resume_command(*answers)] if answers else []
    commands += [saved.resume_command("--event", f"{event}=JSON") for event in events]
    if any(question.due_at is not None for question in questions):
        commands.append(saved.resume_command("--due"))
    return commands


def _exit_failed(error: Exception, saved: SavedRun | None, *, show_traceback: bool) -> NoReturn:
    """Print the error with its location, and exit. An error that was not raised by a node can be a usage error."""
    if isinstance(error, StatewrightError) and error.exit_code == USAGE_ERROR and node_note(error) is None:
        exit_with(f"Error: {format_error(error)}", USAGE_ERROR)
    if show_traceback:
        warn("".join(traceback.format_exception(error)).rstrip())
    hint = " To run without saving, use --database memory:" if isinstance(error, SerdeError) else ""
    message = f"Error: {format_failure(error)}{hint}"
    exit_with(
        "\n".join([message, *format_location(error), *_hints(saved, "Once that is fixed, continue with:")]), FAILED
    )
