"""`python -m benchmarks.instructions ENGINE STEPS`: run the loop of two nodes once, for valgrind to count.

This does not use the harness, so that nothing else is imported and two runs differ in their steps only.
"""

import sys

from benchmarks import engines
from benchmarks.cases.loop import graph_loop


def main(engine: str, steps: str) -> None:
    graph_loop(getattr(engines, engine), int(steps))()


if __name__ == "__main__":
    main(*sys.argv[1:])
