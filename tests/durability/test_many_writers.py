"""Two hundred concurrent runs on one thread: each is either refused without any effect or saves all its updates."""

import asyncio
import json
import os
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Annotated, Any, TypedDict

import pytest

from statewright import START, StateGraph, append
from statewright.clock import SystemClock
from statewright.errors import CheckpointConflict, ThreadBusy
from statewright.storage.sqlite import SqliteSaver

WRITERS = 200 if os.environ.get("STATEWRIGHT_FULL") == "1" else 60
PROCESSES = 4
SOON = 0.4
"""Seconds within which the second half of the runs begins."""
POLL = 0.01
"""Seconds between two polls of a busy thread."""
DURABILITIES = ("sync", "async", "exit")


class State(TypedDict, total=False):
    n: int
    log: Annotated[list[Any], append]


class HastyClock(SystemClock):
    """A clock with which waiting runs poll often; otherwise each may wait for half a second."""

    def wait(self, woken: threading.Event, seconds: float) -> None:
        super().wait(woken, min(seconds, POLL))

    def call_later(self, seconds: float, callback: Callable[[], object]) -> Any:
        return super().call_later(POLL if seconds < 1 else seconds, callback)


def app_on(saver: Any) -> Any:
    """A graph of two nodes that log the number of the run."""
    graph = StateGraph(State).add_node("first", lambda s: {"log": [["first", s["n"]]]})
    graph.add_node("second", lambda s: {"log": [["second", s["n"]]]})
    return graph.add_edge(START, "first").add_edge("first", "second").compile(saver, clock=HastyClock())


def write(app: Any, n: int, **options: Any) -> bool:
    """Run once; return whether the run was accepted."""
    try:
        app.invoke({"n": n, "log": [["in", n]]}, thread_id="1", **options)
    except (CheckpointConflict, ThreadBusy):
        return False
    return True


def change(app: Any, n: int) -> bool:
    """Update the state from outside; return whether the update was accepted."""
    try:
        app.update_state({"configurable": {"thread_id": "1"}}, {"log": [["changed", n]]}, as_node="second")
    except (CheckpointConflict, ThreadBusy):
        return False
    return True


def concurrently(function: Callable[[int], bool], count: int) -> list[int]:
    """Call the function on `count` OS threads, half of them soon after the others; return the accepted numbers."""
    ready = threading.Barrier(count)

    def call(n: int) -> bool:
        ready.wait()
        time.sleep(max(0, n - count // 2) / count * SOON)
        return function(n)

    with ThreadPoolExecutor(count) as pool:
        return [n for n, was_accepted in enumerate(pool.map(call, range(count))) if was_accepted]


def runs_in(log: Sequence[Sequence[Any]]) -> list[int]:
    """The runs in a log, whose updates must be complete and contiguous."""
    entries = [entry for entry in log if entry[0] != "changed"]
    assert [kind for kind, _ in entries] == ["in", "first", "second"] * (len(entries) // 3), entries
    assert all(len({n for _, n in entries[start : start + 3]}) == 1 for start in range(0, len(entries), 3))
    return [n for _, n in entries[::3]]


def check_history(app: Any) -> None:
    """Check that the checkpoints of the thread form one chain."""
    history = list(app.get_state_history(thread_id="1"))
    steps = [state.metadata["step"] for state in history]
    assert steps == sorted(set(steps), reverse=True)
    assert history[-1].parent_config is None
    assert [state.parent_config for state in history[:-1]] == [state.config for state in history[1:]]


@pytest.mark.parametrize("durability", DURABILITIES)
def test_concurrent_runs_are_refused_or_saved_completely(tmp_path: Path, durability: str) -> None:
    with SqliteSaver(tmp_path / "runs.db") as saver:
        app = app_on(saver)
        accepted = concurrently(lambda n: write(app, n, durability=durability), WRITERS)

        log = app.get_state(thread_id="1").values["log"]
        assert sorted(runs_in(log)) == accepted
        assert accepted
        check_history(app)


def test_concurrent_runs_and_state_updates_are_refused_or_saved(tmp_path: Path) -> None:
    with SqliteSaver(tmp_path / "runs.db") as saver:
        app = app_on(saver)
        write(app, -1)
        accepted = concurrently(lambda n: change(app, n) if n % 2 else write(app, n), WRITERS)

        log = app.get_state(thread_id="1").values["log"]
        assert sorted(runs_in(log)) == [-1, *(n for n in accepted if n % 2 == 0)]
        assert sorted(n for kind, n in log if kind == "changed") == [n for n in accepted if n % 2]
        check_history(app)


@pytest.mark.parametrize("durability", DURABILITIES)
def test_enqueued_runs_on_os_threads_are_all_saved(tmp_path: Path, durability: str) -> None:
    with SqliteSaver(tmp_path / "runs.db") as saver:
        app = app_on(saver)
        accepted = concurrently(lambda n: write(app, n, durability=durability, on_busy="enqueue"), WRITERS)

        assert accepted == list(range(WRITERS))
        assert sorted(runs_in(app.get_state(thread_id="1").values["log"])) == accepted
        check_history(app)


def test_enqueued_runs_on_one_event_loop_are_all_saved(tmp_path: Path) -> None:
    async def write_all(app: Any) -> None:
        inputs = [{"n": n, "log": [["in", n]]} for n in range(WRITERS)]
        await asyncio.gather(*(app.ainvoke(input_, thread_id="1", on_busy="enqueue") for input_ in inputs))

    with SqliteSaver(tmp_path / "runs.db") as saver:
        app = app_on(saver)
        asyncio.run(write_all(app))

        assert sorted(runs_in(app.get_state(thread_id="1").values["log"])) == list(range(WRITERS))
        check_history(app)


# -- several processes


def start_process(path: Path, first: int, on_busy: str) -> subprocess.Popen[str]:
    command = [sys.executable, __file__, str(path), str(first), on_busy]
    return subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)


def accepted_of(processes: Sequence[subprocess.Popen[str]]) -> list[int]:
    """Let the processes write at the same time; return the accepted runs."""
    for process in processes:
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
    for process in processes:
        assert process.stdin is not None
        process.stdin.write("go\n")
        process.stdin.flush()
    answers = [process.communicate(timeout=600)[0] for process in processes]
    assert [process.returncode for process in processes] == [0] * len(processes)
    return sorted(n for answer in answers for n in json.loads(answer))


@pytest.mark.parametrize("on_busy", ["reject", "enqueue"])
def test_runs_of_several_processes_are_refused_or_saved(tmp_path: Path, on_busy: str) -> None:
    share = WRITERS // PROCESSES
    with SqliteSaver(tmp_path / "runs.db") as saver:
        app = app_on(saver)
        processes = [start_process(saver.database.path, number * share, on_busy) for number in range(PROCESSES)]
        accepted = accepted_of(processes)

        assert sorted(runs_in(app.get_state(thread_id="1").values["log"])) == accepted
        assert accepted == list(range(WRITERS)) if on_busy == "enqueue" else accepted
        check_history(app)


def process_main(path: str, first: int, on_busy: str) -> None:
    """Print "ready", wait for a line, write, and print the accepted runs."""
    with SqliteSaver(path) as saver:
        app = app_on(saver)
        print("ready", flush=True)
        sys.stdin.readline()
        accepted = concurrently(lambda n: write(app, first + n, on_busy=on_busy), WRITERS // PROCESSES)
        print(json.dumps([first + n for n in accepted]))


if __name__ == "__main__":
    process_main(sys.argv[1], int(sys.argv[2]), sys.argv[3])
