"""`statewright worker --ray` on a real cluster: workers come and go, are killed, and no run is lost."""

from __future__ import annotations

import json
import os
import signal
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any
from urllib.request import urlopen

import pytest
from tests.integration.cli_server import PATIENCE, ServerProcess, serving
from tests.postgres_server import new_schema_url
from tests.ray_cluster import needs_ray, own_cluster, prepare_environment

from statewright.client import Client

pytestmark = [needs_ray, pytest.mark.filterwarnings("ignore::Warning:ray", "ignore::ResourceWarning")]
GRAPH = """
import os
import time
from pathlib import Path
from typing import TypedDict
from statewright import START, StateGraph

FOLDER = Path(os.environ["MARKS"])

class State(TypedDict, total=False):
    name: str
    folder: str

def mark(state):
    with open(FOLDER / f"{state['name']}.begun", "a") as file:
        file.write(f"{os.getpid()}\\n")

def wait(state):
    until = time.monotonic() + 600
    while (FOLDER / "closed").exists() and time.monotonic() < until:
        time.sleep(0.01)
    return {"folder": str(Path(__file__).parent)}

graph = StateGraph(State).add_node("mark", mark).add_node("wait", wait)
graph.add_edge(START, "mark").add_edge("mark", "wait")
work = graph.compile()
"""
PROJECT = """
[graphs.work]
path = "flow.py:work"

[serve]
drain = 600
"""


class Site:
    """A server without workers, its client, and the folders of the processes of a test."""

    def __init__(self, stack: ExitStack, folder: Path, database: str) -> None:
        self._stack = stack
        self._folder = folder
        self.marks = folder / "marks"
        self.marks.mkdir()
        (self.marks / "closed").touch()
        self.env = {"STATEWRIGHT_DATABASE": database, "MARKS": str(self.marks)}
        self._processes = [self.start("server", "serve", "--port", "0", "--auth", "none", "--no-work")]
        self.client = stack.enter_context(Client(self._processes[0].url))

    def start(self, name: str, *words: str) -> ServerProcess:
        """Start a command in a folder of its own with the project."""
        folder = self._folder / name
        folder.mkdir()
        (folder / "flow.py").write_text(GRAPH, encoding="utf-8")
        (folder / "statewright.toml").write_text(PROJECT, encoding="utf-8")
        return self._stack.enter_context(serving(folder, *words, env=self.env))

    def start_fleet(self, address: str, *words: str, name: str = "fleet") -> ServerProcess:
        """Start a supervisor. The workers get the folder of marks by the runtime environment."""
        runtime_env = json.dumps({"env_vars": {"MARKS": str(self.marks)}})
        words = ("--ray", address, "--capacity", "2", "--runtime-env", runtime_env, *words)
        fleet = self.start(name, "worker", *words)
        self._processes.append(fleet)
        return fleet

    def forget(self, process: ServerProcess) -> None:
        """Stop expecting that a process is running."""
        self._processes.remove(process)

    def start_runs(self, count: int) -> list[str]:
        return [self.client.runs.start("work", {"name": f"run{number}"}).id for number in range(count)]

    @property
    def begun(self) -> int:
        """The number of runs that a worker has begun."""
        return len(list(self.marks.glob("*.begun")))

    def open(self) -> None:
        """Let the runs end."""
        (self.marks / "closed").unlink()

    def live_workers(self) -> list[Any]:
        return [worker for worker in self.client.workers.list() if worker.status == "live"]

    def wait_until(self, is_done: Callable[[], object]) -> None:
        until = time.monotonic() + PATIENCE
        while not is_done():
            output = "\n".join(process.output for process in self._processes)
            assert all(process.process.poll() is None for process in self._processes), output
            assert time.monotonic() < until, (output, self.client.runs.list(), self.client.workers.list())
            time.sleep(0.1)

    def wait_for_ends(self, run_ids: Sequence[str]) -> list[Any]:
        """Wait until runs have ended, and return them. All must have completed."""
        runs: list[Any] = []

        def have_ended() -> bool:
            runs[:] = [self.client.runs.get(run_id) for run_id in run_ids]
            return all(run.status not in ("pending", "running") for run in runs)

        self.wait_until(have_ended)
        assert {run.status for run in runs} == {"completed"}, runs
        return runs


