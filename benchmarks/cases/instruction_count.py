"""Instructions per step of the loop, counted by callgrind: the only figure that does not depend on the machine's load.

The run has two lengths, so that the start, imports and compilation cancel out.
"""

import os
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from benchmarks.environment import ROOT
from benchmarks.figure import Figure, Rival, Take
from benchmarks.requirement import AtMost, Shown

SHORT, LONG = 200, 1200  # steps


def instructions_per_step(engine: str) -> Take:
    """Return a pass: the difference between a long and a short run, which are counted concurrently."""

    def take() -> float:
        with tempfile.TemporaryDirectory() as folder:
            counts = {steps: _start(engine, steps, Path(folder)) for steps in (SHORT, LONG)}
            short, long = (_finish(counts[steps], Path(folder) / str(steps)) for steps in (SHORT, LONG))
        return (long - short) / (LONG - SHORT)

    return take


def _start(engine: str, steps: int, folder: Path) -> subprocess.Popen[str]:
    counter = ["valgrind", "--tool=callgrind", f"--callgrind-out-file={folder / str(steps)}"]
    counted = [sys.executable, "-m", "benchmarks.instructions", engine, str(steps)]
    # Hashes determine the collisions in dicts. With a fixed seed, repeated counts agree to the last digits.
    environment = {**os.environ, "PYTHONHASHSEED": "0"}
    return subprocess.Popen(
        counter + counted, cwd=ROOT, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True
    )


def _finish(counter: subprocess.Popen[str], report: Path) -> int:
    _, stderr = counter.communicate()
    if counter.returncode:
        raise RuntimeError(stderr.strip().splitlines()[-1])
    match = re.search(r"^(?:summary|totals): (\d+)", report.read_text(), re.MULTILINE)
    if not match:
        raise RuntimeError("callgrind reported no total")
    return int(match[1])


def _figures() -> tuple[Figure, ...]:
    if not shutil.which("valgrind"):
        print("valgrind is not installed, so instructions per step are not counted.", file=sys.stderr)
        return ()
    langgraph = Rival(name="LangGraph", take=instructions_per_step("langgraph"), requirement=Shown())
    return (
        Figure(
            name="loop of 2 nodes, sync",
            unit="instructions/step",
            ours=instructions_per_step("statewright"),
            rivals=(langgraph,),
            limit=AtMost(26_000),
            is_repeated=False,
            is_long=True,
        ),
    )


FIGURES = _figures()
