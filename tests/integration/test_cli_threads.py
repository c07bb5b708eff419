"""Runs in a database, used from the command line as a user does: one command after another, in one folder."""

from __future__ import annotations

import json
import re
import shlex
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from tests import programs

from statewright.storage.sqlite import SqliteSaver

GRAPH = """
import operator
import time
from typing import Annotated, TypedDict
from statewright import START, StateGraph, interrupt

class State(TypedDict, total=False):
    topic: str
    notes: Annotated[list[str], operator.add]

def draft(state):
    return {"notes": [f"about {state['topic']}"]}

def review(state):
    return {"notes": [f"verdict: {interrupt('publish?')}"]}

def slow(state):
    print("sleeping", flush=True)
    time.sleep(60)

graph = StateGraph(State).add_node(draft).add_node(review)
graph.add_edge(START, "draft").add_edge("draft", "review")
lasting = StateGraph(State, name="lasting").add_node(draft).add_node(slow)
lasting.add_edge(START, "draft").add_edge("draft", "slow")
"""
STATEWRIGHT = [sys.executable, "-m", "statewright"]


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.delenv("STATEWRIGHT_DATABASE", raising=False)
    (tmp_path / "flow.py").write_text(GRAPH, encoding="utf-8")
    return tmp_path


def statewright(folder: Path, *args: object) -> subprocess.CompletedProcess[str]:
    return programs.statewright(*args, cwd=folder)


def proposed_command(text: str, verb: str) -> list[str]:
    """Split the command that the text proposes into its words."""
    line = next(line for line in text.splitlines() if line.strip().startswith(f"statewright {verb}"))
    return shlex.split(line)[1:]


def test_a_run_is_shown_answered_forked_exported_and_imported(folder: Path) -> None:
    waiting = statewright(folder, "run", "flow.py", "--input", "topic=rivers")
    assert waiting.returncode == 3
    look, resume = proposed_command(waiting.stderr, "threads"), proposed_command(waiting.stderr, "resume")
    thread = look[-1]
    shown = statewright(folder, *look)
    assert (shown.returncode, "publish?" in shown.stdout, "waiting" in shown.stdout) == (0, True, True)
    answered = statewright(folder, *(word.replace("VALUE", "yes") for word in resume))
    assert answered.returncode == 0
    assert json.loads(answered.stdout)["notes"] == ["about rivers", "verdict: yes"]

    history = statewright(folder, "threads", "history", thread)
    assert [len(checkpoint) for checkpoint in re.findall("[0-9a-f]{32}", history.stdout)] == [32] * 3
    forked = statewright(folder, "threads", "fork", thread, "--step", 1, "--branch", "no")
    assert forked.returncode == 0
    other = statewright(folder, "resume", thread, "flow.py", "--branch", "no", "--answer", '"no"')
    assert json.loads(other.stdout)["notes"] == ["about rivers", "verdict: no"]
    heads = [
        json.loads(statewright(folder, "threads", "show", thread, "--json", "--branch", name).stdout)["checkpoint"]
        for name in ("main", "no")
    ]
    differ = statewright(folder, "threads", "diff", thread, *heads)
    assert '-  "verdict: yes"' in differ.stdout
    assert '+  "verdict: no"' in differ.stdout

    assert statewright(folder, "threads", "export", thread, "run.thread").returncode == 0
    elsewhere = folder / "elsewhere"
    elsewhere.mkdir()
    assert statewright(elsewhere, "threads", "import", "../run.thread", "--as", "guest").returncode == 0
    imported = statewright(elsewhere, "threads", "history", "guest")
    assert imported.stdout == statewright(folder, "threads", "history", thread).stdout
    assert statewright(folder, "threads", "prune", thread, "--keep", 1).stdout.startswith("Deleted 3 checkpoints")
    assert statewright(folder, "threads", "copy", thread, "copy").returncode == 0
    assert statewright(folder, "threads", "rm", thread).returncode == 0
    listed = json.loads(statewright(folder, "threads", "ls", "--json").stdout)
    assert [record["thread"] for record in listed] == ["copy"]


def test_a_database_is_backed_up_checked_and_restored(folder: Path) -> None:
    statewright(folder, "run", "flow.py", "--input", "topic=rivers", "--thread", "t")
    assert statewright(folder, "db", "backup", "copy.db").returncode == 0
    (folder / ".statewright/runs.db").write_bytes(b"lost")
    lost = statewright(folder, "db", "check")
    assert (lost.returncode, lost.stdout, "runs.db" in lost.stderr) == (1, "", True)
    assert statewright(folder, "db", "restore", "copy.db").returncode == 2
    assert statewright(folder, "db", "restore", "copy.db", "--force").returncode == 0
    assert statewright(folder, "db", "check", "--full").stdout.startswith("ok: ")
    assert statewright(folder, "resume", "t", "flow.py", "--answer", "yes").returncode == 0


