"""One process per engine of a figure, so that each has its own heap; they run one at a time.

In a shared process the collector walks the modules of all engines in each engine's passes: next to LangGraph, our
fan-out is a fifth slower than alone. With the modules hidden from it (`gc.freeze`), LangGraph's own fan-out is 1.3
times faster than alone. Neither is what a user sees.

`python -m benchmarks.turns FIGURE SERIES` is such a process: it reads `seconds passes` and answers the best cost yet.
"""

import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from typing import TextIO, cast

from benchmarks import catalogue
from benchmarks.environment import ROOT
from benchmarks.figure import Figure
from benchmarks.harness import LocalSeries, Series


class RemoteSeries:
    """A series in a separate process."""

    def __init__(self, figure: int, position: int) -> None:
        command = [sys.executable, "-m", "benchmarks.turns", str(figure), str(position)]
        self._process = subprocess.Popen(
            command, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, bufsize=1
        )

    def advance(self, seconds: float, passes: int) -> float:
        # Both pipes are requested above, which the type of Popen cannot express.
        stdin, stdout = cast(TextIO, self._process.stdin), cast(TextIO, self._process.stdout)
        print(seconds, passes, file=stdin, flush=True)
        return float(stdout.readline() or "nan")

    def close(self) -> None:
        """Close the input of the process, which then ends."""
        self._process.communicate()


@contextmanager
def in_own_processes(figure: Figure) -> Iterator[Sequence[Series]]:
    """The series of a figure, each in its process, which end with the block."""
    with ExitStack() as closing:
        series = [RemoteSeries(catalogue.FIGURES.index(figure), position) for position in range(len(figure.takes))]
        for one in series:
            closing.callback(one.close)
        yield series


@contextmanager
def in_this_process(figure: Figure) -> Iterator[Sequence[Series]]:
    """The series of a figure, all in this process."""
    yield [LocalSeries(take) for take in figure.takes]


def main(figure: str, position: str) -> None:
    series = LocalSeries(catalogue.FIGURES[int(figure)].takes[int(position)])
    for line in sys.stdin:
        seconds, passes = line.split()
        print(series.advance(float(seconds), int(passes)), flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
