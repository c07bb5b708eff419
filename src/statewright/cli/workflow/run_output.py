"""Running a graph or a workflow, and printing its progress, its outcome, and how to continue or inspect the run.

The state or the result goes to standard output, everything else to standard error. Hints are only printed on a
terminal, but the questions and events that a run waits for are always printed, because a script needs the ids of the
questions.
"""

from __future__ import annotations

import json
import sys
import traceback
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, NoReturn, cast

from statewright.channels import MISSING
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
from statewright.cli.console.interrupts import format_interrupt
from statewright.cli.console.options import RunOptions
from statewright.cli.console.printing import say, warn
from statewright.cli.console.progress import Progress
from statewright.cli.console.saved_run import SavedRun
from statewright.cli.console.table import print_state
from statewright.cli.console.values import jsonable, to_json
from statewright.errors import SerdeError, StatewrightError
from statewright.runtime import CompiledGraph, StateSnapshot
from statewright.runtime.streaming.modes import INTERRUPT

if TYPE_CHECKING:
    from statewright.agents import Network

RunResult = tuple[Any, Sequence[Interrupt]]
"""The state of a run that has completed or is waiting, and its open interrupts."""


def run_with_progress(app: CompiledGraph, run_input: Any, config: dict[str, Any]) -> RunResult:
    """Run a graph until it completes or waits, showing its progress on a terminal."""
    state: Any = MISSING
    interrupts: Sequence[Interrupt] = ()
    with Progress() as progress:
        # With durability "sync", a node that is shown as finished has been saved.
        for mode, part in app.stream(run_input, config, stream_mode=[*progress.modes, "values"], durability="sync"):
            if mode != "values":
                progress.record(part)
            elif isinstance(part, dict) and INTERRUPT in part:
                interrupts = cast(dict[str, Any], part)[INTERRUPT]
            else:
                state = cast(Any, part)
    if state is MISSING:  # a resumed thread had nothing left to do, or still waits
        state = app.get_state(config).values
    return state, interrupts


def report_run(
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
    try:
        state, interrupts = run()
    except KeyboardInterrupt:
        exit_with("\n".join(["Cancelled.", *_hint_lines(saved, "Continue with:")]), CANCELLED)
    except Exception as error:
        if is_workflow and options.json:
            _print_record("failed", error, _read_values(app, config), config["thread_id"])
        _exit_failed(error, saved, show_traceback=options.show_traceback)
    snapshot = app.get_state(config) if app.checkpointer is not None else None
    next_nodes = snapshot.next if snapshot is not None else ()
    if is_workflow:
        assert snapshot is not None
        _print_workflow(snapshot, config["thread_id"], as_json=options.json)
    elif network is None or options.json:
        print_state(state, as_json=options.json)
    elif not interrupts and (results := network.state_of(state).results):
        say(results[-1].text)
    if interrupts and not is_workflow:
        _exit_at_interrupts(interrupts, saved)
    if next_nodes:
        _exit_at_breakpoint(next_nodes, saved, takes_answer=is_workflow)
    _print_inspect_hint(saved)


def _print_workflow(snapshot: StateSnapshot[Any], thread_id: str, *, as_json: bool) -> None:
    """Print the result of a workflow, if it has one yet, or a record of its run."""
    result = snapshot.values.get("result")
    if as_json:
        _print_record("waiting" if snapshot.next else "completed", None, snapshot.values, thread_id)
    elif result is not None or not snapshot.next:
        say(result if isinstance(result, str) else to_json(result))


def _print_record(status: str, error: Exception | None, values: Any, thread_id: str) -> None:
    """Print a record of a workflow's run as one line of JSON."""
    record = {"status": status, "error": format_failure(error) if error is not None else None}
    record |= {name: values.get(name) for name in ("result", "context", "visits", "messages")}
    say(json.dumps(jsonable({**record, "thread_id": thread_id}), ensure_ascii=False))


def _read_values(app: CompiledGraph, config: dict[str, Any]) -> Any:
    """Return the values of the thread of a failed run; empty if they cannot be read."""
    try:
        return app.get_state(config).values
    except Exception:  # for example, the database has failed: the error of the run, which is reported, says so
        return {}


# -- hints and exits


def is_interactive() -> bool:
    """Return True if standard error is a terminal, so that hints are useful."""
    return sys.stderr.isatty()


def _hint_lines(saved: SavedRun | None, intro: str) -> list[str]:
    return saved.hint_lines(intro, [saved.resume_command()]) if saved is not None and is_interactive() else []


def _print_inspect_hint(saved: SavedRun | None) -> None:
    if saved is not None and saved.is_in_database and is_interactive():
        warn(f"Inspect it with: {saved.show_command}")


def _exit_at_breakpoint(next_nodes: Sequence[str], saved: SavedRun | None, *, takes_answer: bool) -> NoReturn:
    """Exit from a run that is waiting before its next nodes. The breakpoints of a workflow accept an answer."""
    commands: list[str] = []
    if saved is not None:
        commands = [saved.resume_command(), *([saved.resume_command("--answer", "TEXT")] if takes_answer else [])]
    _exit_waiting([f"The run is waiting before {', '.join(sorted(set(next_nodes)))}."], commands, saved)


def _exit_at_interrupts(interrupts: Sequence[Interrupt], saved: SavedRun | None) -> NoReturn:
    """Exit from a run that is waiting for answers, events or timers."""
    commands = saved.resume_commands(interrupts) if saved is not None else []
    lines = ["The run is waiting for:", *(f"  {format_interrupt(interrupt)}" for interrupt in interrupts)]
    _exit_waiting(lines, commands, saved)


def _exit_waiting(lines: Sequence[str], commands: Sequence[str], saved: SavedRun | None) -> NoReturn:
    """Print what a run is waiting for, and the command lines that continue it, and exit."""
    if saved is not None:
        hints = saved.hint_lines("Continue with:", commands)
    else:
        hints = ["It was not saved, so it cannot be continued."]
    exit_with("\n".join([*lines, *hints]), WAITING)


def _exit_failed(error: Exception, saved: SavedRun | None, *, show_traceback: bool) -> NoReturn:
    """Print the error with its location, and exit. A usage error exits with 2, unless a node raised it."""
    if isinstance(error, StatewrightError) and error.exit_code == USAGE_ERROR and node_note(error) is None:
        exit_with(f"Error: {format_error(error)}", USAGE_ERROR)
    if show_traceback:
        warn("".join(traceback.format_exception(error)).rstrip())
    hint = " To run without saving, use `--database memory:`." if isinstance(error, SerdeError) else ""
    message = f"Error: {format_failure(error)}{hint}"
    hints = _hint_lines(saved, "Once that is fixed, continue with:")
    exit_with("\n".join([message, *format_location(error), *hints]), FAILED)
