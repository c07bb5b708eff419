"""A pool of processes: its workers, shared values, deaths and end."""

from __future__ import annotations

import os
import pickle
import queue
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, cast

import pytest
from tests.remote_functions import Pickled, is_running, marks

from statewright.errors import InvalidConfig, RemoteCallError, WorkerDied
from statewright.executors import ProcessExecutor
from statewright.executors.port import ChunkRequest, SharedValue

SECONDS = 60.0
ROOT = Path(__file__).parents[3]

needs_fork = pytest.mark.skipif(sys.platform != "linux", reason="reads /proc, and forks")


@pytest.fixture
def pool() -> Iterator[ProcessExecutor]:
    with ProcessExecutor(2) as pool:
        yield pool


def call(item: Any, effects: list[Any]) -> Any:
    """Do in a worker what an item says."""
    if item == "pid":
        return os.getpid()
    if item == "sleep":
        time.sleep(2 * SECONDS)
    if item == "exit":
        os._exit(3)
    if isinstance(item, tuple):
        return start_process(*cast("tuple[str, str, str]", item))
    if isinstance(item, list):  # of shared values
        item = cast("list[SharedValue]", item)
        return [value.get() is value.get() for value in item] + [type(value.get()).__name__ for value in item]
    raise ValueError(item)


def start_process(kind: str, then: str, folder: str) -> Any:
    """Start a process that inherits all it can and goes on for long; then exit, or block."""
    if kind == "fork":
        pid = os.fork()
        if pid == 0:
            time.sleep(2 * SECONDS)
            os._exit(0)
    else:
        command = [sys.executable, "-c", f"import time; time.sleep({2 * SECONDS})"]
        pid = subprocess.Popen(command, close_fds=False).pid
    (Path(folder) / "pid").write_text(f"{pid} ")
    if then == "exit":
        os._exit(3)
    time.sleep(2 * SECONDS)


def wait_until(condition: Callable[[], object]) -> None:
    until = time.monotonic() + SECONDS
    while not condition():
        assert time.monotonic() < until
        time.sleep(0.01)


def started_process(folder: Path) -> int:
    """Return the id of the process that a call has started, once it has."""
    file = folder / "pid"
    wait_until(lambda: file.exists() and file.read_text().endswith(" "))
    return int(file.read_text())


def values_of(end: bytes) -> list[Any]:
    return [pickle.loads(reply) for reply in pickle.loads(end).replies]


class Calls:
    """Chunks of a pool, and how they end."""

    def __init__(self, pool: ProcessExecutor) -> None:
        self.pool = pool
        self.function = pool.share(pool.dumps_function(call))
        self.ends: queue.SimpleQueue[Any] = queue.SimpleQueue()

    def submit(
        self,
        *items: Any,
        shared: tuple[SharedValue, ...] = (),
        on_begin: Callable[[], object] = lambda: None,
        **resources: float,
    ) -> ChunkRequest:
        request = ChunkRequest(
            function=self.function,
            payload=self.pool.dumps(list(items)),
            resources=resources,
            shared=shared,
            on_begin=on_begin,
            on_end=self.ends.put,
        )
        self.pool.submit(request)
        return request

    def values(self) -> list[Any]:
        """Return the values of the next chunk that ends."""
        return values_of(self.ends.get(timeout=SECONDS))


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


KINDS = pytest.mark.parametrize("kind", ["fork", "program"])


@needs_fork
@KINDS
def test_a_death_is_noticed_although_a_child_of_the_worker_lives_on(
    pool: ProcessExecutor, tmp_path: Path, kind: str
) -> None:
    calls = Calls(pool)
    calls.submit((kind, "exit", str(tmp_path)))
    assert "it exited with code 3" in str(calls.ends.get(timeout=SECONDS))
    calls.submit("pid")
    assert calls.values() == pool.worker_ids
    wait_until(lambda: not is_running(started_process(tmp_path)))


