"""The simulated processes of a database: servers, which start runs, and workers, which claim and advance them.

They follow `service/engine/worker.py`, `service/operations/launch.py`, `service/following/run_watch.py` and
`storage/postgres/bell.py` event by event, since what limits a database with many processes is not the work of runs but
what the processes do for each other: claims that find nothing, notifications to everybody, sweeps after each of these,
heartbeats that look at all claimed runs.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol

from benchmarks.scale.database import MILLISECOND, Database, Run, Write, Writer
from benchmarks.scale.kernel import Action, Simulation, Station
from benchmarks.scale.load import RULES, Deployment, Load


class Surroundings(Protocol):
    """The cell to which a process belongs."""

    simulation: Simulation
    database: Database
    load: Load
    deployment: Deployment
    processes: list[Process]
    workers: list[Any]

    def note_node(self, run: Run) -> None: ...

    def note_end(self, run: Run) -> None: ...

    def note_step(self, run: Run) -> None: ...

    def note_lag(self, seconds: float) -> None: ...


class Process:
    """An interpreter, a writing session, a bell, and the background tasks that look for due work."""

    has_followers = False
    """True for servers, which poll for events when the bell rings."""

    def __init__(self, cell: Surroundings) -> None:
        self.cell = cell
        self.simulation = cell.simulation
        self.database = cell.database
        self.costs = cell.database.costs
        self.cpu = Station(cell.simulation, 1)
        self.writer = Writer(cell.database)
        self.is_alive = True
        self._last_sent = -1.0
        self._pending_rings: set[bool] = set()
        self._is_sweeping = self._must_sweep = False

    def compute(self, milliseconds: float, done: Action) -> None:
        self.cpu.serve(self.database.vary(milliseconds), done)

    def write(
        self, milliseconds: float, done: Callable[[bool], object], commit: Callable[[], bool] = lambda: True
    ) -> None:
        self.writer.submit(Write(self.database.vary(milliseconds), done, commit))

    # -- the bell

    def ring(self, *, is_due: bool) -> None:
        """Notify the other processes, of due runs or of events: at once, or when the interval has passed."""
        if not self.cell.deployment.has_bell or is_due in self._pending_rings:
            return
        self._pending_rings.add(is_due)
        if len(self._pending_rings) == 1:
            wait = self._last_sent + RULES.bell_interval - self.simulation.now
            self.simulation.after(max(0.0, wait), self._send)

    def _send(self) -> None:
        rings, self._pending_rings = self._pending_rings, set()
        self._last_sent = self.simulation.now
        if self.database.down_since is not None:
            return
        listeners = len(self.cell.processes)
        for is_due in sorted(rings):
            seconds = self.database.vary(self.costs.notify_db_cpu + listeners * self.costs.notified_db_cpu)
            self.database.cores.serve(seconds, lambda is_due=is_due: self._deliver(is_due))

    def _deliver(self, is_due: bool) -> None:
        def receive() -> None:
            owed = self.costs.notified_cpu * MILLISECOND
            for process in self.cell.processes:
                if process is not self:
                    process.cpu.owe(owed)
                    if is_due or process.has_followers:
                        process.on_ring(is_due)

        self.simulation.after(self.costs.bell * MILLISECOND, receive)

    def on_ring(self, is_due: bool) -> None:
        """React to a notification of another process."""
        if is_due:
            self.sweep()

    def sweep(self) -> None:
        """Look for due webhooks, schedules and deadlines. Requests during a sweep become one more sweep."""
        if self._is_sweeping:
            self._must_sweep = True
            return
        self._is_sweeping, self._must_sweep = True, False

        def end(_: bool) -> None:
            self._is_sweeping = False
            if self._must_sweep:
                self.sweep()

        self.compute(self.costs.sweep_cpu, lambda: self.database.read(self.costs.sweep_db_cpu, end))
