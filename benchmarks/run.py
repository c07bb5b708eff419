"""`python benchmarks/run.py` or `python -m benchmarks`: measure, print the table, and write it to `RESULTS.md`."""

import sys
from argparse import ArgumentParser, Namespace
from collections.abc import Sequence
from pathlib import Path

if __name__ == "__main__":  # run as a file: the project's folder is not on the path
    sys.path[0] = str(Path(__file__).resolve().parent.parent)

from benchmarks import catalogue, environment, report, turns
from benchmarks.figure import Figure
from benchmarks.harness import QUICK, THOROUGH, Row, measure


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command. Missed targets do not change the exit code 0, because this is a table, not a test."""
    command_line = list(sys.argv[1:] if arguments is None else arguments)
    options = _parse(command_line)
    if not (options.here or environment.is_entered()):
        return environment.run_inside(command_line)
    environment.quieten_peers()
    rows = _measure_all(catalogue.choose(options.only, with_long=not options.quick), options)
    if not (options.only or options.quick):
        report.save(rows)
    return 0


def _parse(arguments: Sequence[str]) -> Namespace:
    parser = ArgumentParser(prog="benchmarks", description=__doc__)
    parser.add_argument(
        "--quick", action="store_true", help="one short round, without the long cases; nothing is saved"
    )
    parser.add_argument("--only", nargs="+", default=[], metavar="NAME", help="these cases only; nothing is saved")
    parser.add_argument("--here", action="store_true", help="use this interpreter instead of .venv-bench")
    parser.add_argument("--one-process", action="store_true", help="all engines in this process, instead of one each")
    return parser.parse_args(arguments)


def _measure_all(figures: Sequence[Figure], options: Namespace) -> list[Row]:
    pace = QUICK if options.quick else THOROUGH
    open_series = turns.in_this_process if options.one_process else turns.in_own_processes
    print(report.heading(), flush=True)
    rows: list[Row] = []
    for figure in figures:
        with open_series(figure) as series:
            figure_rows = measure(figure, series, pace)
        print("\n".join(map(report.line, figure_rows)), flush=True)
        rows += figure_rows
    return rows


if __name__ == "__main__":
    sys.exit(main())