@needs_fork
@KINDS
def test_a_cancelled_call_ends_with_the_processes_that_it_has_started(tmp_path: Path, kind: str) -> None:
    with ProcessExecutor(1) as pool:
        calls = Calls(pool)
        request = calls.submit((kind, "block", str(tmp_path)))
        pid = started_process(tmp_path)
        pool.cancel(request)
        calls.submit("pid")
        assert calls.values() == pool.worker_ids
        wait_until(lambda: not is_running(pid))


@needs_fork
def test_closing_a_pool_ends_the_processes_of_its_nodes(tmp_path: Path) -> None:
    pool = ProcessExecutor(1)
    Calls(pool).submit(("program", "block", str(tmp_path)))
    pid = started_process(tmp_path)
    pool.close()
    wait_until(lambda: not is_running(pid))


@needs_fork
def test_a_worker_ends_with_its_parent_although_a_child_of_that_lives_on(tmp_path: Path) -> None:
    run_program(tmp_path, ORPHAN)
    child, worker, program = map(int, (tmp_path / "log").read_text().split())
    wait_until(lambda: not is_running(worker))
    wait_until(lambda: not is_running(program))
    assert is_running(child)
    os.kill(child, signal.SIGKILL)


def test_a_worker_whose_call_was_cancelled_gets_no_further_call(pool: ProcessExecutor) -> None:
    calls = Calls(pool)
    sleeping = calls.submit("sleep")

    def cancel_and_submit() -> None:  # on the manager, which cannot have seen the death before it assigns the next call
        pool.cancel(sleeping)
        calls.submit("pid")

    calls.submit("pid", on_begin=cancel_and_submit)
    first, second = calls.values(), calls.values()
    assert {*first, *second} <= {*pool.worker_ids}


def test_a_worker_that_dies_while_it_is_idle_is_replaced(pool: ProcessExecutor) -> None:
    calls = Calls(pool)
    calls.submit("pid")
    (pid,) = calls.values()
    os.kill(pid, signal.SIGKILL)
    values: list[Any] = []
    while not values:  # the pool may give the next chunk to the worker before it notices; a dispatcher repeats it
        calls.submit("pid")
        end = calls.ends.get(timeout=SECONDS)
        values = [] if isinstance(end, WorkerDied) else values_of(end)
    assert values != [pid]


def test_a_chunk_that_cannot_be_loaded_fails_with_the_error_of_the_worker(pool: ProcessExecutor) -> None:
    calls = Calls(pool)
    calls.function = pool.share(b"cnowhere\nfunction\n.")
    calls.submit("pid")
    assert isinstance(calls.ends.get(timeout=SECONDS), ModuleNotFoundError)


def test_closing_a_pool_ends_its_processes_and_fails_calls_in_progress() -> None:
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
ORPHAN = """
import os, pathlib, subprocess, sys, threading, time
from statewright.executors import ProcessExecutor, RemoteFunction
from tests.unit.executors.test_process_pool import SECONDS, start_process, started_process

if __name__ == "__main__":
    import asyncio
    folder = pathlib.Path(__file__).parent
    log = os.open(folder / "log", os.O_CREAT | os.O_WRONLY)
    os.dup2(log, 1)  # so that the test does not wait for the end of the child
    os.dup2(log, 2)
    function = RemoteFunction(start_process, ProcessExecutor(1))
    threading.Thread(target=lambda: asyncio.run(function("program", "block", str(folder))), daemon=True).start()
    program = started_process(folder)
    child = os.fork()
    if child == 0:
        time.sleep(2 * SECONDS)
        os._exit(0)
    parent_of_program = int(pathlib.Path(f"/proc/{program}/stat").read_text().rpartition(")")[2].split()[1])
    print(child, parent_of_program, program, flush=True)
    os._exit(0)
"""

