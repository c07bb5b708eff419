"""`statewright dev` and `serve` as real processes: what they serve, how they reload, how they end."""

from __future__ import annotations

import json
import signal
import socket
import time
from pathlib import Path

import httpx
import pytest
from tests.integration.cli_server import PATIENCE, ServerProcess, serving
from tests.work import wait_until

from statewright.client import Client
from statewright.errors import SpendingLimitReached
from statewright.server.page.built_files import is_built

GRAPH = """
from typing import TypedDict
from statewright import START, StateGraph, interrupt
from statewright.workflow.steps import task_handler

class State(TypedDict, total=False):
    n: int

def double(state):
    return {"n": state["n"] * 2}

def ask(state):
    return {"n": interrupt("how many?")}

def built(fn):
    graph = StateGraph(State, name=fn.__name__)
    graph.add_node(fn.__name__, fn)
    graph.add_edge(START, fn.__name__)
    return graph.compile()

graph = built(double)
asking = built(ask)

@task_handler("greet")
def greet(ctx):
    return {"status": "completed", "stateUpdates": {"text": "Hello " + ctx.workflow_input["name"]}}
"""
STATES = """
name: relay
assistants:
- {id: one, system_prompt: You answer.}
states:
- id: only
  assistant_id: one
  task: Say it.
  next: {state_id: end}
"""
STEPS = {
    "name": "mail",
    "version": "1",
    "steps": [
        {"name": "greet", "type": "task", "handler": "greet"},
        {"name": "agree", "type": "approval", "contentKey": "text", "prompt": "Send it?"},
        {"name": "rest", "type": "wait", "durationMs": 50},
    ],
}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "flow.py").write_text(GRAPH, encoding="utf-8")
    (tmp_path / "relay.yaml").write_text(STATES, encoding="utf-8")
    (tmp_path / "mail.json").write_text(json.dumps(STEPS), encoding="utf-8")
    return tmp_path


def graph_names(url: str) -> list[str]:
    with Client(url, timeout=PATIENCE) as client:
        return sorted(graph.name for graph in client.graphs.list())


@pytest.mark.full
def test_a_single_python_file_is_served_and_its_handlers_can_be_used(folder: Path) -> None:
    with (
        serving(folder, "dev", "flow.py", "--port", "0", "--no-reload") as server,
        Client(server.url, timeout=PATIENCE) as client,
    ):
        assert graph_names(server.url) == ["asking", "flow"]
        assert client.runs.start_and_wait("flow", {"n": 4}).output == {"n": 8}
        client.definitions.add(STEPS)
        assert client.runs.start_and_wait("mail", {"name": "Ada"}).status == "waiting"
        assert "statewright runs start asking" in server.output
        assert (folder / ".statewright/runs.db").exists()
        assert server.stop() == 0


@pytest.mark.full
def test_a_single_file_of_states_is_served(folder: Path) -> None:
    with serving(folder, "dev", "relay.yaml", "--port", "0", "--no-reload") as server:
        assert graph_names(server.url) == ["relay"]


@pytest.mark.full
def test_a_single_file_of_steps_is_served_with_the_handlers_of_its_project(folder: Path) -> None:
    (folder / "statewright.toml").write_text('[handlers]\nmodules = ["flow"]\n', encoding="utf-8")
    with (
        serving(folder, "dev", "mail.json", "--port", "0", "--no-reload") as server,
        Client(server.url, timeout=PATIENCE) as client,
    ):
        assert graph_names(server.url) == ["mail"]
        run = client.runs.start_and_wait("mail", {"name": "Ada"})
        (approval,) = client.approvals.list(pending=True).items
        assert (run.status, approval.content) == ("waiting", "Hello Ada")
        client.approvals.approve(approval.id)
        assert [event.event_type for event in client.runs.follow(run.id)][-1] == "WORKFLOW_COMPLETED"


GREETERS = """
from statewright.agents import Agent
from statewright.models import ScriptedModel

greeter = Agent("greeter", model=ScriptedModel(["Hello."], repeat_last=True))
"""


def start_often(client: Client) -> None:
    """Start three runs: a day may end between two of them, but not after each of them."""
    for _ in range(3):
        client.runs.start_and_wait("greeter", {"messages": "Hi!"})


