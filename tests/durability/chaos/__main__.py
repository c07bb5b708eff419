"""The command line: executes scenarios concurrently, and prints the report."""

from __future__ import annotations

import argparse
import json
import os
import shutil
import sys
import tempfile
import threading
from collections import Counter
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from tests.durability import chaos
from tests.durability.chaos.child import Plan, run_child
from tests.durability.chaos.execution import execute
from tests.durability.chaos.report import Report
from tests.durability.chaos.scenario import Scenario, scenarios
from tests.durability.chaos.shapes import SHAPES


def run(kills: int, seed: int, *, shapes: Sequence[str] = tuple(SHAPES), lanes: int | None = None) -> Report:
    """Kill a number of children, in all shapes, with `lanes` scenarios at a time."""
    folder = Path(tempfile.mkdtemp(prefix="chaos-"))
    report = Report({shape: Counter() for shape in shapes})
    lock = threading.Lock()

    def add(scenario: Scenario) -> None:
        count, broken_promise = execute(scenario, folder)
        with lock:
            report.counts[scenario.shape] += count
            report.broken_promises.extend([broken_promise] if broken_promise is not None else [])

    with ThreadPoolExecutor(lanes or max(2, os.cpu_count() or 2)) as pool:
        list(pool.map(add, scenarios(kills, seed, shapes)))
    if not report.broken_promises:
        shutil.rmtree(folder)
    return report


def main(arguments: Sequence[str] | None = None) -> int:
    """Run, print the report, and return the exit code: 1 if a promise was broken."""
    description = (chaos.__doc__ or "").partition("\n")[0]
    parser = argparse.ArgumentParser(prog="python -m tests.durability.chaos", description=description)
    parser.add_argument("--kills", type=int, default=200, help="number of children to kill")
    parser.add_argument("--seed", type=int, default=1, help="seed of the generator that draws the times of the kills")
    parser.add_argument("--shapes", nargs="+", choices=list(SHAPES), default=list(SHAPES), help="graphs to run")
    parser.add_argument("--lanes", type=int, default=None, help="number of scenarios that are executed concurrently")
    parser.add_argument("--child", help=argparse.SUPPRESS)
    options = parser.parse_args(arguments)
    if options.child is not None:
        run_child(Plan(**json.loads(options.child)))
        return 0
    report = run(options.kills, options.seed, shapes=options.shapes, lanes=options.lanes)
    print(report)
    return 1 if report.broken_promises else 0


if __name__ == "__main__":
    sys.exit(main())
