"""One process per engine of a figure, so that each has its own heap; they run one at a time.

In a shared process the garbage collector walks the modules of all engines in the passes of each one: our fan-out is a
fifth slower next to LangGraph than alone. If the modules are hidden from it (`gc.freeze`), LangGraph's own fan-out is
1.3 times faster than alone. Neither is what a user sees.

`python -m benchmarks.turns FIGURE SERIES` is such a process: it reads lines of `seconds passes`, and prints the best
cost so far for each.
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
    """Yield the series of a figure, each in a process of its own, which ends with the block."""
    with ExitStack() as closing:
        number = catalogue.FIGURES.index(figure)
        series = [RemoteSeries(number, position) for position in range(len(figure.takes))]
        for remote in series:
            closing.callback(remote.close)
        yield series


@contextmanager
def in_this_process(figure: Figure) -> Iterator[Sequence[Series]]:
    """Yield the series of a figure, all in this process."""
    yield [LocalSeries(take) for take in figure.takes]


def main(figure: str, position: str) -> None:
    series = LocalSeries(catalogue.FIGURES[int(figure)].takes[int(position)])
    for line in sys.stdin:
        seconds, passes = line.split()
        print(series.advance(float(seconds), int(passes)), flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