@pytest.mark.parametrize(
    "command", [("dev", "--no-reload"), ("serve", "--auth", "none")], ids=lambda command: command[0]
)
@pytest.mark.sampled(2)
def test_the_spending_limits_of_a_project_apply(folder: Path, command: tuple[str, ...]) -> None:
    (folder / "greeters.py").write_text(GREETERS, encoding="utf-8")
    text = '[graphs]\ngreeter = "greeters:greeter"\n[spending_limits]\nrequests_per_day = 1\n'
    (folder / "statewright.toml").write_text(text, encoding="utf-8")
    name, *options = command
    with serving(folder, name, "--port", "0", *options) as server, Client(server.url, timeout=PATIENCE) as client:
        with pytest.raises(SpendingLimitReached) as caught:
            start_often(client)
        assert (caught.value.limit, caught.value.most) == ("requests_per_day", 1)
        spent = client.workspaces.spending()
        assert spent.limits is not None
        assert (spent.requests, spent.limits.requests_per_day, spent.reached) == (1, 1, "requests_per_day")
        assert server.stop() == 0


def test_everything_in_a_project_is_served(folder: Path) -> None:
    text = (
        '[graphs]\nflow = "flow:graph"\nasking = {path = "flow.py:asking", on_failure = "flow"}\nmail = "mail.json"\n'
        '[workflows.relay]\nfile = "relay.yaml"\n[handlers]\nmodules = ["flow"]\n[serve]\ndatabase = "data/all.db"\n'
        "retention_days = 7\n"
    )
    (folder / "statewright.toml").write_text(text, encoding="utf-8")
    with serving(folder, "dev", "--port", "0", "--no-reload") as server:
        assert graph_names(server.url) == ["asking", "flow", "mail", "relay"]
        assert (folder / "data/all.db").exists()
        with Client(server.url, timeout=PATIENCE) as client:
            assert client.workspaces.current().retention_days == 7


def test_a_changed_file_is_loaded_and_open_runs_continue_in_the_new_server(folder: Path) -> None:
    with (
        serving(folder, "dev", "flow.py", "--port", "0") as server,
        Client(server.url, retries=10, timeout=PATIENCE) as client,
    ):
        waiting = client.runs.start_and_wait("asking", {"n": 1})
        (folder / "flow.py").write_text(GRAPH.replace("* 2", "* 3"), encoding="utf-8")
        server.wait_for("Serving: asking, flow")
        tripled = client.runs.start_and_wait("flow", {"n": 4})
        assert (tripled.error, tripled.output) == (None, {"n": 12}), server.output
        (question,) = client.interrupts.list().items
        client.runs.answer(waiting.id, {question.id: 5})
        assert [event.event_type for event in client.runs.follow(waiting.id)][-1] == "WORKFLOW_COMPLETED"
        assert client.runs.get(waiting.id).output == {"n": 5}
        assert server.stop() == 0


@pytest.mark.full
def test_the_server_continues_while_a_changed_file_has_an_error(folder: Path) -> None:
    with serving(folder, "dev", "flow.py", "--port", "0") as server, Client(server.url, timeout=PATIENCE) as client:
        assert client.health().status == "ok"
        (folder / "flow.py").write_text("graph = \n", encoding="utf-8")
        server.wait_for("keeps running the previous code")
        assert "SyntaxError" in server.output
        wait_until(lambda: client.graphs.reload().problems)
        (problem,) = client.graphs.reload().problems
        assert (problem.file, problem.line, client.graphs.reload().texts) == ("flow.py", 1, {"flow.py": "graph = \n"})
        assert client.runs.start_and_wait("flow", {"n": 4}).output == {"n": 8}
        (folder / "flow.py").write_text(GRAPH.replace("* 2", "* 5"), encoding="utf-8")
        server.wait_for("Serving: asking, flow")
        fivefold = client.runs.start_and_wait("flow", {"n": 4})
        assert (fivefold.error, fivefold.output) == (None, {"n": 20}), server.output
        assert client.graphs.reload().problems == ()


@pytest.mark.full
def test_the_server_does_not_start_with_a_file_that_has_an_error(folder: Path) -> None:
    (folder / "flow.py").write_text("graph = \n", encoding="utf-8")
    server = ServerProcess(folder, "dev", "flow.py", "--port", "0")
    assert server.process.wait(600) == 2
    assert "SyntaxError" in server.output