@pytest.fixture
def site(tmp_path: Path) -> Iterator[Site]:
    """A site with a Postgres database."""
    with ExitStack() as stack:
        yield Site(stack, tmp_path, new_schema_url("fleet"))


def events(fleet: ServerProcess, name: str) -> list[dict[str, Any]]:
    """Return the events of a supervisor with a name, from its log."""
    lines = [json.loads(line) for line in fleet.output.splitlines() if line.startswith("{") and line.endswith("}")]
    return [line for line in lines if line["event"] == name]


def measure(fleet: ServerProcess) -> dict[str, float]:
    """Return the metrics of the fleet."""
    started = json.loads(fleet.wait_for('.*"The fleet has started.".*'))
    text = urlopen(f"http://127.0.0.1:{started['health_port']}/metrics").read().decode()
    lines = [line.split(" ") for line in text.splitlines() if line.startswith("statewright_fleet_")]
    return {name.removeprefix("statewright_fleet_"): float(value) for name, value in lines}


def is_resumed_after_loss(client: Client, run_id: str) -> bool:
    """Return whether a run was released because its worker was lost."""
    resumed = [event for event in client.runs.follow(run_id) if event.event_type == "WORKFLOW_RESUMED"]
    return any(event.payload.get("reason") == "worker lost" for event in resumed)


def count_executions(marks: Path) -> set[int]:
    """Return how often the runs were begun."""
    return {len(mark.read_text().splitlines()) for mark in marks.glob("*.begun")}


@pytest.mark.sampled
def test_a_worker_on_ray_advances_runs_of_a_file_and_drains_with_its_supervisor(tmp_path: Path) -> None:
    prepare_environment()
    with ExitStack() as stack:
        site = Site(stack, tmp_path, str(tmp_path / "runs.db"))
        site.open()
        fleet = site.start_fleet("local", "--max", "1")
        (run,) = site.wait_for_ends(site.start_runs(1))
        # The project was sent, and not read where the supervisor runs.
        assert Path(run.output["folder"]) not in (tmp_path, *tmp_path.iterdir())
        (worker,) = site.live_workers()
        fleet.wait_for("A worker of the fleet has started..*\n")
        assert (worker.capacity, worker.pid) == (2, events(fleet, "A worker of the fleet has started.")[0]["pid"])
        assert fleet.stop() == 0
        assert site.client.workers.list() == []
        assert events(fleet, "The fleet has stopped.")[0]["reason"] == "SIGTERM"
        assert not is_running(worker.pid)


@pytest.mark.full
def test_the_fleet_grows_from_one_worker_to_three_under_a_backlog_and_shrinks_back(site: Site) -> None:
    with own_cluster(num_cpus=3) as cluster:
        fleet = site.start_fleet(cluster.address, "--max", "3", "--target-age", "1", "--idle", "3", "--port", "0")
        site.wait_until(lambda: len(site.live_workers()) == 1)
        run_ids = site.start_runs(6)
        site.wait_until(lambda: site.begun == 6)
        assert [worker.claimed for worker in site.live_workers()] == [2, 2, 2]
        site.wait_until(lambda: measure(fleet)['workers{state="working"}'] == 3)
        assert measure(fleet)["desired_workers"] == 3
        growth = events(fleet, "The fleet changes its size.")
        assert [(each["previous_size"], each["size"]) for each in growth] == [(1, 2), (2, 3)]
        assert "the target is 1 s; 2 of 2 places are taken, 4 runs are due" in growth[0]["reason"]

        site.open()
        site.wait_until(lambda: len(site.client.workers.list()) == 1)
        site.wait_for_ends(run_ids)
        assert count_executions(site.marks) == {1}
        site.wait_until(lambda: measure(fleet)['workers{state="draining"}'] == 0)
        sizes = measure(fleet)
        assert (sizes['workers{state="working"}'], sizes["desired_workers"], sizes["restarts_total"]) == (1, 1, 0)
        assert fleet.stop() == 0
        assert site.client.workers.list() == []