def test_a_killed_run_keeps_its_state_and_its_next_node(folder: Path) -> None:
    command = [*STATEWRIGHT, "run", "flow.py:lasting", "--thread", "t", "--input", "topic=rivers"]
    with subprocess.Popen(command, cwd=folder, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "sleeping\n"
        busy = statewright(folder, "resume", "t", "flow.py:lasting")
        assert (busy.returncode, "SW-thread-busy" in busy.stderr) == (1, True)
        assert statewright(folder, "db", "backup", "copy.db").returncode == 0
        used = statewright(folder, "db", "restore", "copy.db")
        assert (used.returncode, "is in use" in used.stderr) == (2, True)
        process.kill()
    shown = json.loads(statewright(folder, "threads", "show", "t", "--json").stdout)
    assert (shown["values"]["notes"], shown["next"]) == (["about rivers"], ["slow"])


def test_a_cancelled_run_can_continue_at_once(folder: Path) -> None:
    command = [*STATEWRIGHT, "run", "flow.py:lasting", "--thread", "t", "--input", "topic=rivers"]
    with subprocess.Popen(command, cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "sleeping\n"
        process.send_signal(signal.SIGINT)
        _, error_output = process.communicate(timeout=600)
    assert (process.returncode, error_output) == (130, "Cancelled.\n")
    text = GRAPH.replace("time.sleep(60)", "return {'notes': ['done']}")
    (folder / "flow.py").write_text(text, encoding="utf-8")
    resumed = statewright(folder, "resume", "t", "flow.py:lasting", "--json")
    assert resumed.returncode == 0
    assert '"done"' in resumed.stdout


def test_a_terminated_run_releases_its_thread(folder: Path) -> None:
    """Otherwise another machine would have to wait for the lease, because it cannot see that the process has ended."""
    command = [*STATEWRIGHT, "run", "flow.py:lasting", "--thread", "t", "--input", "topic=rivers"]
    with subprocess.Popen(command, cwd=folder, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "sleeping\n"
        process.terminate()
        assert process.wait(600) == 143
    with SqliteSaver(folder / ".statewright/runs.db") as saver:
        assert saver.lease("t") is None


def test_release_takes_a_thread_from_its_run(folder: Path) -> None:
    command = [*STATEWRIGHT, "run", "flow.py:lasting", "--thread", "t", "--input", "topic=rivers"]
    with subprocess.Popen(command, cwd=folder, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "sleeping\n"
        released = statewright(folder, "threads", "release", "t")
        assert (released.returncode, released.stdout.startswith("Released thread 't' from run ")) == (0, True)
        process.kill()
    assert statewright(folder, "threads", "release", "t").stdout == "Thread 't' is not held by a run.\n"
    assert statewright(folder, "threads", "release", "u").returncode == 2


def test_the_environment_names_the_database(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("STATEWRIGHT_DATABASE", "mine.db")
    waiting = statewright(folder, "run", "flow.py", "--input", "topic=rivers", "--thread", "t")
    assert "mine.db" not in waiting.stderr
    assert statewright(folder, *proposed_command(waiting.stderr, "threads")).returncode == 0
    assert (folder / "mine.db").exists()
    assert not (folder / ".statewright").exists()


def test_errors_of_every_command_on_threads_have_no_traceback(folder: Path) -> None:
    for command in ("ls", "show t", "history t", "diff t 0 1", "fork t --branch b", "prune --keep 1", "rm t"):
        refused = statewright(folder, "threads", *command.split())
        assert (refused.returncode, refused.stdout, len(refused.stderr.splitlines())) == (2, "", 1)
        assert "Create it with `statewright run FILE.py`" in refused.stderr


@pytest.mark.parametrize("width", [80, 120])
def test_tables_fit_a_terminal(folder: Path, width: int) -> None:
    statewright(folder, "run", "flow.py", "--input", "topic=rivers", "--thread", "t")
    words = ("threads", "history", "t")
    result, output = programs.on_a_screen(*words, cwd=folder, streams=("stdout",), columns=width, NO_COLOR="1")
    assert result.returncode == 0
    output = re.sub("\x1b\\[[0-9;]*m", "", output)
    lines = [line.rstrip() for line in output.splitlines()]
    assert len(lines) == 3
    assert max(map(len, lines)) <= width
    assert all(re.search("[0-9a-f]{32}", line) for line in lines[1:])


def test_a_terminal_shows_the_command_that_shows_the_run(folder: Path) -> None:
    text = GRAPH.replace("interrupt('publish?')", "'yes'")
    (folder / "flow.py").write_text(text, encoding="utf-8")
    words = ("run", "flow.py", "--thread", "t", "--input", "topic=rivers")
    result, output = programs.on_a_screen(*words, cwd=folder, streams=("stderr",))
    assert result.returncode == 0
    assert "statewright threads show t" in output