@pytest.mark.full
def test_the_server_ends_when_the_process_that_watches_files_is_killed(folder: Path) -> None:
    with serving(folder, "dev", "flow.py", "--port", "0") as server:
        url = server.url
        assert httpx.get(f"{url}/health", timeout=600).status_code == 200
        server.process.send_signal(signal.SIGKILL)
        server.process.wait(600)
        until = time.monotonic() + 600
        while not _is_free(url):
            assert time.monotonic() < until
            time.sleep(0.05)


def _is_free(url: str) -> bool:
    with socket.socket() as attempt:
        return attempt.connect_ex(("127.0.0.1", int(url.rpartition(":")[2]))) != 0


@pytest.mark.parametrize(
    "command",
    [
        ["dev", "flow.py"],
        pytest.param(["dev", "flow.py", "--no-reload"], marks=pytest.mark.full),
        pytest.param(["serve", "flow.py"], marks=pytest.mark.full),
    ],
)
def test_an_error_names_a_port_that_is_in_use(folder: Path, command: list[str]) -> None:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        listener.listen()
        port = listener.getsockname()[1]
        server = ServerProcess(folder, *command, "--port", str(port))
        assert server.process.wait(600) == 2
        assert f"Port {port} on 127.0.0.1 is already in use." in server.output


def test_serve_ends_with_0_at_sigterm_and_sigint(folder: Path) -> None:
    for number in (signal.SIGTERM, signal.SIGINT):
        server = ServerProcess(folder, "serve", "flow.py", "--port", "0", "--auth", "none")
        with Client(server.url, timeout=PATIENCE) as client:
            assert client.runs.start_and_wait("flow", {"n": 1}).output == {"n": 2}
        assert server.stop(number) == 0
        lines = [json.loads(line) for line in server.err.read_text(encoding="utf-8").splitlines()]
        assert [lines[0]["event"], lines[-1]["event"]] == ["The server is listening.", "The server has stopped."]
        assert lines[0]["graphs"] == ["asking", "flow"]
        assert lines[0].get("page") == (f"{lines[0]['url']}/ui/" if is_built() else None)


def test_a_key_created_in_the_database_gives_access_to_the_server(folder: Path) -> None:
    with serving(folder, "serve", "flow.py", "--port", "0", "--database", "runs.db") as server:
        server.wait_for("No API key exists yet")
        assert httpx.get(f"{server.url}/api/v1/graphs", timeout=600).status_code == 401
        other_folder = folder / "other"
        other_folder.mkdir()
        create = ServerProcess(other_folder, "keys", "create", "me", "--database", str(folder / "runs.db"))
        assert create.process.wait(600) == 0
        key = create.out.read_text(encoding="utf-8").strip()
        with Client(server.url, key, timeout=PATIENCE) as client:
            assert client.runs.start_and_wait("flow", {"n": 1}).output == {"n": 2}
        assert key not in server.output


SLOW = """
import pathlib, time
from typing import TypedDict
from statewright import START, StateGraph

class State(TypedDict, total=False):
    n: int

def first(state):
    return {"n": 1}

def slow(state):
    with open("begun", "a") as file:
        file.write("x")
    while not pathlib.Path("go").exists():
        time.sleep(0.02)
    return {"n": state["n"] + 10}

graph = StateGraph(State)
graph.add_node("first", first)
graph.add_node("slow", slow)
graph.add_edge(START, "first")
graph.add_edge("first", "slow")
"""


def test_a_run_continues_after_its_server_was_killed(folder: Path) -> None:
    (folder / "slow.py").write_text(SLOW, encoding="utf-8")
    words = ("serve", "slow.py", "--port", "0", "--auth", "none")
    with serving(folder, *words) as server, Client(server.url, timeout=PATIENCE) as client:
        run = client.runs.start("slow")
        until = time.monotonic() + 600
        while not (folder / "begun").exists():
            assert time.monotonic() < until
            time.sleep(0.02)
        server.stop(signal.SIGKILL)
    (folder / "go").touch()
    with serving(folder, *words) as server, Client(server.url, timeout=PATIENCE) as client:
        assert [event.event_type for event in client.runs.follow(run.id)].count("WORKFLOW_STARTED") == 1
        assert client.runs.get(run.id).output == {"n": 11}
        assert (folder / "begun").read_text(encoding="utf-8") == "xx"
