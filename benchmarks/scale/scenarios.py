"""The questions that the capacity model answers, each as a function that simulates and returns a table.

Tables of `docs/guide/capacity.md` are made here, so every figure in them is simulated, with the costs of the file that
was given and the seed that is named. Latencies are from the request to the first node of a run.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from benchmarks.scale.cell import Cell, Observations, percentile
from benchmarks.scale.costs import Costs
from benchmarks.scale.load import Deployment, Load
from benchmarks.scale.plan import Fleet, divided, plan, utilisations
from benchmarks.scale.sharding import METHODS, Threads, buckets_by_table, imbalance, moved_share

WARM_UP = 3.0
"""Seconds before a measurement, for runs without waiting nodes."""
MODEL_SECONDS = 10 / 3
"""The time that a node waits in scenarios with models: three supersteps take ten seconds."""
SHORT = Load(runs_per_second=1)
"""Runs of three empty nodes."""
LONG = Load(runs_per_second=1, node_seconds=MODEL_SECONDS, followed=0.05)
"""Runs of three calls of a model, of which one in twenty is followed."""


@dataclass(frozen=True, slots=True)
class Table:
    """Rows of text below a heading."""

    title: str
    head: Sequence[str]
    rows: Sequence[Sequence[str]]

    def to_markdown(self) -> str:
        """Return the table as Markdown, without its title."""
        widths = [max(len(row[index]) for row in (self.head, *self.rows)) for index in range(len(self.head))]
        lines = [self.head, ["-" * width for width in widths], *self.rows]
        return "\n".join(
            "| " + " | ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)) + " |"
            for line in lines
        )


@dataclass(frozen=True, slots=True)
class Setting:
    """The settings that all scenarios share."""

    costs: Costs
    seed: int = 1
    seconds: float = 5.0
    """How long is measured after the warm-up."""


def _milliseconds(seconds: float) -> str:
    return "-" if seconds != seconds else f"{seconds * 1e3:.0f}" if seconds < 10 else f"{seconds * 1e3:,.0f}"


def _percent(share: float) -> str:
    return f"{share:.0%}".replace("%", " %")


_LIMITS = ("server processes", "worker processes", "database cores")
"""The resources that limit throughput when they are busy all the time. The lock of claims is busy whenever workers look
for runs, and a flush serves all who wait: both can be busy all the time, and serve more."""


def _busiest(observed: Observations) -> str:
    name = max(_LIMITS, key=lambda name: observed.utilisation[name])
    return f"{name} {_percent(observed.utilisation[name])}"


def measure_cell(load: Load, deployment: Deployment, setting: Setting) -> tuple[Cell, Observations]:
    """Simulate one database until it is in balance, and observe it."""
    cell = Cell(load, deployment, setting.costs, setting.seed)
    cell.run(WARM_UP + 2 * load.run_seconds)
    return cell, cell.run(setting.seconds)


# -- one database


def latency_by_load(setting: Setting) -> Table:
    """How latency grows with the load of one database, with and without the bell."""
    deployment = Deployment(servers=4, workers=6)
    rows: list[Sequence[str]] = []
    for rate in (10, 50, 100, 200, 400, 600):
        load = replace(SHORT, runs_per_second=rate)
        _, bell = measure_cell(load, deployment, setting)
        _, polling = measure_cell(load, replace(deployment, has_bell=False), setting)
        rows.append(
            [
                f"{rate}",
                f"{bell.completed / bell.seconds:.0f}",
                _busiest(bell),
                _percent(bell.utilisation["lock of claims"]),
                *(_milliseconds(percentile(bell.latencies, share)) for share in (0.5, 0.99)),
                *(_milliseconds(percentile(polling.latencies, share)) for share in (0.5, 0.99)),
            ]
        )
    title = "One database of 8 cores, 4 servers, 6 workers, runs of three empty nodes"
    head = [
        "runs/s",
        "completed/s",
        "busiest",
        "lock of claims",
        "p50, ms",
        "p99, ms",
        "p50 without bell, ms",
        "p99 without bell, ms",
    ]
    return Table(title, head, rows)


def saturation(setting: Setting) -> Table:
    """Which resource of one database is exhausted first, with as many processes as help."""
    rows: list[Sequence[str]] = []
    for servers, workers in ((1, 1), (2, 4), (4, 8), (8, 16), (16, 32)):
        deployment = Deployment(servers=servers, workers=workers)
        best, rate = _highest_rate(SHORT, deployment, setting)
        busy = ", ".join(
            f"{name} {_percent(share)}"
            for name, share in sorted(best.utilisation.items(), key=lambda item: -item[1])[:3]
        )
        rows.append([f"{servers}", f"{workers}", f"{rate:.0f}", _milliseconds(percentile(best.latencies, 0.99)), busy])
    title = "The highest load of one database of 8 cores, runs of three empty nodes"
    return Table(title, ["servers", "workers", "runs/s", "p99, ms", "busiest"], rows)


def _highest_rate(load: Load, deployment: Deployment, setting: Setting) -> tuple[Observations, float]:
    """Return the highest rate at which the queue does not grow and 99 % begin within a second, within 8 %."""

    def observe(rate: float) -> Observations | None:
        cell = Cell(replace(load, runs_per_second=rate), deployment, setting.costs, setting.seed)
        cell.run(1.5)
        observed = cell.run(3.0)
        keeps_up = observed.completed > 0.95 * observed.started and percentile(observed.latencies, 0.99) < 1.0
        return observed if keeps_up else None

    best, low = Observations(), 50.0
    while (observed := observe(2 * low)) is not None:  # an overload costs the most time to simulate
        best, low = observed, 2 * low
    high = 2 * low
    while high > low * 1.08:
        rate = (low * high) ** 0.5
        observed = observe(rate)
        if observed is not None:
            best, low = observed, rate
        else:
            high = rate
    return best, low


def workers_or_capacity(setting: Setting) -> Table:
    """The same runs in flight, with few workers of a large capacity and with many of a small one."""
    load = replace(LONG, runs_per_second=200, node_seconds=1.0)
    rows: list[Sequence[str]] = []
    for workers, capacity in ((4, 300), (8, 150), (16, 75), (32, 38)):
        deployment = Deployment(servers=2, workers=workers, capacity=capacity)
        _, observed = measure_cell(load, deployment, setting)
        shares = [_percent(observed.utilisation[name]) for name in ("database cores", "lock of claims")]
        latencies = [_milliseconds(percentile(observed.latencies, share)) for share in (0.5, 0.99)]
        rows.append([f"{workers}", f"{capacity}", *shares, *latencies])
    title = "200 runs/s of three nodes that wait for a second each: 600 runs in flight; 2 servers, 8 cores"
    head = ["workers", "capacity", "database cores", "lock of claims", "p50, ms", "p99, ms"]
    return Table(title, head, rows)


def flushes(setting: Setting) -> Table:
    """How a slow disk changes one database."""
    deployment = Deployment(servers=2, workers=4)
    rows: list[Sequence[str]] = []
    for flush in (0.1, 1.0, 5.0):
        slow = replace(setting, costs=replace(setting.costs, flush=flush))
        best, rate = _highest_rate(SHORT, deployment, slow)
        _, quiet = measure_cell(replace(SHORT, runs_per_second=50), deployment, slow)
        latencies = [_milliseconds(percentile(quiet.latencies, share)) for share in (0.5, 0.99)]
        rows.append([f"{flush:g}", f"{rate:.0f}", _busiest(best), *latencies])
    title = "2 servers, 4 workers, 8 cores, by the time of a flush"
    head = ["flush, ms", "highest load, runs/s", "busiest then", "p50 at 50 runs/s, ms", "p99 at 50 runs/s, ms"]
    return Table(title, head, rows)


# -- fleets


def sizes(setting: Setting) -> Table:
    """The fleets that loads need, planned and then simulated."""
    rows: list[Sequence[str]] = []
    for rate, load, capacity in (
        (10, SHORT, 100), (100, SHORT, 100), (1000, SHORT, 100), (10_000, SHORT, 100), (100_000, SHORT, 100),
        (10, LONG, 100), (100, LONG, 1000), (1000, LONG, 1000), (10_000, LONG, 1000), (100_000, LONG, 1000),
    ):  # fmt: skip
        total = replace(load, runs_per_second=rate)
        fleet = plan(total, setting.costs, capacity=capacity)
        _, observed = measure_cell(divided(total, fleet.shards), fleet.deployment, setting)
        rows.append(
            [
                f"{rate:,}",
                f"{load.run_seconds:.0f}",
                f"{fleet.shards * fleet.in_flight:,.0f}",
                f"{fleet.shards}",
                f"{fleet.servers:,}",
                f"{fleet.workers:,}",
                f"{fleet.connections}",
                _busiest(observed),
                _milliseconds(percentile(observed.latencies, 0.5)),
                _milliseconds(percentile(observed.latencies, 0.99)),
            ]
        )
    head = [
        "runs/s", "run waits, s", "in flight", "databases", "servers", "workers", "connections each", "busiest",
        "p50, ms", "p99, ms",
    ]  # fmt: skip
    return Table("Fleets in which nothing is planned to be busier than half of the time", head, rows)


def largest_fleet(setting: Setting, threads: int = 1_000_000) -> Table:
    """100 000 runs a second and a million threads in flight: the least, middle and most loaded database of the fleet.

    Databases share nothing, so the one with the most threads shows the worst of the fleet.
    """
    load = replace(LONG, runs_per_second=100_000)
    fleet = plan(load, setting.costs, capacity=1000)
    counts = sorted(
        Threads(threads, 100_000, seed=setting.seed).count_by_shard(buckets_by_table(fleet.shards), fleet.shards)
    )
    rows: list[Sequence[str]] = []
    for name, count in (("least", counts[0]), ("median", counts[len(counts) // 2]), ("most", counts[-1])):
        share = replace(load, runs_per_second=load.runs_per_second * count / threads)
        _, observed = measure_cell(share, fleet.deployment, setting)
        rows.append(
            [
                name,
                f"{count:,}",
                f"{share.runs_per_second:.0f}",
                _busiest(observed),
                *(_milliseconds(percentile(observed.latencies, quantile)) for quantile in (0.5, 0.99)),
                *(_milliseconds(percentile(observed.lags, quantile)) for quantile in (0.5, 0.99)),
            ]
        )
    title = (
        f"100 000 runs/s of 10 s, {threads:,} threads of 100 000 workspaces on {fleet.shards} databases with "
        f"{fleet.deployment.servers} servers and {fleet.deployment.workers} workers each: the least, the "
        f"median and the most loaded database"
    )
    head = [
        "loaded", "threads", "runs/s", "busiest", "p50, ms", "p99, ms", "followers' lag p50, ms", "p99, ms",
    ]  # fmt: skip
    return Table(title, head, rows)


def skew(setting: Setting) -> Table:
    """How evenly threads are spread over databases."""
    threads = Threads(100_000, 10_000, seed=setting.seed)
    sample = threads.keys[::10]
    rows: list[Sequence[str]] = []
    for name, method in METHODS.items():
        spread = [f"{imbalance(threads.count_by_shard(method(shards), shards)):.2f}" for shards in (4, 16, 64)]
        rows.append([name, *spread, _percent(moved_share(sample, method, 16))])
    together = [
        f"{imbalance(threads.count_by_workspace(METHODS['rendezvous'](shards), shards)):.2f}" for shards in (4, 16, 64)
    ]
    rows.append(["rendezvous by workspace only", *together, "-"])
    title = (
        "The most loaded database, as a multiple of the mean: 100 000 threads of 10 000 workspaces (Zipf, the largest "
        f"has {_percent(max(threads.sizes) / threads.count)} of the threads)"
    )
    return Table(title, ["method", "4 databases", "16", "64", "moved by a 17th"], rows)


# -- failures


def failures(setting: Setting) -> Table:
    """The recovery after a loss: one database of a fleet, with runs of ten seconds."""
    load = replace(LONG, runs_per_second=50)
    deployment = Deployment(servers=2, workers=10)
    expected = load.runs_per_second * load.run_seconds
    rows: list[Sequence[str]] = []
    for name, begin in _FAILURES:
        cell = Cell(load, deployment, setting.costs, setting.seed)
        cell.run(WARM_UP + 2 * load.run_seconds)
        began = cell.simulation.now
        cell.claim_rates.clear()
        begin(cell)
        observed = cell.run(OBSERVED)
        late = cell.recovered_at
        interruptions = observed.interruptions
        rows.append(
            [
                name,
                *(_milliseconds(percentile(observed.latencies, share)) for share in (0.5, 0.99)),
                _milliseconds(max(observed.latencies)),
                "0" if late is None or late < began else f"{late - began:.0f}",
                f"{len(interruptions):,}",
                f"{max(interruptions):.0f}" if interruptions else "-",
                f"{observed.refused:,}",
                f"{max(cell.claim_rates):,}",
                f"{cell.unfinished - expected:+.0f}",
            ]
        )
    title = (
        f"50 runs/s of 10 s (500 in flight), 2 servers, 10 workers with a capacity of 100, 8 cores; observed for "
        f"{OBSERVED:.0f} s after the loss"
    )
    head = [
        "what happens", "p50, ms", "p99, ms", "longest, ms", "queue until, s", "nodes repeated", "after at most, s",
        "writes refused", "claims/s at most", "in flight at the end, beside 500",
    ]  # fmt: skip
    return Table(title, head, rows)


OBSERVED = 120.0
"""Seconds after a failure."""
_RESTART = 60.0
"""Seconds until a supervisor has replaced lost workers."""


def _lose_database(cell: Cell) -> None:
    cell.lose_database(60.0)


def _lose_workers(cell: Cell) -> None:
    cell.lose_workers(0.1)


def _lose_most(cell: Cell) -> None:
    count = cell.lose_workers(0.6)
    cell.simulation.after(_RESTART, lambda: [cell.add_worker() for _ in range(count)])


def _deploy(cell: Cell) -> None:
    cell.deploy(at_once=2)


_FAILURES: Sequence[tuple[str, Callable[[Cell], None]]] = (
    ("nothing", lambda _: None),
    ("the database is away for 60 s", _lose_database),
    ("10 % of the workers are killed", _lose_workers),
    ("60 % are killed, and replaced after 60 s", _lose_most),
    ("all workers are replaced, two at a time", _deploy),
)


def hot_spots(setting: Setting) -> Table:
    """A thread or a workspace with a large part of the load."""
    base = replace(SHORT, runs_per_second=300)
    deployment = Deployment(servers=2, workers=4)
    slow = replace(base, node_seconds=0.1)
    rows: list[Sequence[str]] = []
    for name, load in (
        ("no hot spot", base),
        ("one thread has 10 % of the runs", replace(base, hot_threads=0.1)),
        ("the same, nodes take 0.1 s", replace(slow, hot_threads=0.1)),
        ("one workspace has 60 %, nodes take 0.1 s, no limit", replace(slow, hot_workspace=0.6)),
        ("the same, limit of 20 runs", replace(slow, hot_workspace=0.6, workspace_limit=20)),
        ("500 runs/s that take a second, one workspace has 60 %, no limit", _flood(None)),
        ("the same, limit of 150 runs", _flood(150)),
    ):
        cell, observed = measure_cell(load, deployment, setting)
        hot = len(observed.latencies) - len(observed.other_latencies)
        rows.append(
            [
                name,
                f"{observed.completed / observed.seconds:.0f}",
                *(_milliseconds(percentile(observed.other_latencies, share)) for share in (0.5, 0.99)),
                f"{hot / observed.seconds:.0f}",
                f"{cell.database.held_count:,}",
                f"{len(cell.database.due):,}",
            ]
        )
    title = "300 runs/s (unless it says otherwise), 2 servers, 4 workers with a capacity of 100, 8 cores"
    head = ["load", "completed/s", "p50 of the others, ms", "p99", "hot runs begun/s", "held back", "due"]
    return Table(title, head, rows)


def _flood(limit: int | None) -> Load:
    """A workspace that starts more runs than all workers have capacity for."""
    return replace(SHORT, runs_per_second=500, node_seconds=1 / 3, hot_workspace=0.6, workspace_limit=limit)


def plan_one(load: Load, fleet: Fleet, setting: Setting) -> Table:
    """A fleet for a load of the caller's, with the utilisation that is planned and that is simulated."""
    share = divided(load, fleet.shards)
    _, observed = measure_cell(share, fleet.deployment, setting)
    planned = utilisations(share, fleet.deployment, setting.costs)
    names = list(dict.fromkeys([*planned, *observed.utilisation]))
    rows: list[Sequence[str]] = [
        [
            name,
            _percent(planned[name]) if name in planned else "-",
            _percent(observed.utilisation[name]) if name in observed.utilisation else "-",
        ]
        for name in names
    ]
    latencies = [percentile(observed.latencies, quantile) for quantile in (0.5, 0.99)]
    rows.append(["request to first node, p50 and p99, ms", "-", " and ".join(map(_milliseconds, latencies))])
    title = (
        f"{fleet.shards} database(s) with {fleet.deployment.cores} cores, {fleet.deployment.servers} servers, "
        f"{fleet.deployment.workers} workers of capacity {fleet.deployment.capacity} and at most {fleet.connections} "
        f"connections each"
    )
    return Table(title, ["resource of one database", "planned", "simulated"], rows)


SCENARIOS: dict[str, Callable[[Setting], Table]] = {
    "latency": latency_by_load,
    "saturation": saturation,
    "workers": workers_or_capacity,
    "flushes": flushes,
    "sizes": sizes,
    "largest": largest_fleet,
    "skew": skew,
    "failures": failures,
    "hot-spots": hot_spots,
}
"""By name; the tables of the guide."""