@pytest.mark.full
def test_a_killed_actor_is_replaced_and_its_runs_complete(site: Site) -> None:
    with own_cluster(num_cpus=3) as cluster:
        fleet = site.start_fleet(cluster.address, "--min", "2", "--max", "2", "--port", "0")
        run_ids = site.start_runs(4)
        site.wait_until(lambda: site.begun == 4)
        killed, other = site.live_workers()
        os.kill(killed.pid, signal.SIGKILL)
        site.wait_until(lambda: measure(fleet)["restarts_total"] == 1)
        site.wait_until(lambda: {worker.id for worker in site.live_workers()} - {killed.id, other.id})
        (loss,) = events(fleet, "A worker of the fleet was lost.")
        assert (loss["worker"], loss["pid"], loss["replaced_in_seconds"]) == (killed.id, killed.pid, 1)
        assert "ActorDiedError" in loss["reason"]
        site.open()
        site.wait_for_ends(run_ids)
        assert sum(is_resumed_after_loss(site.client, run_id) for run_id in run_ids) == 2
        assert fleet.stop() == 0


@pytest.mark.full
def test_workers_of_a_lost_node_wait_for_another_one(site: Site) -> None:
    with own_cluster(num_cpus=0) as cluster:
        nodes = [cluster.add_node(num_cpus=1) for _ in range(2)]
        cluster.wait_for_nodes()
        fleet = site.start_fleet(cluster.address, "--min", "2", "--max", "2", "--port", "0")
        run_ids = site.start_runs(4)
        site.wait_until(lambda: site.begun == 4)
        site.wait_until(
            lambda: len({each["node"] for each in events(fleet, "A worker of the fleet has started.")}) == 2
        )
        cluster.remove_node(nodes[0], allow_graceful=False)
        site.wait_until(lambda: measure(fleet)['workers{state="pending"}'] == 1)
        fleet.wait_for("Workers of the fleet wait for resources of the cluster.")
        assert measure(fleet)["desired_workers"] == 2
        cluster.add_node(num_cpus=1)
        site.wait_until(lambda: measure(fleet)['workers{state="working"}'] == 2)
        site.open()
        site.wait_for_ends(run_ids)
        assert fleet.stop() == 0


@pytest.mark.full
def test_one_supervisor_has_the_name_of_a_fleet_and_takes_the_workers_with_it_when_it_is_killed(site: Site) -> None:
    with own_cluster(num_cpus=3) as cluster:
        first = site.start_fleet(cluster.address, "--max", "1")
        run_ids = site.start_runs(2)
        site.wait_until(lambda: site.begun == 2)
        second = site.start_fleet(cluster.address, "--max", "1", name="second")
        assert second.process.wait(PATIENCE) == 2
        site.forget(second)
        assert "The fleet 'default' has a supervisor on this cluster already." in second.output
        other = site.start_fleet(cluster.address, "--max", "1", "--fleet", "other", "--queues", "gpu", name="other")
        other.wait_for("A worker of the fleet has started.")

        (worker,) = [worker for worker in site.live_workers() if worker.queues is None]
        first.process.kill()
        site.forget(first)
        site.wait_until(lambda: not is_running(worker.pid))
        site.open()
        third = site.start_fleet(cluster.address, "--max", "1", name="third")
        site.wait_for_ends(run_ids)
        assert [each.stop() for each in (third, other)] == [0, 0]


@pytest.mark.full
def test_a_second_signal_kills_the_workers(site: Site) -> None:
    with own_cluster(num_cpus=3) as cluster:
        fleet = site.start_fleet(cluster.address, "--max", "1")
        run_ids = site.start_runs(2)
        site.wait_until(lambda: site.begun == 2)
        (worker,) = site.live_workers()
        fleet.process.send_signal(signal.SIGTERM)
        fleet.wait_for("The fleet is draining.")
        fleet.process.send_signal(signal.SIGINT)
        assert fleet.process.wait(PATIENCE) == 143
        site.forget(fleet)
        site.wait_until(lambda: not is_running(worker.pid))
        assert {site.client.runs.get(run_id).status for run_id in run_ids} == {"running"}


@pytest.mark.full
def test_a_worker_that_cannot_load_the_project_ends_the_command(site: Site) -> None:
    with own_cluster(num_cpus=3) as cluster:
        fleet = site.start_fleet(cluster.address, "--max", "1", "--project-path", "/nowhere")
        assert fleet.process.wait(PATIENCE) == 2
        assert "Error: A worker of the fleet cannot start: FileNotFoundError" in fleet.output
        assert "'/nowhere' (on host " in fleet.output


def is_running(pid: int) -> bool:
    """Return True if a process is running. A zombie is not."""
    try:
        return ") Z " not in Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return False
