"""`statewright serve` and other commands on a Postgres server, as real processes, with few permissions."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.integration.cli_server import serving
from tests.postgres_programs import Server
from tests.postgres_server import execute, new_schema_url

from statewright.client import Client

GRAPH = """
from typing import TypedDict
from statewright import START, StateGraph, interrupt

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
"""
PASSWORD = "geheim"
SERVE = ("serve", "flow.py", "--port", "0", "--auth", "none")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "flow.py").write_text(GRAPH, encoding="utf-8")
    return tmp_path


def command(folder: Path, *words: str, **env: str) -> subprocess.CompletedProcess[str]:
    """Call a command in another process."""
    return subprocess.run(
        [sys.executable, "-m", "statewright", *words],
        cwd=folder,
        env={**os.environ, **env},
        capture_output=True,
        text=True,
        check=False,
    )


def test_runs_are_advanced_by_any_server_of_the_database(folder: Path) -> None:
    url = new_schema_url("served").replace("postgres@", f"postgres:{PASSWORD}@", 1)
    env = {"STATEWRIGHT_DATABASE": url}
    with (
        serving(folder, *SERVE, env=env) as server,
        Client(server.url) as client,
    ):
        assert client.runs.start_and_wait("flow", {"n": 4}).output == {"n": 8}
        waiting = client.runs.start_and_wait("asking", {"n": 1})
        assert waiting.status == "waiting"
        assert server.stop() == 0
        assert PASSWORD not in server.output
    (folder / "second").mkdir()
    (folder / "second/flow.py").write_text(GRAPH, encoding="utf-8")
    with serving(folder / "second", *SERVE, env=env) as server, Client(server.url) as client:
        (question,) = client.interrupts.list().items
        client.runs.answer(waiting.id, {question.id: 7})
        assert client.runs.wait(waiting.id).output == {"n": 7}
        assert [event.event_type for event in client.runs.follow(waiting.id)][-1] == "WORKFLOW_COMPLETED"
        assert command(folder, "keys", "create", "me", **env).returncode == 0
        assert server.stop() == 0
        assert PASSWORD not in server.output


@pytest.mark.full
def test_a_served_file_moves_to_a_server(folder: Path) -> None:
    url = new_schema_url("moved")
    with serving(folder, *SERVE, "--database", "runs.db") as server, Client(server.url) as client:
        waiting = client.runs.start_and_wait("asking", {"n": 1})
        assert waiting.status == "waiting"
        refused = command(folder, "db", "copy", "runs.db", url)
        assert (refused.returncode, "a server is using it" in refused.stderr) == (1, True)
        assert server.stop() == 0
    assert command(folder, "db", "copy", "runs.db", url).returncode == 0
    with serving(folder, *SERVE, "--database", url) as server, Client(server.url) as client:
        (question,) = client.interrupts.list().items
        client.runs.answer(waiting.id, {question.id: 7})
        assert client.runs.wait(waiting.id).output == {"n": 7}
        assert client.runs.start_and_wait("flow", {"n": 4}).output == {"n": 8}
        assert server.stop() == 0


# -- a server that checks passwords


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    """A server where all users but `postgres` need a password, with a user `anna` and her database."""
    folder = Path(tempfile.mkdtemp(prefix="statewright-"))  # the path of its socket has to be short
    server = Server(folder)
    server.create()
    rules = "local all postgres trust\nlocal all all scram-sha-256\n"
    (folder / "data/pg_hba.conf").write_text(rules, encoding="utf-8")
    server.start()
    execute(
        server.url,
        f"CREATE ROLE anna LOGIN PASSWORD '{PASSWORD}'",
        f"CREATE ROLE bob LOGIN PASSWORD '{PASSWORD}'",
        f"CREATE ROLE carol LOGIN PASSWORD '{PASSWORD}'",
        "CREATE DATABASE work OWNER anna",
    )
    yield server
    server.stop()
    shutil.rmtree(folder, ignore_errors=True)


def url_of(server: Server, user: str, password: str = PASSWORD, parameters: str = "") -> str:
    return f"postgresql://{user}:{password}@/work?host={server.folder}{parameters}"


RUN = ("run", "flow.py:graph", "-i", "n=4", "--json", "--database")


@pytest.mark.full
def test_a_wrong_password_is_reported_on_one_line(folder: Path, server: Server) -> None:
    refused = command(folder, *RUN, url_of(server, "anna", "verkehrt"))
    assert (refused.returncode, refused.stderr.count("\n")) == (1, 1)
    assert 'password authentication failed for user "anna"' in refused.stderr
    assert "verkehrt" not in refused.stderr
    without = url_of(server, "anna").replace(f":{PASSWORD}", "")
    missing = command(folder, *RUN, without)
    assert (missing.returncode, missing.stderr.count("\n"), "no password supplied" in missing.stderr) == (1, 1, True)
    assert command(folder, *RUN, without, PGPASSWORD=PASSWORD).returncode == 0


def test_the_owner_of_a_database_creates_schemas_in_it(folder: Path, server: Server) -> None:
    ran = command(folder, *RUN, url_of(server, "anna", parameters="&schema=annas"))
    assert (ran.returncode, ran.stdout.split()) == (0, ["{", '"n":', "8", "}"])


def test_a_user_without_permission_to_create_schemas_uses_one_that_exists(folder: Path, server: Server) -> None:
    execute(server.url_of("work"), "CREATE SCHEMA bobs AUTHORIZATION bob")
    assert command(folder, *RUN, url_of(server, "bob", parameters="&schema=bobs")).returncode == 0


@pytest.mark.full
def test_other_users_need_permission_for_rows_only_once_the_tables_exist(folder: Path, server: Server) -> None:
    anna, bob, carol = (url_of(server, name, parameters="&schema=shared") for name in ("anna", "bob", "carol"))
    refused = command(folder, *RUN, bob)
    assert (refused.returncode, refused.stderr.count("\n"), "permission denied" in refused.stderr) == (1, 1, True)
    assert command(folder, *RUN, anna).returncode == 0
    execute(
        server.url_of("work"),
        "GRANT USAGE ON SCHEMA shared TO bob, carol",
        "GRANT SELECT, INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA shared TO bob",
        "GRANT SELECT ON ALL TABLES IN SCHEMA shared TO carol",
    )
    with serving(folder, *SERVE, "--database", bob) as running, Client(running.url) as client:
        assert client.runs.start_and_wait("flow", {"n": 4}).output == {"n": 8}
        assert running.stop() == 0
        assert PASSWORD not in running.output
    for reading in (("threads", "ls"), ("db", "check", "--full"), ("workspaces", "ls")):
        assert command(folder, *reading, "--database", carol).returncode == 0
    assert command(folder, "db", "copy", carol, "copy.db").returncode == 0
    refused = command(folder, *RUN, carol)
    assert (refused.returncode, "permission denied" in refused.stderr) == (1, True)
