"""`python -m benchmarks.simulate_scale`: how many databases, workers and servers a load needs, and how they fail.

*The problem.* Nobody has a machine room to try 100 000 runs a second and a million threads in, and a small experiment
does not show what limits a large installation: the work of a run grows with the load, but what processes do for each
other (notifications, claims that find nothing, heartbeats) grows with the square of their number.

*The approach.* A discrete-event simulation of one database with its servers and workers (`scale/cell.py`). Each
process follows the code of the service step by step, and each step costs what was measured (`scale/costs.toml`). Shards
share nothing, neither tables nor processes, so a fleet is a number of independent cells: hashing says how much of the
load each gets (`scale/sharding.py`), and simulating the least, the median and the most loaded cell shows the whole
range. That is exact, not an approximation, and takes seconds instead of hours. How many cells a load needs is first
worked out by the utilisation law (`scale/plan.py`), and then simulated.

*Why not a fluid model.* It would simulate the whole fleet at once, but only averages. What is asked for is the 99th
percentile, and what decides it is what a fluid does not have: batches. Writes that share a transaction, transactions
that share a flush, claims of up to fifty runs, notifications that are sent at most each 50 ms, polls each second. Where
the average is enough, the utilisation law gives it without any simulation.

*Why not a simulation of all events of the fleet.* 100 000 runs a second are several million events a second. Python
does less than 200 000.

*What is simulated.* Interpreters (a core each, one thing at a time), cores of the database, flushes of its log, the
lock of claims, group commit, claims and their retries, the bell and the sweeps that it causes, leases, heartbeats,
releases of lost runs, polls of followers, limits of workspaces, threads whose runs wait for each other, clients that
repeat failed requests. Half of each demand for processor time is fixed, half exponentially distributed; requests arrive
at random.

*What is not.* Networks (a round trip is a constant), memory, the size of states, garbage collectors, autovacuum and
checkpoints of Postgres, contention of its locks and buffers (its cores are assumed to be as quick with many sessions as
with a few), replicas, TLS, schedules and webhooks that are due. So results are optimistic near the limit: plan for half
of it.

*How it is checked.* The queues are compared with queueing theory (M/M/1, M/M/c), the cell with the utilisation law,
Little's law and conservation, in `tests/unit/benchmarks`. Its constants are compared with the source of the service.
`--check` compares it with a real server and worker, which means something on a machine with free cores only. Equal
seeds give equal results on any machine.
"""

from __future__ import annotations

import re
import sys
import time
from argparse import ArgumentParser, Namespace
from collections.abc import Mapping, Sequence
from dataclasses import fields
from pathlib import Path
from textwrap import fill

from benchmarks.scale.costs import DEFAULT_FILE, Costs, Origin, load_costs, save_costs
from benchmarks.scale.load import Load
from benchmarks.scale.plan import plan
from benchmarks.scale.scenarios import SCENARIOS, Setting, Table, plan_one

BLOCK = re.compile(r"(<!-- simulated: ([\w-]+) -->\n).*?(<!-- end -->)", re.S)
"""A table in a document that `--update` replaces."""
COSTS = "costs"
"""The name of the table of costs."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command. Returns 2 for a file or a load that cannot be used."""
    options = _parse(arguments)
    try:
        if options.measure is not None:
            return _measure(options.measure, options.note)
        costs, origins = load_costs(options.costs)
        setting = Setting(costs, options.seed)
        if options.check:
            return _check(setting)
        if options.runs_per_second is not None:
            _print(_plan(options, setting))
            return 0
        if options.update is not None:
            update(options.update, setting, origins, options.scenarios)
            return 0
    except (RuntimeError, ValueError) as error:
        print(error, file=sys.stderr)
        return 2
    for name in options.scenarios or [COSTS, *SCENARIOS]:
        began = time.process_time()
        table = table_of(name, setting, origins)
        _print(table)
        print(f"({name}, seed {options.seed}, {time.process_time() - began:.0f} s of processor time)\n", flush=True)
    return 0


