"""The execution of a scenario by the parent, which starts, kills and audits children."""

from __future__ import annotations

import json
import os
import random
import select
import shutil
import signal
import subprocess
import sys
import time
import traceback
from collections import Counter
from dataclasses import asdict
from pathlib import Path
from typing import Any, Final

from tests.durability.chaos.audit.auditor import Auditor
from tests.durability.chaos.audit.state import BrokenPromise
from tests.durability.chaos.child import Plan
from tests.durability.chaos.kill_trigger import SIGNAL_LINE
from tests.durability.chaos.notes import DiscardedNotes, read_notes
from tests.durability.chaos.reference import reference_states
from tests.durability.chaos.scenario import KillTime, Scenario, draw_kill_time
from tests.durability.chaos.shapes import compile_app

from statewright.storage.sqlite import SqliteSaver

ROOT: Final = Path(__file__).resolve().parents[3]
PATIENCE: Final = 600.0
"""Seconds after which a child is considered to hang."""
MAX_WAIT: Final = 0.6
"""Seconds after which a child that has not reached the chosen operation is killed."""


class Execution:
    """Kills children, one after the other, and lets the last one finish."""

    def __init__(self, scenario: Scenario, folder: Path) -> None:
        self._scenario = scenario
        self._folder = folder
        self._auditor = Auditor(scenario.shape, scenario.durability, reference_states(scenario.shape))
        self._rng = random.Random(scenario.seed)
        self.broken_promise: str | None = None

    def run(self) -> Counter[str]:
        """Execute the scenario and return the counts. If a promise is broken, set `broken_promise`."""
        started_at, generation = time.monotonic(), 0
        try:
            for generation in range(self._scenario.kills):
                kill_time = draw_kill_time(self._rng, self._scenario.shape)
                self._kill(self._start(generation, kill_time), kill_time)
                self._auditor.count_kill(self._notes(generation))
                self._audit(generation)
            generation = self._scenario.kills
            self._finish(self._start(generation, None))
            self._audit(generation)
            if self._auditor.open_threads():
                raise BrokenPromise(f"Threads have not ended: {self._auditor.open_threads()}.")
        except Exception as error:
            reason = error if isinstance(error, BrokenPromise) else traceback.format_exc()
            self.broken_promise = f"{self._scenario}, child {generation}, {self._folder}: {reason}"
        self._auditor.count["milliseconds"] = int((time.monotonic() - started_at) * 1000)
        return self._auditor.count

    def _start(self, generation: int, kill_time: KillTime | None) -> subprocess.Popen[bytes]:
        scenario = self._scenario
        plan = Plan(
            folder=str(self._folder),
            shape=scenario.shape,
            driver=scenario.driver,
            durability=scenario.durability,
            small_segments=scenario.small_segments,
            slow_disk=scenario.slow_disk,
            generation=generation,
            round=self._auditor.first_open_round(),
            is_last=kill_time is None,
            kill_event=kill_time.event if kill_time is not None else "",
            kill_number=kill_time.number if kill_time is not None else 0,
        )
        command = [sys.executable, "-m", "tests.durability.chaos", "--child", json.dumps(asdict(plan))]
        with (self._folder / "stderr.log").open("ab") as stderr:
            return subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, stderr=stderr)

    def _kill(self, child: subprocess.Popen[bytes], kill_time: KillTime) -> None:
        with child:
            try:
                if kill_time.event != "birth":
                    self._await_line(child, b"ready\n", PATIENCE)
                if kill_time.event not in ("birth", "ready"):
                    self._await_line(child, SIGNAL_LINE, MAX_WAIT)
                time.sleep(kill_time.delay)
            finally:
                child.kill()
            if child.wait() != -signal.SIGKILL:
                raise BrokenPromise(f"The child ended by itself: {self._stderr_tail()}")

    def _await_line(self, child: subprocess.Popen[bytes], line: bytes, timeout: float) -> None:
        """Wait until the child writes a line, for at most `timeout` seconds."""
        assert child.stdout is not None
        if select.select([child.stdout], [], [], timeout)[0]:
            os.read(child.stdout.fileno(), len(line))

    def _finish(self, child: subprocess.Popen[bytes]) -> None:
        with child:
            try:
                code = child.wait(PATIENCE)
            except subprocess.TimeoutExpired:
                raise BrokenPromise(f"The last child hangs: {self._stderr_tail()}") from None
            finally:
                child.kill()
        if code:
            raise BrokenPromise(f"The last child failed: {self._stderr_tail()}")

    def _stderr_tail(self) -> str:
        return (self._folder / "stderr.log").read_text(encoding="utf-8")[-1500:]

    def _notes(self, generation: int) -> list[dict[str, Any]]:
        return read_notes(self._folder / f"notes-{generation:05}.log")

    def _audit(self, generation: int) -> None:
        """Check a copy of the file, so that the next child opens the file in the state in which the kill left it."""
        if not (self._folder / "runs.db").exists():
            return
        copy = self._folder / "copy"
        shutil.rmtree(copy, ignore_errors=True)
        copy.mkdir()
        for name in ("runs.db", "runs.db-wal"):
            if (self._folder / name).exists():
                shutil.copyfile(self._folder / name, copy / name)
        with SqliteSaver(copy / "runs.db") as saver:
            app = compile_app(self._scenario.shape, saver, DiscardedNotes())
            self._auditor.check_generation(generation, self._notes(generation), app, copy / "runs.db")


def execute(scenario: Scenario, folder: Path) -> tuple[Counter[str], str | None]:
    """Execute a scenario; return its counts and the broken promise, if any. The files are kept only in that case."""
    scenario_folder = folder / scenario.seed
    scenario_folder.mkdir()
    execution = Execution(scenario, scenario_folder)
    count = execution.run()
    if execution.broken_promise is None:
        shutil.rmtree(scenario_folder)
    return count, execution.broken_promise
