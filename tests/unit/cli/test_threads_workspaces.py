"""`--workspace`: commands on the threads of a workspace in a local database."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, TypedDict

import pytest

from statewright import START, StateGraph
from statewright.checkpoint import LeaseRequest
from statewright.cli.commands import build_members
from statewright.futures import resolve
from statewright.runs import Workspace
from statewright.storage.sqlite import SqliteDatabase, SqliteLedger, SqliteSaver


class State(TypedDict, total=False):
    n: int


def app_of(saver: Any) -> Any:
    graph = StateGraph(State).add_node("count", lambda state: {"n": state["n"] + 1})
    return graph.add_edge(START, "count").compile(saver)


@pytest.fixture
def acme(statewright: Any, folder: Path) -> str:
    """The id of the workspace `acme`, which has threads `t` and `theirs`; the default one has a thread `t`."""
    assert statewright("workspaces", "create", "acme", "--database", "runs.db").code == 0
    with SqliteDatabase(folder / "runs.db") as database:
        workspaces: Any = SqliteLedger(database).find(Workspace)
        [workspace] = [entry.id for entry in workspaces if entry.slug == "acme"]
        for name, thread, n in (("default", "t", 1), (workspace, "t", 10), (workspace, "theirs", 20)):
            app_of(SqliteSaver(database, workspace=name)).invoke({"n": n}, thread_id=thread)
    return workspace


@pytest.fixture
def threads(statewright: Any) -> Any:
    def call(command: str, *args: str, database: str = "runs.db") -> Any:
        return statewright("threads", command, *args, "--database", database)

    return call


def names(result: Any) -> list[str]:
    return sorted(entry["thread"] for entry in json.loads(result.out))


def test_the_default_workspace_is_used_by_default(acme: str, threads: Any) -> None:
    assert names(threads("ls", "--json")) == ["t"]
    assert json.loads(threads("show", "t", "--json").out)["values"] == {"n": 2}


@pytest.mark.parametrize("by", ["slug", "id"])
def test_a_workspace_is_named_by_slug_or_id(acme: str, threads: Any, by: str) -> None:
    option = ("--workspace", "acme" if by == "slug" else acme)
    assert names(threads("ls", "--json", *option)) == ["t", "theirs"]
    assert json.loads(threads("show", "t", "--json", *option).out)["values"] == {"n": 11}
    history = json.loads(threads("history", "theirs", "--json", *option).out)
    assert [entry["values"] for entry in history] == [{"n": 21}, {"n": 20}]
    assert json.loads(threads("diff", "t", "0", "1", "--json", *option).out)["values"] == {
        "n": {"before": 10, "after": 11}
    }


def test_the_workspace_of_a_missing_thread_is_suggested(acme: str, threads: Any) -> None:
    result = threads("show", "theirs")
    assert result.code != 0
    assert f"Thread 'theirs' does not exist in workspace 'default'. It exists in {acme!r}" in result.err
    assert f"threads show theirs --workspace {acme}" in result.err


def test_an_unknown_workspace_is_refused_with_a_suggestion(acme: str, threads: Any) -> None:
    result = threads("ls", "--workspace", "acne")
    assert result.code == 2
    assert "Workspace 'acne' does not exist" in result.err
    assert "acme" in result.err


def test_changes_apply_to_the_named_workspace(acme: str, threads: Any, folder: Path) -> None:
    option = ("--workspace", "acme")
    assert threads("copy", "theirs", "t2", *option).code == 0
    assert "begins at step 0" in threads("fork", "theirs", "--branch", "b", "--step", "0", *option).out
    assert "Deleted 3 checkpoints of 3 threads" in threads("prune", "--keep", "1", *option).out
    assert threads("rm", "t", *option).code == 0
    assert names(threads("ls", "--json", *option)) == ["t2", "theirs"]
    with SqliteSaver(folder / "runs.db") as saver:
        assert len(saver.history("t")) == 2  # type: ignore[arg-type]


def test_a_thread_of_a_workspace_is_released(acme: str, threads: Any, folder: Path) -> None:
    now = datetime.now(UTC)
    hold = LeaseRequest("run@host.1.2.3", now, now + timedelta(hours=1), claims=True)
    with SqliteSaver(folder / "runs.db", workspace=acme) as saver:
        resolve(saver.renew("t", hold))
    assert threads("release", "t").out == "Thread 't' is not held by a run.\n"
    assert threads("release", "t", "--workspace", "acme").out.startswith("Released thread 't' from run ")
    with SqliteSaver(folder / "runs.db", workspace=acme) as saver:
        assert resolve(saver.lease("t")) is None


def test_every_command_on_threads_has_the_option_workspace() -> None:
    commands = [command.load() for command in build_members()["threads"].commands.values()]
    assert [command.name for command in commands if "workspace" not in {option.name for option in command.params}] == []


def test_a_thread_is_transferred_between_workspaces(acme: str, threads: Any, folder: Path) -> None:
    assert threads("export", "theirs", "theirs.db", "--workspace", "acme").code == 0
    assert threads("import", "theirs.db", "--as", "mine").code == 0
    assert json.loads(threads("show", "mine", "--json").out)["values"] == {"n": 21}
    assert threads("import", "theirs.db", "--as", "again", "--workspace", "acme").code == 0
    assert names(threads("ls", "--json", "--workspace", "acme")) == ["again", "t", "theirs"]
    assert names(threads("ls", "--json")) == ["mine", "t"]


def test_a_database_without_a_service_has_the_workspaces_of_its_threads(folder: Path, threads: Any) -> None:
    with SqliteSaver(folder / "own.db", workspace="team") as saver:
        app_of(saver).invoke({"n": 1}, thread_id="t")
    assert names(threads("ls", "--json", "--workspace", "team", database="own.db")) == ["t"]
    assert threads("ls", "--workspace", "acme", database="own.db").code == 2


def test_checks_read_the_threads_of_all_workspaces(acme: str, statewright: Any, folder: Path) -> None:
    result = statewright("db", "check", "--full", "--database", "runs.db")
    assert result.out.startswith("ok: runs.db, 3 threads, 6 checkpoints read")
    with SqliteDatabase(folder / "runs.db") as database:
        damage = "UPDATE records SET control = x'00' WHERE place >> 32 = (SELECT max(id) FROM lines)"
        database.write(lambda connection: connection.execute(damage))
    result = statewright("db", "check", "--database", "runs.db")
    assert result.code == 1
    assert f"thread 'theirs' of workspace {acme!r}, branch 'main'" in result.err


def test_a_graph_is_checked_against_the_threads_of_all_workspaces(acme: str, statewright: Any, folder: Path) -> None:
    asks = "def asks(state):\n    return {'n': interrupt('why')}\n"
    head = "from typing import TypedDict\nfrom statewright import START, StateGraph, interrupt\n"
    head += "class State(TypedDict, total=False):\n    n: int\n"
    build = "graph = StateGraph(State).add_node('{0}', asks).add_edge(START, '{0}')\n"
    (folder / "asks.py").write_text(head + asks + build.format("asks"), encoding="utf-8")
    (folder / "other.py").write_text(head + asks + build.format("other"), encoding="utf-8")
    from statewright.cli.workflow.load import load_graph

    with SqliteSaver(folder / "runs.db", workspace=acme) as saver:
        load_graph("asks.py").with_services(checkpointer=saver).invoke({"n": 1}, thread_id="open")
    assert (
        "Unfinished branches: 1 can continue, 0 cannot" in statewright("check", "asks.py", "--against", "runs.db").out
    )
    result = statewright("check", "other.py", "--against", "runs.db")
    assert result.code == 1
    assert f"open (main, workspace {acme}): " in result.out