def _parse(arguments: Sequence[str] | None) -> Namespace:
    parser = ArgumentParser(prog="benchmarks.simulate_scale", description=str(__doc__).partition("\n")[0])
    parser.add_argument("scenarios", nargs="*", help=f"any of {COSTS}, {', '.join(SCENARIOS)}; all by default")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--costs", type=Path, default=DEFAULT_FILE, help="a file that --measure has written")
    parser.add_argument("--update", type=Path, metavar="DOCUMENT", help="replace the tables in a document")
    parser.add_argument("--measure", type=Path, metavar="FILE", help="measure the costs here, and write them to a file")
    parser.add_argument("--check", action="store_true", help="compare the simulation with a real server and worker")
    parser.add_argument("--note", default="", help="a remark on the machine, for the file that --measure writes")
    load = parser.add_argument_group("a load of your own: plan a fleet for it, and simulate one of its databases")
    load.add_argument("--runs-per-second", type=float)
    load.add_argument("--supersteps", type=int, default=3)
    load.add_argument("--node-seconds", type=float, default=0.0, help="for how long a node waits, on average")
    load.add_argument("--followed", type=float, default=0.0, help="the share of runs that are followed")
    load.add_argument("--capacity", type=int, default=100, help="of a worker")
    load.add_argument("--cores", type=int, default=8, help="of each database")
    load.add_argument("--target", type=float, default=0.5, help="how busy the busiest resource may be")
    load.add_argument("--max-connections", type=int, default=500, help="of each database")
    load.add_argument("--no-bell", action="store_true", help="processes only poll, as behind a pooler")
    options = parser.parse_args(arguments)
    unknown = [name for name in options.scenarios if name != COSTS and name not in SCENARIOS]
    if unknown:
        parser.error(f"unknown scenario {unknown[0]!r}. Scenarios: {COSTS}, {', '.join(SCENARIOS)}.")
    return options


def _print(table: Table) -> None:
    print(f"{table.title}\n\n{table.to_markdown()}\n")


def _plan(options: Namespace, setting: Setting) -> Table:
    if options.runs_per_second <= 0 or options.supersteps < 1 or options.node_seconds < 0:
        raise ValueError("A load needs runs per second above 0, at least one superstep, and node seconds of 0 or more.")
    load = Load(
        runs_per_second=options.runs_per_second,
        supersteps=options.supersteps,
        node_seconds=options.node_seconds,
        followed=options.followed,
    )
    fleet = plan(
        load,
        setting.costs,
        capacity=options.capacity,
        cores=options.cores,
        target=options.target,
        max_connections=options.max_connections,
        has_bell=not options.no_bell,
    )
    return plan_one(load, fleet, setting)


def table_of(name: str, setting: Setting, origins: Mapping[str, Origin]) -> Table:
    """Return the table of a scenario, or that of the costs."""
    return _costs(setting.costs, origins) if name == COSTS else SCENARIOS[name](setting)


def _costs(costs: Costs, origins: Mapping[str, Origin]) -> Table:
    rows = [
        [
            f"`{field.name}`",
            f"{getattr(costs, field.name):.3g}"
            if not field.name.endswith("bytes")
            else f"{getattr(costs, field.name):,.0f}",
            "bytes" if field.name.endswith("bytes") else "ms",
            f"{origins[field.name].kind}: {origins[field.name].source}",
        ]
        for field in fields(Costs)
    ]
    return Table("The costs", ["cost", "value", "unit", "origin"], rows)


def update(path: Path, setting: Setting, origins: Mapping[str, Origin], names: Sequence[str] = ()) -> None:
    """Replace the tables of a document, all or those with some names. Raises ValueError for an unknown name in it."""
    text = path.read_text(encoding="utf-8")
    in_document = [match[2] for match in BLOCK.finditer(text)]
    unknown = [name for name in in_document if name != COSTS and name not in SCENARIOS]
    if unknown or not in_document:
        raise ValueError(
            f"{path} has {f'the unknown table {unknown[0]!r}' if unknown else 'no tables'}. A table is between "
            f"<!-- simulated: NAME --> and <!-- end -->. Names: {COSTS}, {', '.join(SCENARIOS)}."
        )

    def replaced(match: re.Match[str]) -> str:
        if names and match[2] not in names:
            return match[0]
        began = time.process_time()
        table = table_of(match[2], setting, origins)
        print(f"{match[2]}: {time.process_time() - began:.0f} s of processor time", flush=True)
        return f"{match[1]}\n{fill(f'{table.title}.', 120)}\n\n{table.to_markdown()}\n\n{match[3]}"

    path.write_text(BLOCK.sub(replaced, text), encoding="utf-8")


def _check(setting: Setting) -> int:
    from benchmarks.own_postgres import running_database
    from benchmarks.scale.check import compare

    with running_database() as database:
        _print(compare(database.url, setting.costs, setting.seed))
    return 0


def _measure(path: Path, note: str) -> int:
    from benchmarks.own_postgres import running_database
    from benchmarks.scale.measure import measure_costs

    with running_database() as database:
        costs, origins = measure_costs(database)
    head = "Costs of the capacity model, in milliseconds and bytes, written by\n"
    head += f"python -m benchmarks.simulate_scale --measure.\n{note}"
    save_costs(path, costs, origins, head.strip())
    return 0


if __name__ == "__main__":
    sys.exit(main())
