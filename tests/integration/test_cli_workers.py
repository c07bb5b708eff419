"""`statewright worker` as real processes: several share the runs of a database, and end without losing one."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from pathlib import Path
from urllib.error import HTTPError
from urllib.request import urlopen

import pytest
from tests.integration.cli_server import PATIENCE, ServerProcess, serving
from tests.postgres_server import new_schema_url

from statewright.client import Client

GRAPH = """
import asyncio
import os
import time
from pathlib import Path
from typing import TypedDict
from statewright import START, StateGraph

FOLDER = Path(os.environ["MARKS"])

class State(TypedDict, total=False):
    name: str
    steps: list[str]

def step(number):
    def execute(state):
        with open(FOLDER / f"{state['name']}.{number}", "a") as file:
            file.write(f"{os.getpid()}\\n")
        until = time.monotonic() + 600
        while (FOLDER / "closed").exists() and number == 2 and time.monotonic() < until:
            time.sleep(0.01)
        return {"steps": [*state.get("steps", []), f"step {number}"]}
    return execute

graph = StateGraph(State)
for number in (1, 2, 3):
    graph.add_node(f"step{number}", step(number))
graph.add_edge(START, "step1")
graph.add_edge("step1", "step2")
graph.add_edge("step2", "step3")
flow = graph.compile()

async def wait(state):
    (FOLDER / f"{state['name']}.wait").touch()
    await asyncio.sleep(600)

waiting = StateGraph(State)
waiting.add_node("wait", wait)
waiting.add_edge(START, "wait")
asynchronous = waiting.compile()
"""
PROJECT = """
[graphs.work]
path = "flow.py:flow"

[graphs.asynchronous]
path = "flow.py:asynchronous"

[serve]
drain = 600