BROKEN = """
import asyncio, pathlib, sys
from statewright.executors import ProcessExecutor, RemoteFunction
from tests import remote_functions as nodes

async def main():
    double = RemoteFunction(nodes.double, ProcessExecutor(1))
    return await asyncio.gather(*map(double, range(300)), return_exceptions=True)

if __name__ == "__main__":
    print(*{type(error).__name__ for error in asyncio.run(main())})
else:
    with (pathlib.Path(__file__).parent / "starts").open("a") as file:
        file.write("x")
    sys.exit(5)
"""
DAEMONIC = """
import multiprocessing
from statewright import START, StateGraph
from tests import remote_functions as nodes

app = StateGraph(nodes.Numbers).add_node("n", nodes.count, executor="process").add_edge(START, "n").compile()

def use():
    for _ in range(2):
        try:
            app.invoke({"items": [1]})
        except Exception as error:
            print(type(error).__name__, error, flush=True)

if __name__ == "__main__":
    process = multiprocessing.get_context("spawn").Process(target=use, daemon=True)
    process.start()
    process.join()
"""
ERROR_OF_SCRIPT = """
import asyncio
from statewright.executors import ProcessExecutor, RemoteFunction

class Failure(Exception):
    def __init__(self):
        super().__init__("failed")
        self.callback = lambda: None  # cannot be pickled

def fail():
    raise Failure

if __name__ == "__main__":
    try:
        asyncio.run(RemoteFunction(fail, ProcessExecutor(1))())
    except Failure as error:
        print(type(error) is Failure, error)
"""
FORK = """
import asyncio, os, sys
from tests import remote_functions as nodes
from statewright import START, StateGraph
from statewright.executors import RemoteFunction

app = StateGraph(nodes.Numbers).add_node("n", nodes.count, executor="process").add_edge(START, "n").compile()
double = RemoteFunction(nodes.double)

def use_both(name):
    print(name, app.invoke({"items": [1]})["results"], asyncio.run(double(4)), flush=True)

if __name__ == "__main__":
    use_both("parent")
    child = os.fork()
    use_both("child" if child == 0 else "parent")
    if child:
        print("status", os.waitpid(child, 0)[1])
"""


def run_program(tmp_path: Path, code: str) -> subprocess.CompletedProcess[str]:
    script = tmp_path / "program.py"
    script.write_text(code)
    environment = {**os.environ, "PYTHONPATH": f"{ROOT}{os.pathsep}{ROOT / 'src'}"}
    return subprocess.run(
        [sys.executable, str(script)], env=environment, capture_output=True, text=True, timeout=120, check=False
    )


def test_a_program_ends_although_its_pool_was_not_closed(tmp_path: Path) -> None:
    done = run_program(tmp_path, PROGRAM.format(guard="if __name__ == '__main__':\n    "))
    assert (done.returncode, done.stdout) == (0, "[1]\n"), done.stderr


def test_a_program_without_a_main_guard_fails_with_advice(tmp_path: Path) -> None:
    done = run_program(tmp_path, PROGRAM.format(guard=""))
    assert done.returncode != 0
    assert "if __name__ == '__main__':" in done.stderr
    assert "RemoteCallError" in done.stderr


def test_workers_that_cannot_start_are_not_started_again_for_each_call(tmp_path: Path) -> None:
    done = run_program(tmp_path, BROKEN)
    assert done.stdout == "RemoteCallError\n", done.stderr
    assert len((tmp_path / "starts").read_text()) < 20


def test_a_daemonic_process_is_told_that_it_may_have_no_children(tmp_path: Path) -> None:
    lines = run_program(tmp_path, DAEMONIC).stdout.splitlines()
    assert len(lines) == 2
    for line in lines:
        assert "RemoteCallError A worker process could not be started: AssertionError: daemonic" in line


def test_an_error_of_the_script_itself_keeps_its_class(tmp_path: Path) -> None:
    done = run_program(tmp_path, ERROR_OF_SCRIPT)
    assert done.stdout == "True failed\n", done.stderr


@needs_fork
def test_what_a_program_has_used_before_it_forks_can_be_used_in_both_processes(tmp_path: Path) -> None:
    done = run_program(tmp_path, FORK)
    assert sorted(done.stdout.splitlines()) == ["child [1] 8", "parent [1] 8", "parent [1] 8", "status 0"], done.stderr
    assert done.stderr == ""


def test_importing_statewright_loads_neither_multiprocessing_nor_executors() -> None:
    code = "import sys, statewright.runtime; print(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert not {"multiprocessing", "ray", "statewright.executors"} & set(done.stdout.split())
