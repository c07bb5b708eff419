"""Processes that answer the same questions on the same threads, while some are killed and some are stopped.

    python -m tests.durability.rivals --kills 500 --seed 1

Three processes, each with its own saver on one SQLite file, read the same threads and advance them: they pass the first
input, answer a question, resume. Each signs its answers. The parent kills one of them with SIGKILL and starts another
in its place, or stops one at a random moment with SIGSTOP for longer than its lease, and then continues it. At the end
the parent compares the threads with a log outside the database (`effects_log`):

- A question has one answer, which a process has sent, and which was not refused. If an answer was accepted, it is that
  one.
- A recorded effect is not started again; an unrecorded one is executed twice only after a kill, a stop, or a lease that
  was not renewed in time.
- A process gets no error except that another process holds the thread.
- Every thread ends, and no living process holds one.
"""

from __future__ import annotations

import argparse
import asyncio
import fcntl
import itertools
import random
import signal
import subprocess
import sys
import tempfile
import time
import traceback
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any, Final, TypedDict

from tests.durability.effects_log import EffectsLog, Line, LogReader, read_lines, tokens, violations

from statewright import END, START, Command, Runtime, StateGraph, append, interrupt
from statewright.checkpoint import is_holder_gone
from statewright.errors import InvalidResume, LeaseLost, ThreadBusy, UnansweredInterrupts
from statewright.storage.sqlite import SqliteSaver

ROOT: Final = Path(__file__).resolve().parents[2]
RIVALS: Final = 3
THREADS: Final = 4
"""Threads that are advanced together; when all have ended, the next generation of threads is started."""
ROUNDS: Final = 3
"""Questions of a thread."""
LEASE: Final = 0.6
"""Seconds."""
STOP: Final = 2.5 * LEASE
"""Seconds for which a process is stopped, so that its lease expires."""
PATIENCE: Final = 600.0
"""Seconds without progress after which a process is considered stuck."""


class State(TypedDict, total=False):
    round: int
    log: Annotated[list[Any], append]


def graph_of(log: EffectsLog, dawdle: Callable[[], None]) -> StateGraph:
    """Return a graph that asks a question each round, with a concurrent effect and an effect after the answer."""

    def ask(state: State, runtime: Runtime[Any]) -> dict[str, Any]:
        number = state.get("round", 0)
        answer = interrupt({"round": number})
        return {"log": [["answer", f"{runtime.execution_info.thread_id}/{number}", answer]]}

    def sibling(state: State, runtime: Runtime[Any]) -> dict[str, Any]:
        key = f"{runtime.execution_info.thread_id}/{state.get('round', 0)}/sibling"
        return {"log": [["effect", key, log.perform(runtime, key, dawdle)]]}

    async def after(state: State, runtime: Runtime[Any]) -> dict[str, Any]:
        number = state.get("round", 0)
        key = f"{runtime.execution_info.thread_id}/{number}/after"
        await asyncio.sleep(0.01)
        return {"round": number + 1, "log": [["effect", key, log.perform(runtime, key, dawdle)]]}

    graph = StateGraph(State).add_node(ask).add_node(sibling).add_node(after)
    graph.add_edge(START, "ask").add_edge(START, "sibling").add_edge(["ask", "sibling"], "after")
    graph.add_node("again", lambda state: Command(goto=["ask", "sibling"] if state["round"] < ROUNDS else END))
    return graph.add_edge("after", "again")


# -- the processes


