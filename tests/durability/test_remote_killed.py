"""Nodes in other processes when a process is killed: the driver, a machine of a Ray cluster, a task without memory.

The death of a single worker is tested in `tests/semantics/test_remote_nodes.py`.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from tests import remote_functions as nodes
from tests.durability.remote_driver import COUNT, build
from tests.ray_cluster import OPTIONS, needs_ray, own_cluster, prepare_environment
from tests.remote_functions import Numbers, is_running, marks

from statewright import START, Send, StateGraph
from statewright.errors import WorkerDied
from statewright.executors import ProcessExecutor, RayExecutor

pytestmark = pytest.mark.filterwarnings("ignore::Warning:ray", "ignore::ResourceWarning", "ignore::FutureWarning")
SECONDS = 120.0


def wait_until(condition: Callable[[], object]) -> None:
    deadline = time.monotonic() + SECONDS
    while not condition():
        assert time.monotonic() < deadline, "the condition was not met in time"
        time.sleep(0.02)


def marked(folder: Path) -> dict[int, list[int]]:
    return {number: pids for number in range(COUNT) if (pids := marks(folder, number))}


@pytest.mark.parametrize("kind", ["process", pytest.param("ray", marks=[needs_ray, pytest.mark.full])])
def test_after_the_driver_was_killed_only_calls_without_a_saved_result_are_repeated(tmp_path: Path, kind: str) -> None:
    command = [sys.executable, "-m", "tests.durability.remote_driver", str(tmp_path), kind]
    with subprocess.Popen(command, cwd=Path(__file__).parents[2], stderr=subprocess.DEVNULL) as driver:
        wait_until(lambda: len(marked(tmp_path)) == COUNT)
        with ProcessExecutor(1) as pool:
            app = build(tmp_path, pool)
            wait_until(lambda: len(app.checkpointer.load("t").pending.completed) == COUNT - 1)
            driver.send_signal(signal.SIGKILL)
            driver.wait()
            app.checkpointer.close()
    pids = {pid for marks_of_item in marked(tmp_path).values() for pid in marks_of_item}
    wait_until(lambda: not any(map(is_running, pids)))  # workers do not outlive their driver

    (tmp_path / "go").touch()
    with ProcessExecutor(2) as pool:
        app = build(tmp_path, pool)
        result = app.invoke(None, thread_id="t", on_busy="enqueue")
        app.checkpointer.close()
    assert result["results"] == list(range(COUNT))
    repeated = [number for number, pids in marked(tmp_path).items() if len(pids) > 1]
    assert repeated == [0]


# -- faults of a Ray cluster. The cluster of several machines is simulated by processes on this one.


@pytest.fixture
def cluster() -> Iterator[Any]:
    """Yield a cluster with one machine that has no processors for tasks."""
    with own_cluster(num_cpus=0) as cluster:
        yield cluster


def fan_out(function: Any, executor: Any) -> Any:
    graph = StateGraph(Numbers).add_node("begin", lambda state: None)
    graph.add_node("work", function, executor="ray").add_edge(START, "begin")
    graph.add_conditional_edges("begin", lambda state: [Send("work", item) for item in state["items"]], ["work"])
    return graph.compile(executors={"ray": executor})


@pytest.mark.full
@needs_ray
def test_a_fan_out_survives_the_death_of_a_machine(cluster: Any, tmp_path: Path) -> None:
    machines = [cluster.add_node(num_cpus=1) for _ in range(2)]
    cluster.wait_for_nodes()
    options = {name: value for name, value in OPTIONS.items() if name in ("logging_level", "log_to_driver")}
    executor = RayExecutor(cluster.address, init=options)
    results: list[Any] = []
    app = fan_out(nodes.wait_at_the_start, executor)
    numbers = [(str(tmp_path), number) for number in range(10_000)]
    run = threading.Thread(target=lambda: results.append(app.invoke({"items": numbers})["results"]))
    run.start()
    wait_until(lambda: len(set(marks(tmp_path, "begun"))) == 2)  # calls are in progress on both machines
    cluster.remove_node(machines[0], allow_graceful=False)
    (tmp_path / "go").touch()
    run.join(SECONDS)
    assert results == [list(range(10_000))]


@pytest.mark.full
@needs_ray
def test_a_ray_task_that_is_killed_for_memory_is_sent_again_and_then_fails(tmp_path: Path) -> None:
    """The memory monitor of Ray kills a worker as the system does; it is made to find every task too large."""
    script = tmp_path / "program.py"
    script.write_text(OUT_OF_MEMORY)
    prepare_environment()
    environment = {**os.environ, "RAY_memory_usage_threshold": "0.0", "RAY_memory_monitor_refresh_ms": "100"}
    command = [sys.executable, str(script), str(tmp_path)]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=SECONDS, check=False)
    assert "WorkerDied" in done.stdout, done.stdout + done.stderr
    assert "OutOfMemoryError" in done.stdout
    assert "died 2 times" in done.stdout


OUT_OF_MEMORY = """
import sys
from tests import remote_functions as nodes
from tests.durability.test_remote_killed import fan_out
from tests.ray_cluster import OPTIONS
from statewright.errors import WorkerDied
from statewright.executors import RayExecutor

try:
    fan_out(nodes.block, RayExecutor("local", init=OPTIONS, max_resubmissions=1)).invoke({"items": [(sys.argv[1], 0)]})
except WorkerDied as error:
    print(type(error).__name__, error)
"""


def test_a_killed_worker_is_reported_with_its_signal(tmp_path: Path) -> None:
    with (
        ProcessExecutor(1, max_resubmissions=0) as pool,
        pytest.raises(WorkerDied, match="it was killed by signal 9"),
    ):
        fan_out(nodes.die_always, pool).invoke({"items": [(str(tmp_path), 3)]})
