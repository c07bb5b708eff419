"""Ray for tests: one small cluster on the loopback interface for each process of the tests.

Ray is large and not among the development dependencies. Without it, tests with Ray are skipped, unless CI=true says
that they must run.
"""

from __future__ import annotations

import atexit
import os
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

HAS_RAY = find_spec("ray") is not None
ADDRESS = "127.0.0.1"

needs_ray = pytest.mark.skipif(
    not HAS_RAY and os.environ.get("CI") != "true", reason="Ray is not installed: pip install 'statewright[ray]'"
)


def prepare_environment() -> None:
    """Set the variables that Ray reads when it is imported and when it starts processes."""
    os.environ["RAY_USAGE_STATS_ENABLED"] = "0"
    os.environ.setdefault("RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO", "0")
    os.environ.setdefault("RAY_worker_niceness", "0")  # 15 is the default, which leaves nothing on a busy machine
    root = str(Path(__file__).parents[1])
    paths = [root, str(Path(root) / "src"), *filter(None, [os.environ.get("PYTHONPATH")])]
    os.environ["PYTHONPATH"] = os.pathsep.join(dict.fromkeys(paths))


OPTIONS: dict[str, Any] = {
    "num_cpus": 2,
    "include_dashboard": False,
    "logging_level": "ERROR",
    "log_to_driver": False,
    "_node_ip_address": ADDRESS,
}


@cache
def shared_executor() -> Any:
    """Return an executor that is connected to the cluster of this process."""
    prepare_environment()
    import ray

    from statewright.executors import RayExecutor

    ray.init("local", **OPTIONS)  # not the cluster of another worker process
    atexit.register(ray.shutdown)
    return RayExecutor(max_resubmissions=2)


@contextmanager
def own_cluster(**head: Any) -> Iterator[Any]:
    """Run a cluster for one test, whose machines are processes on this one. `head` are arguments of its head node."""
    prepare_environment()
    import ray
    from ray.cluster_utils import Cluster

    ray.shutdown()  # of the cluster that other tests share
    cluster = Cluster(initialize_head=True, head_node_args={"include_dashboard": False, **head})
    try:
        yield cluster
    finally:
        ray.shutdown()
        cluster.shutdown()
        shared_executor.cache_clear()