class Rival:
    """A process that advances the threads until it is killed, or until the parent ends the contest."""

    def __init__(self, folder: Path, name: str) -> None:
        self._rng = random.Random(name)
        self._folder = folder
        self._name = name
        self._log = EffectsLog(folder / "effects.log")
        self._answers = itertools.count()
        self._saver = SqliteSaver(folder / "runs.db", lease=LEASE)
        self._app = graph_of(self._log, self._dawdle).compile(self._saver)

    def run(self) -> None:
        try:
            for generation in itertools.count(self._last_generation()):
                while not self._is_over(generation):
                    for number in self._rng.sample(range(THREADS), THREADS):
                        self._advance(f"{generation}-{number}")
                if (self._folder / "end").exists() and self._last_generation() == generation:
                    break
        except BaseException:
            self._log.write("failed", traceback.format_exc())
            raise
        finally:
            self._saver.close()

    def _last_generation(self) -> int:
        """Return the number of the newest generation of threads; all older ones have ended."""
        return max((int(entry.thread_id.partition("-")[0]) for entry in self._app.threads()), default=0)

    def _dawdle(self) -> None:
        time.sleep(self._rng.random() * 0.03)

    def _is_over(self, generation: int) -> bool:
        return all(self._has_ended(self._app.get_state(thread_id=f"{generation}-{n}")) for n in range(THREADS))

    def _has_ended(self, state: Any) -> bool:
        return state.created_at is not None and not state.next

    def _advance(self, thread: str) -> None:
        state = self._app.get_state(thread_id=thread)
        if self._has_ended(state):
            return
        if state.created_at is None:
            self._start(thread)
            return
        if not state.interrupts:
            self._call(thread, None)
            return
        [question] = state.interrupts
        key, answer = f"{thread}/{question.value['round']}/question", f"{self._name}-{next(self._answers)}"
        self._log.write("sent", key, token=answer)
        outcome = self._call(thread, Command(resume={question.id: answer}))
        self._log.write(outcome, key, token=answer)

    def _start(self, thread: str) -> None:
        """Pass the first input, unless another process has done so: a second input would start the thread again.

        The file lock of a killed process is released by the operating system.
        """
        with (self._folder / f"{thread}.begun").open("w") as file:
            fcntl.flock(file, fcntl.LOCK_EX)
            if self._app.get_state(thread_id=thread).created_at is None:
                self._call(thread, {"round": 0})

    def _call(self, thread: str, value: Any) -> str:
        """Invoke the graph, and return the outcome: `accepted`, `refused`, or `fenced` if the outcome is unknown."""
        try:
            if self._rng.random() < 0.5:
                self._app.invoke(value, thread_id=thread, on_busy=self._rng.choice(["reject", "enqueue"]))
            else:
                asyncio.run(self._app.ainvoke(value, thread_id=thread))
        except (InvalidResume, ThreadBusy, UnansweredInterrupts):
            return "refused"
        except LeaseLost:  # this process was stopped, or late on a busy machine, and another one has taken over
            self._log.write("late")
            return "fenced"
        return "accepted"


# -- the parent