[queues.slow]
max_running = 4
tags = ["slow"]
"""


def wait_until(is_done: Callable[[], bool], *processes: ServerProcess) -> None:
    until = time.monotonic() + PATIENCE
    while not is_done():
        assert time.monotonic() < until, "\n".join(process.output for process in processes)
        time.sleep(0.05)


def command(folder: Path, *words: str, env: dict[str, str]) -> str:
    """Call a command in another process, and return its output."""
    args, env = [sys.executable, "-m", "statewright", *words], {**os.environ, **env}
    return subprocess.run(args, cwd=folder, env=env, capture_output=True, text=True, check=True).stdout


@pytest.fixture
def marks(tmp_path: Path) -> Path:
    """A folder in which each step leaves a mark. Second steps wait there until the file `closed` is removed."""
    folder = tmp_path / "marks"
    folder.mkdir()
    (folder / "closed").touch()
    return folder


@pytest.fixture
def folders(tmp_path: Path) -> Sequence[Path]:
    """A folder with the project for each process, because each writes its output there."""
    folders = [tmp_path / name for name in ("server", "first", "second", "third")]
    for folder in folders:
        folder.mkdir()
        (folder / "flow.py").write_text(GRAPH, encoding="utf-8")
        (folder / "statewright.toml").write_text(PROJECT, encoding="utf-8")
    return folders


def test_workers_share_the_runs_of_two_queues_and_end_without_losing_one(folders: Sequence[Path], marks: Path) -> None:
    server_folder, *worker_folders = folders
    env = {"STATEWRIGHT_DATABASE": new_schema_url("workers"), "MARKS": str(marks)}
    with ExitStack() as stack:
        server = stack.enter_context(
            serving(server_folder, "serve", "--port", "0", "--auth", "none", "--no-work", env=env)
        )
        client = stack.enter_context(Client(server.url))
        slow = [client.runs.start("work", {"name": f"slow{number}"}, tags=["slow"]).id for number in range(6)]
        fast = [client.runs.start("work", {"name": f"fast{number}"}).id for number in range(6)]
        assert depths(client) == {"default": (6, 0), "slow": (6, 0)}

        # Both are full. The limit of the queue holds for them together.
        first, second = (
            stack.enter_context(serving(folder, "worker", "--capacity", "3", env=env)) for folder in worker_folders[:2]
        )
        wait_until(lambda: len(list(marks.glob("*.2"))) == 6, server, first, second)
        assert depths(client) == {"default": (4, 2), "slow": (2, 4)}
        listed = json.loads(command(server_folder, "workers", "ls", "--json", env=env))
        assert {(worker["status"], worker["claimed"]) for worker in listed} == {("live", 3)}

        # One is asked to drain, the other one gets a signal, and a third one continues what they release.
        id_of = {worker["pid"]: worker["id"] for worker in listed}
        command(server_folder, "workers", "drain", id_of[first.process.pid], env=env)
        third = stack.enter_context(serving(worker_folders[2], "worker", "--queues", "default,slow", env=env))
        third.wait_for("The worker has started.")
        second.process.send_signal(signal.SIGTERM)
        for process, reason in ((first, "drain request"), (second, "SIGTERM")):
            process.wait_for(f"The worker is draining.*{reason}")
        (marks / "closed").unlink()
        for process in (first, second):
            assert process.process.wait(PATIENCE) == 0
            assert "The worker has stopped." in process.output

        for run_id in [*slow, *fast]:
            run = client.runs.wait(run_id)
            assert (run.status, run.output["steps"], run.losses) == ("completed", ["step 1", "step 2", "step 3"], 0)
            events = [event.event_type for event in client.runs.follow(run_id)]
            assert events.count("WORKFLOW_COMPLETED") == 1
        assert [(worker.pid, worker.queues) for worker in client.workers.list()] == [
            (third.process.pid, ("default", "slow"))
        ]
    assert {len(mark.read_text().splitlines()) for mark in marks.glob("*.[123]")} == {1}
    assert len(list(marks.glob("*.[123]"))) == 36


def depths(client: Client) -> dict[str, tuple[int, int]]:
    """Return the numbers of due and of claimed runs by queue."""
    return {queue.name: (queue.depth, queue.claimed) for queue in client.queues.list()}


@pytest.mark.full
def test_a_second_signal_cancels_the_steps_of_a_worker(folders: Sequence[Path], marks: Path) -> None:
    server_folder, worker_folder, *_ = folders
    env = {"STATEWRIGHT_DATABASE": str(server_folder / "runs.db"), "MARKS": str(marks)}
    with (
        serving(server_folder, "serve", "--port", "0", "--auth", "none", "--no-work", env=env) as server,
        Client(server.url) as client,
    ):
        run_id = client.runs.start("asynchronous", {"name": "one"}, queue="slow").id
        with serving(worker_folder, "worker", "--port", "0", env=env) as worker:
            url = health_url(worker)
            wait_until(lambda: (marks / "one.wait").exists(), worker)
            worker.process.send_signal(signal.SIGINT)
            worker.wait_for("The worker is draining.")
            with pytest.raises(HTTPError, match="503"):
                urlopen(f"{url}/ready")
            assert json.load(urlopen(f"{url}/health"))["status"] == "ok"
            assert worker.process.poll() is None
            worker.process.send_signal(signal.SIGINT)
            assert worker.process.wait(PATIENCE) == 143
        assert (client.runs.get(run_id).status, client.workers.list(), depths(client)["slow"]) == (
            "running",
            [],
            (1, 0),
        )


def test_the_health_of_a_worker_is_served_on_a_port(folders: Sequence[Path], marks: Path) -> None:
    folder = folders[0]
    env = {"STATEWRIGHT_DATABASE": str(folder / "runs.db"), "MARKS": str(marks)}
    with serving(folder, "worker", "--port", "0", env=env) as worker:
        url = health_url(worker)
        started = json.loads(worker.wait_for('.*"The worker has started.".*'))
        assert (started["graphs"], started["queues"], started["capacity"]) == (["asynchronous", "work"], None, 100)
        assert json.load(urlopen(f"{url}/health"))["status"] == "ok"
        assert json.load(urlopen(f"{url}/ready")) == {"status": "ready"}
        text = urlopen(f"{url}/metrics").read().decode()
        assert 'statewright_workers{status="live"} 1.0' in text
        assert 'statewright_queue_depth{queue="default"} 0.0' in text
        with pytest.raises(HTTPError, match="404"):
            urlopen(f"{url}/api/v1/workflow-runs")
        assert worker.stop() == 0


def health_url(worker: ServerProcess) -> str:
    """Return the URL at which a worker answers requests about its health, once it has printed it."""
    started = json.loads(worker.wait_for('.*"The worker has started.".*'))
    return f"http://127.0.0.1:{started['health_port']}"
