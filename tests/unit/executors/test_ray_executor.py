"""The settings of a RayExecutor. What it executes is tested with the pool of processes, in `tests/semantics`."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from tests.ray_cluster import HAS_RAY, needs_ray, shared_executor

from statewright import START, StateGraph
from statewright.errors import InvalidConfig, MissingLibrary
from statewright.executors import RayExecutor


@pytest.mark.skipif(HAS_RAY, reason="Ray is installed")
def test_without_ray_the_error_names_the_extra() -> None:
    with pytest.raises(MissingLibrary, match=r"pip install 'statewright\[ray\]'"):
        RayExecutor()
    graph = StateGraph(dict).add_node("n", lambda state: None, executor="ray").add_edge(START, "n")
    with pytest.raises(MissingLibrary, match=r"pip install 'statewright\[ray\]'"):
        graph.compile()


@pytest.mark.parametrize("option", ["num_cpus", "num_gpus", "resources", "max_retries"])
def test_options_that_belong_to_nodes_are_refused(option: str) -> None:
    with pytest.raises(InvalidConfig, match=rf"options= has {option}\. Give the resources to the nodes"):
        RayExecutor(options={option: 1})


TWO_SESSIONS = """
import asyncio, os
from tests import ray_cluster
ray_cluster.prepare_environment()
import ray
from statewright.executors import RayExecutor, RemoteFunction
from statewright.executors.ray_executor import INLINE_BYTES

class Large:
    def __init__(self):
        self.data = os.urandom(2 * INLINE_BYTES)

    def __call__(self, number):
        return len(self.data) + number

if __name__ == "__main__":
    large, small = (RemoteFunction(function, RayExecutor()) for function in (Large(), abs))
    for number in range(2):
        ray.init("local", **ray_cluster.OPTIONS)
        print(asyncio.run(large(number)) - 2 * INLINE_BYTES, asyncio.run(small(-number)), flush=True)
        ray.shutdown()
"""


@needs_ray
@pytest.mark.full
def test_a_program_may_connect_to_another_cluster(tmp_path: Path) -> None:
    script = tmp_path / "program.py"
    script.write_text(TWO_SESSIONS)
    root = Path(__file__).parents[3]
    environment = {**os.environ, "PYTHONPATH": f"{root}{os.pathsep}{root / 'src'}"}
    done = subprocess.run(
        [sys.executable, str(script)], env=environment, capture_output=True, text=True, timeout=300, check=False
    )
    assert done.stdout == "0 0\n1 1\n", done.stderr


@needs_ray
@pytest.mark.filterwarnings("ignore::Warning:ray")
def test_the_capacity_is_that_of_the_cluster() -> None:
    executor = shared_executor()
    assert executor.capacity({}) == 2
    assert executor.capacity({"cpu": 0.5}) == 4
    assert executor.capacity({"cpu": 2}) == 1
    assert executor.capacity({"gpu": 1}) == 1  # a cluster may grow, so one chunk waits for it