@dataclass
class Contest:
    """A file, the processes that compete on it, and their kills and stops."""

    folder: Path
    kills: int
    seed: int
    stops: int = 0
    answers: Counter[str] = field(default_factory=Counter)
    """The numbers of answers by outcome; see `Rival._call`."""
    rivals: list[subprocess.Popen[bytes]] = field(default_factory=list)

    def __post_init__(self) -> None:
        self._reader = LogReader(self.folder / "effects.log")

    def run(self) -> None:
        rng, log = random.Random(self.seed), EffectsLog(self.folder / "effects.log")
        numbers = itertools.count()
        self.rivals = [self._start(next(numbers)) for _ in range(RIVALS)]
        kill_count = 0
        while kill_count < self.kills:
            self._await_effects(rng.randrange(1, 8))
            index = rng.randrange(RIVALS)
            rival = self.rivals[index]
            if kill_count % 4 == 3 and self.stops <= kill_count // 4:
                self.stops += 1
                log.write("stopped", pid=rival.pid)
                rival.send_signal(signal.SIGSTOP)
                time.sleep(STOP)
                rival.send_signal(signal.SIGCONT)
                continue
            log.write("killed", pid=rival.pid)
            rival.kill()
            rival.wait()
            kill_count += 1
            self.rivals[index] = self._start(next(numbers))
        (self.folder / "end").touch()
        for rival in self.rivals:
            assert rival.wait(PATIENCE) == 0, self._stderr_tail()
        self.check()

    def _start(self, number: int) -> subprocess.Popen[bytes]:
        command = [sys.executable, "-m", "tests.durability.rivals", "--rival", f"r{number}", str(self.folder)]
        with (self.folder / "errors.log").open("ab") as errors:
            return subprocess.Popen(command, cwd=ROOT, stdout=errors, stderr=errors)

    def _stderr_tail(self) -> str:
        return (self.folder / "errors.log").read_text()[-4000:]

    def _await_effects(self, count: int) -> None:
        """Wait for a number of further lines in the log, so that there is progress between kills on any machine."""
        deadline = time.monotonic() + PATIENCE
        self._reader.read_new()
        while count > 0:
            lines = self._reader.read_new()
            count -= len(lines)
            assert not [line for line in lines if line.kind == "failed"], self._stderr_tail()
            assert all(rival.poll() is None for rival in self.rivals), self._stderr_tail()
            assert time.monotonic() < deadline, f"There is no more progress. {self._stderr_tail()}"
            time.sleep(0.01)

    def check(self) -> None:
        lines = read_lines(self.folder / "effects.log")
        failures = [line.key for line in lines if line.kind == "failed"]
        assert not failures, failures[0]
        self.answers = Counter(
            line.kind for line in lines if line.kind in ("accepted", "refused", "fenced") and line.token
        )
        kinds = ("begin", "effect", "recorded", "killed", "stopped", "late")
        effect_lines = [line for line in lines if line.kind in kinds]
        assert not violations(effect_lines), violations(effect_lines)
        with SqliteSaver(self.folder / "runs.db") as saver:
            app = graph_of(EffectsLog(self.folder / "unused.log"), lambda: None).compile(saver)
            states = [app.get_state(thread_id=entry.thread_id) for entry in app.threads()]
            leases = [saver.lease(entry.thread_id) for entry in app.threads()]
        assert not [state for state in states if state.next], [state for state in states if state.next]
        # A process that was killed between the first and the last write of a run has left its lease behind.
        assert not [lease for lease in leases if lease is not None and not is_holder_gone(lease.owner)]
        entries = {(kind, key): value for state in states for kind, key, value in state.values["log"]}
        count = sum(len(state.values["log"]) for state in states)
        assert count == len(entries) == len(states) * ROUNDS * 3, "an entry was written twice, or is missing"
        check_answers(lines, {key: value for (kind, key), value in entries.items() if kind == "answer"})
        executed = tokens(effect_lines)
        assert all(value in executed[key] for (kind, key), value in entries.items() if kind == "effect")


def check_answers(lines: Sequence[Line], answers: dict[str, str]) -> None:
    """Check that each question has one answer, which was sent and not refused, and that no other was accepted."""
    for key, answer in answers.items():
        by_kind = {kind: set[str]() for kind in ("sent", "accepted", "refused", "fenced")}
        for line in lines:
            if line.key == f"{key}/question" and line.kind in by_kind:
                by_kind[line.kind].add(line.token)
        assert answer in by_kind["sent"], f"{key} was answered by {answer}, which no process has sent"
        assert answer not in by_kind["refused"], f"{key} was answered by {answer}, which was refused"
        assert by_kind["accepted"] <= {answer}, (
            f"{key} was answered by {answer}, and not by the accepted {by_kind['accepted']}"
        )


def compete(kills: int, seed: int) -> Contest:
    """Run a contest. Raises AssertionError if an invariant was violated."""
    with tempfile.TemporaryDirectory(prefix="rivals-") as folder:
        contest = Contest(Path(folder), kills, seed)
        try:
            contest.run()
        finally:
            for rival in contest.rivals:
                if rival.poll() is None:
                    rival.kill()
                rival.wait()
        return contest


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--kills", type=int, default=500)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--rival", nargs=2, metavar=("NAME", "FOLDER"))
    options = parser.parse_args()
    if options.rival is not None:
        name, folder = options.rival
        Rival(Path(folder), name).run()
        return
    started_at = time.monotonic()
    contest = compete(options.kills, options.seed)
    answers = ", ".join(f"{count} {kind}" for kind, count in contest.answers.items())
    print(
        f"{options.kills} kills and {contest.stops} stops, answers {answers}, 0 broken promises; "
        f"{time.monotonic() - started_at:.0f} s."
    )


if __name__ == "__main__":
    main()
