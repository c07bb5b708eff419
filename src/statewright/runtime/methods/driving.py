"""Drive a run until it is idle, with plain calls or on an event loop.

A root run that saves nothing is driven directly. Any other run either has to take its turn on its thread first, or is
the run of a subgraph.
"""

from __future__ import annotations

from typing import Any

from statewright.errors import InternalError
from statewright.runtime.drivers.sync import drive_sync, iter_parts
from statewright.runtime.invocation.outcome import RunOutcome
from statewright.runtime.invocation.run import Run
from statewright.runtime.lifecycle.turn import run_until_idle
from statewright.runtime.tasks.scope import restoring_scope


def drive_run(run: Run, graph_input: Any) -> None:
    """Drive a run until it is idle, on the calling thread."""
    if run.owner is None and not run.nested:
        for _ in drive_sync(run, run_until_idle(run, graph_input)):
            pass
    else:
        with restoring_scope():  # costs too much for a run that saves nothing
            for _ in iter_parts(run, graph_input):
                pass


async def adrive_run(run: Run, graph_input: Any) -> None:
    """Drive a run until it is idle, on the running event loop."""
    drive, drive_in_turn = _async_driver or _load_async_driver()
    if run.owner is None and not run.nested:
        await drive(run, run_until_idle(run, graph_input))
    else:
        await drive_in_turn(run, graph_input)


def outcome_of(run: Run) -> RunOutcome:
    """Return the outcome of a run that is idle."""
    if run.outcome is None:
        raise InternalError("A driver ended before its run was idle. Please report this.")
    return run.outcome


_async_driver: tuple[Any, Any] | None = None


def _load_async_driver() -> tuple[Any, Any]:
    """Import the driver for event loops, and with it asyncio, which a program of plain functions never needs."""
    global _async_driver
    from statewright.runtime.drivers.event_loop import drive_async, drive_in_turn

    _async_driver = (drive_async, drive_in_turn)
    return _async_driver
