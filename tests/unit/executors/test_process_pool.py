"""A pool of processes: its workers, shared values, deaths and end."""

from __future__ import annotations

import os
import pickle
import queue
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.remote_functions import Pickled, marks

from statewright.errors import InvalidConfig, RemoteCallError, WorkerDied
from statewright.executors import ProcessExecutor
from statewright.executors.port import ChunkRequest, SharedValue

SECONDS = 60.0
ROOT = Path(__file__).parents[3]


@pytest.fixture
def pool() -> Iterator[ProcessExecutor]:
    with ProcessExecutor(2) as pool:
        yield pool


def call(item: Any, effects: list[Any]) -> Any:
    """Do in a worker what an item says."""
    if item == "pid":
        return os.getpid()
    if item == "exit":
        os._exit(3)
    if item == "environment":
        return sys.flags.no_user_site
    if isinstance(item, list):  # of shared values
        return [value.get() is value.get() for value in item] + [type(value.get()).__name__ for value in item]
    raise ValueError(item)


class Calls:
    """Chunks of a pool, and how they end."""

    def __init__(self, pool: ProcessExecutor) -> None:
        self.pool = pool
        self.function = pool.share(pool.dumps_function(call))
        self.ends: queue.SimpleQueue[Any] = queue.SimpleQueue()

    def submit(self, *items: Any, shared: tuple[SharedValue, ...] = (), **resources: float) -> ChunkRequest:
        request = ChunkRequest(
            function=self.function,
            payload=self.pool.dumps(list(items)),
            resources=resources,
            shared=shared,
            on_begin=lambda: None,
            on_end=self.ends.put,
        )
        self.pool.submit(request)
        return request

    def values(self) -> list[Any]:
        """Return the values of the next chunk that ends."""
        return [reply.value for reply in pickle.loads(self.ends.get(timeout=SECONDS)).replies]


def test_no_process_is_started_before_it_is_needed(pool: ProcessExecutor) -> None:
    assert pool.worker_ids == []
    calls = Calls(pool)
    calls.submit("pid")
    assert calls.values() == pool.worker_ids


def test_a_worker_receives_a_shared_value_once_and_copies_it_for_each_use(
    pool: ProcessExecutor, tmp_path: Path
) -> None:
    with ProcessExecutor(1) as single:
        calls = Calls(single)
        value = single.share(Pickled(str(tmp_path)))
        for _ in range(3):
            calls.submit([value], shared=(value,))
            assert calls.values() == [[False, "Pickled"]]
    assert len(marks(tmp_path, "pickled")) == 1


def test_a_shared_value_that_is_not_needed_is_not_pickled(pool: ProcessExecutor, tmp_path: Path) -> None:
    calls = Calls(pool)
    value = pool.share(Pickled(str(tmp_path)))
    calls.submit("pid", shared=(value,))
    calls.values()
    assert marks(tmp_path, "pickled") == []


def test_a_worker_that_exits_is_reported_with_its_code_and_replaced(pool: ProcessExecutor) -> None:
    calls = Calls(pool)
    calls.submit("exit")
    error = calls.ends.get(timeout=SECONDS)
    assert isinstance(error, WorkerDied)
    assert "it exited with code 3" in str(error)
    calls.submit("pid")
    assert calls.values() == pool.worker_ids


def test_a_worker_that_dies_while_it_is_idle_is_replaced(pool: ProcessExecutor) -> None:
    calls = Calls(pool)
    calls.submit("pid")
    (pid,) = calls.values()
    os.kill(pid, signal.SIGKILL)
    values: list[Any] = []
    while not values:  # the pool may give the next chunk to the worker before it notices; a dispatcher repeats it
        calls.submit("pid")
        end = calls.ends.get(timeout=SECONDS)
        values = [] if isinstance(end, WorkerDied) else [reply.value for reply in pickle.loads(end).replies]
    assert values != [pid]


def test_a_chunk_that_cannot_be_loaded_fails_with_the_error_of_the_worker(pool: ProcessExecutor) -> None:
    calls = Calls(pool)
    calls.function = pool.share(b"cnowhere\nfunction\n.")
    calls.submit("pid")
    assert isinstance(calls.ends.get(timeout=SECONDS), ModuleNotFoundError)


def test_closing_a_pool_ends_its_processes_and_fails_what_is_in_progress() -> None:
    pool = ProcessExecutor(1)
    calls = Calls(pool)
    calls.submit("pid")
    (pid,) = calls.values()
    pool.close()
    with pytest.raises(ProcessLookupError):
        os.kill(pid, 0)
    with pytest.raises(RemoteCallError, match="was closed"):
        calls.submit("pid")


def test_a_chunk_that_needs_two_processors_counts_as_two(pool: ProcessExecutor) -> None:
    assert pool.capacity({}) == 2
    assert pool.capacity({"cpu": 2}) == 1
    assert list(pool.find_problems({"cpu": 3})) == ["it needs 3 processors, and the pool has 2 workers"]


@pytest.mark.parametrize("options", [{"max_workers": 0}, {"max_workers": 1.5}, {"max_resubmissions": -1}])
def test_wrong_options_are_refused(options: dict[str, Any]) -> None:
    with pytest.raises(InvalidConfig, match="Pass an integer"):
        ProcessExecutor(**options)


PROGRAM = """
from tests import remote_functions as nodes
from statewright import START, StateGraph

app = StateGraph(nodes.Numbers).add_node("n", nodes.count, executor="process").add_edge(START, "n").compile()
{guard}print(app.invoke({{"items": [1]}})["results"])
"""


def run_program(tmp_path: Path, guard: str) -> subprocess.CompletedProcess[str]:
    script = tmp_path / "program.py"
    script.write_text(PROGRAM.format(guard=guard))
    environment = {**os.environ, "PYTHONPATH": f"{ROOT}{os.pathsep}{ROOT / 'src'}"}
    return subprocess.run(
        [sys.executable, str(script)], env=environment, capture_output=True, text=True, timeout=120, check=False
    )


def test_a_program_ends_although_its_pool_was_not_closed(tmp_path: Path) -> None:
    done = run_program(tmp_path, "if __name__ == '__main__':\n    ")
    assert (done.returncode, done.stdout) == (0, "[1]\n"), done.stderr


def test_a_program_without_a_main_guard_fails_with_advice(tmp_path: Path) -> None:
    done = run_program(tmp_path, "")
    assert done.returncode != 0
    assert "if __name__ == '__main__':" in done.stderr
    assert "RemoteCallError" in done.stderr


def test_importing_statewright_loads_neither_multiprocessing_nor_executors() -> None:
    code = "import sys, statewright.runtime; print(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert not {"multiprocessing", "ray", "statewright.executors"} & set(done.stdout.split())
