"""A cell: one simulated database with its servers, workers and load, and what was observed.

Databases share nothing, so a fleet of shards is a number of cells, each with its own share of the load.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from benchmarks.scale.costs import Costs
from benchmarks.scale.database import Database, Run
from benchmarks.scale.kernel import Simulation
from benchmarks.scale.load import RULES, Deployment, Load
from benchmarks.scale.processes import Process
from benchmarks.scale.server import Server
from benchmarks.scale.worker import Worker

HOT_THREAD = "hot"


@dataclass(kw_only=True)
class Observations:
    """The events of a part of a simulation. Times are in seconds."""

    seconds: float = 0.0
    started: int = 0
    completed: int = 0
    latencies: list[float] = field(default_factory=list[float])
    """From the request to the first node of each run that began; of hot threads and workspaces too."""
    other_latencies: list[float] = field(default_factory=list[float])
    """Without those of a hot thread or workspace."""
    lags: list[float] = field(default_factory=list[float])
    """From the commit of a superstep to the reading of its events for a follower."""
    interruptions: list[float] = field(default_factory=list[float])
    """For each node that was begun again, the time since it was begun before."""
    transactions: int = 0
    refused: int = 0
    utilisation: Mapping[str, float] = field(default_factory=dict[str, float])
    """The share of the time in which each resource was busy."""


def percentile(values: Sequence[float], share: float) -> float:
    """Return the smallest value that a share of the values does not exceed; NaN if there are none."""
    if not values:
        return float("nan")
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, max(0, -int(-share * len(ordered)) - 1))]


class Cell:
    """Simulates one database. `run` continues, and returns what happened meanwhile."""

    def __init__(self, load: Load, deployment: Deployment, costs: Costs, seed: int = 1) -> None:
        """Create the processes. Raises ValueError for a deployment without servers or workers."""
        if deployment.servers < 1 or deployment.workers < 1:
            raise ValueError(f"A cell needs a server and a worker, but has {deployment}.")
        self.simulation = Simulation(seed)
        self.load = load
        self.deployment = deployment
        self.costs = costs
        self.database = Database(self.simulation, costs, deployment.cores, load.workspace_limit)
        self.processes: list[Process] = []
        self.workers: list[Worker] = []
        self._all_workers: list[Worker] = []
        """Those that have ended, too."""
        self.servers = [Server(self) for _ in range(deployment.servers)]
        self.processes += self.servers
        for _ in range(deployment.workers):
            self.add_worker()
        self.unfinished = 0
        """Runs that clients have asked for, and that have not ended."""
        self.total = Counter[str]()
        """Runs `started` and `completed` since the beginning."""
        self.in_flight_seconds = 0.0
        """The integral of the number of unfinished runs over time, for Little's law."""
        self.duration_sum = 0.0
        """The sum of the times from request to end of all completed runs."""
        self.depths: list[tuple[float, int]] = []
        """The number of due runs, each second."""
        self.claim_rates: list[int] = []
        """The number of claims in each second, those that found nothing included."""
        self._last_change = 0.0
        self._observations = Observations()
        self._next_arrival()
        self._sample()

    def add_worker(self) -> Worker:
        """Start another worker."""
        worker = Worker(self)
        self.workers.append(worker)
        self._all_workers.append(worker)
        self.processes.append(worker)
        return worker

    # -- running

    def end_arrivals(self) -> None:
        """Have clients start no more runs."""
        self.load = replace(self.load, runs_per_second=0.0)

    def run(self, seconds: float) -> Observations:
        """Continue for a time, and return what was observed in it."""
        observations = self._observations = Observations(seconds=seconds)
        busy, counts = self._busy_seconds(), (self.database.transactions, self.database.refused)
        capacity = self._capacities()
        self.simulation.run(self.simulation.now + seconds)
        after = self._busy_seconds()
        observations.utilisation = {
            name: (after[name] - busy[name]) / seconds / capacity[name] for name in after if seconds
        }
        observations.transactions = self.database.transactions - counts[0]
        observations.refused = self.database.refused - counts[1]
        return observations

    def _busy_seconds(self) -> dict[str, float]:
        workers = sum(worker.cpu.busy_seconds for worker in self._all_workers)
        return {
            "server processes": sum(server.cpu.busy_seconds for server in self.servers),
            "worker processes": workers,
            "database cores": self.database.cores.busy_seconds,
            "log flushes": self.database.log.busy_seconds,
            "lock of claims": self.database.claim_lock.held_seconds,
        }

    def _capacities(self) -> dict[str, float]:
        return {
            "server processes": len(self.servers),
            "worker processes": len(self.workers),
            "database cores": self.deployment.cores,
            "log flushes": 1,
            "lock of claims": 1,
        }

    def _next_arrival(self) -> None:
        if self.load.runs_per_second > 0:
            self.simulation.after(self.simulation.random.expovariate(self.load.runs_per_second), self._arrive)

    def _arrive(self) -> None:
        load, random = self.load, self.simulation.random
        if load.runs_per_second == 0:
            return
        run = Run(self.simulation.now, load.supersteps)
        run.is_followed = random.random() < load.followed
        choice = random.random()
        if choice < load.hot_threads:
            run.thread = HOT_THREAD
        run.is_hot = load.hot_threads <= choice < load.hot_threads + load.hot_workspace
        self._count_unfinished(1)
        self.total["started"] += 1
        self._observations.started += 1
        random.choice(self.servers).post(run)
        self._next_arrival()

    def _count_unfinished(self, change: int) -> None:
        now = self.simulation.now
        self.in_flight_seconds += self.unfinished * (now - self._last_change)
        self.unfinished += change
        self._last_change = now

    def _sample(self) -> None:
        self.depths.append((self.simulation.now, len(self.database.due)))
        self.claim_rates.append(self.database.claim_count)
        self.database.claim_count = 0
        self.simulation.after(1.0, self._sample)

    # -- what processes report

    def note_node(self, run: Run) -> None:
        """Note that a worker executes a node."""
        observations, now = self._observations, self.simulation.now
        if run.executed_step == run.steps_left:
            observations.interruptions.append(now - run.executed_at)
        elif run.executed_step < 0:
            latency = now - run.created
            observations.latencies.append(latency)
            if not run.is_hot and run.thread is None:
                observations.other_latencies.append(latency)
        run.executed_step, run.executed_at = run.steps_left, now

    def note_step(self, run: Run) -> None:
        """Note that a superstep was committed."""
        if run.is_followed and isinstance(run.server, Server):
            run.server.changed.setdefault(run, self.simulation.now)

    def note_end(self, run: Run) -> None:
        """Note that a run has ended."""
        self._observations.completed += 1
        self.total["completed"] += 1
        self.duration_sum += self.simulation.now - run.created
        self._count_unfinished(-1)

    def note_lag(self, seconds: float) -> None:
        """Note how late a follower has received a change."""
        self._observations.lags.append(seconds)

    # -- failures

    def lose_database(self, seconds: float) -> None:
        """Have the database fail now, and return after a time."""
        self.database.go_down()
        self.simulation.after(seconds, self.database.come_up)

    def lose_workers(self, share: float) -> int:
        """Kill a share of the workers, and return their number."""
        lost = self.workers[: max(1, round(share * len(self.workers)))]
        for worker in lost:
            worker.die()
        return len(lost)

    def deploy(self, at_once: int) -> None:
        """Replace all workers, so many at once: new ones are started, then old ones drained."""
        old = list(self.workers)

        def replace_next() -> None:
            if not old:
                return
            worker = old.pop(0)
            self.add_worker()

            def drained() -> None:
                worker.end()
                replace_next()

            worker.drain(drained)

        for _ in range(at_once):
            replace_next()

    @property
    def recovered_at(self) -> float | None:
        """The last second at which runs had to wait for a worker longer than `poll`; None if there was none."""
        threshold = max(1.0, self.load.runs_per_second * RULES.poll)
        return next((at for at, depth in reversed(self.depths) if depth > threshold), None)
