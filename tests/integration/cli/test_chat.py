"""A conversation on a terminal: what is shown while it comes, stopped, answered, left, killed and come back to."""

from __future__ import annotations

import os
import signal
import sqlite3
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest
from tests.integration.cli.conftest import COMMAND, Here, Process, Statewright

CREW = """
import asyncio
import time
from pathlib import Path

from statewright import interrupt
from statewright.agents import Agent, create_agent, tool
from statewright.messages import ToolCall
from statewright.models import ScriptedModel

@tool(approve=True)
def delete(path: str) -> str:
    \"\"\"Deletes a file.\"\"\"
    return f"{path} is gone"

@tool
def note(text: str) -> str:
    \"\"\"Writes a note, and takes its time.\"\"\"
    with open("notes.txt", "a") as notes:
        notes.write(text + "\\n")
    return "noted"

@tool
def wait() -> str:
    \"\"\"Waits for a file that is called `go`.\"\"\"
    Path("waiting").touch()
    while not Path("go").exists():
        time.sleep(0.02)
    return "went on"

def answer(request):
    last = request.messages[-1]
    if last.role == "tool":
        return ToolCall("2", "wait", {}) if last.text == "noted" else f"So: {last.text}"
    if last.text == "delete":
        return ToolCall("1", "delete", {"path": "a.py"})
    if last.text == "note":
        return ToolCall("1", "note", {"text": "once"})
    if last.text == "wait":
        return ToolCall("1", "wait", {})
    return f"You said {last.text} in message {len(request.messages)}, and that was all."

class Model(ScriptedModel):
    \"\"\"Stops for good before the last word, if it is asked to.\"\"\"

    async def stream(self, request):
        async for event in super().stream(request):
            if "forever" in request.messages[-1].text and getattr(event, "text", "") == " all.":
                await asyncio.sleep(3600)
            yield event

model = Model(answer)
graph = create_agent(model, [delete, note, wait], retries=0)
agent = Agent("helper", model=model, tools=[delete, note, wait], max_iter=5, retries=0)
"""
Start = Callable[..., Here]
StartProcess = Callable[..., Process]
TARGETS = ("crew.py:graph", "crew.py:agent")


@pytest.fixture(autouse=True)
def _crew(folder: Path) -> None:
    (folder / "crew.py").write_text(CREW, encoding="utf-8")


@pytest.mark.parametrize("target", TARGETS)
def test_a_terminal_shows_the_way_back_the_answer_and_its_cost(terminal: Start, target: str) -> None:
    talk = terminal("chat", target, "--thread", "t")
    talk.wait_for(f"\x1b[2mThread t. Continue it later with: statewright chat {target} --thread t\x1b[0m")
    talk.wait_for("> ")
    talk.type("hello\n")
    talk.wait_for("You said hello in message 1, and that was all.\r\n\x1b[2m")
    talk.wait_for("tokens in, ")
    talk.wait_for("> ")
    talk.type("\x04")
    assert talk.end() == 0


@pytest.mark.parametrize("target", TARGETS)
def test_text_is_shown_while_it_comes_and_ctrl_c_stops_it(terminal_process: StartProcess, target: str) -> None:
    talk = terminal_process("chat", target)
    talk.wait_for("> ")
    talk.type("forever\n")
    talk.wait_for("and that was")  # the rest never comes
    talk.interrupt()
    talk.wait_for("Stopped. /retry continues.")
    talk.wait_for("> ")
    talk.type("hello\n")
    talk.wait_for("You said hello in message 2, and that was all.")
    talk.wait_for("> ")
    talk.type("/exit\n")
    assert talk.end() == 0


def test_ctrl_c_stops_a_tool_that_does_not_end_by_itself_and_leaves_at_the_prompt(
    terminal_process: StartProcess,
) -> None:
    talk = terminal_process("chat", "crew.py:graph")
    talk.wait_for("> ")
    talk.type("wait\n")
    talk.wait_for("→ wait {}")
    talk.interrupt()
    talk.wait_for("Stopped.")
    talk.wait_for("> ")
    talk.interrupt()
    Path("go").touch()  # so that its thread comes to an end
    assert talk.end() == 130


@pytest.mark.parametrize("target", TARGETS)
def test_an_approval_is_given_in_place(terminal: Start, target: str) -> None:
    talk = terminal("chat", target)
    talk.wait_for("> ")
    talk.type("delete\n")
    talk.wait_for('→ delete {"path": "a.py"}')
    talk.wait_for("? May delete be called?")
    talk.wait_for("answer> ")
    talk.type("e\n")
    talk.wait_for("arguments> ")
    talk.type('{"path": "b.py"}\n')
    talk.wait_for("← delete: b.py is gone")
    talk.wait_for("So: b.py is gone")
    talk.wait_for("> ")
    talk.type("\x04")
    assert talk.end() == 0


@pytest.mark.parametrize("target", TARGETS)
def test_a_conversation_that_is_left_at_a_question_begins_with_it_again(
    terminal_process: StartProcess, target: str
) -> None:
    left = terminal_process("chat", target, "--thread", "t")
    left.wait_for("> ")
    left.type("delete\n")
    left.wait_for("answer> ")
    left.interrupt()
    assert left.end() == 130
    back = terminal_process("chat", target, "--thread", "t")
    back.wait_for("? May delete be called?")
    back.wait_for("answer> ")
    back.type("y\n")
    back.wait_for("So: a.py is gone")
    back.wait_for("> ")
    back.type("\x04")
    assert back.end() == 0


def test_lines_can_be_called_back(terminal_process: StartProcess) -> None:
    pytest.importorskip("readline")
    talk = terminal_process("chat", "crew.py:graph")
    talk.wait_for("> ")
    talk.type("hello\n")
    talk.wait_for("message 1,")
    talk.wait_for("> ")
    talk.type("\x1b[A\n")
    talk.wait_for("You said hello in message 3,")
    talk.wait_for("> ")
    talk.type("\x04")
    assert talk.end() == 0


def killed_in_the_middle(target: str) -> None:
    """Talk until a tool has written its note and another one waits; then kill -9."""
    with subprocess.Popen([*COMMAND, "chat", target, "--thread", "t"], stdin=subprocess.PIPE) as talk:
        assert talk.stdin is not None
        talk.stdin.write(b"note\n")
        talk.stdin.flush()
        while not Path("waiting").exists():
            assert talk.poll() is None
        os.kill(talk.pid, signal.SIGKILL)


def change_threads(setting: str) -> None:
    connection = sqlite3.connect(".statewright/runs.db")
    with connection:
        connection.execute(f"UPDATE threads SET {setting} WHERE until IS NOT NULL")
    connection.close()


@pytest.mark.parametrize("target", TARGETS)
def test_a_turn_that_was_killed_goes_on_and_does_nothing_twice(statewright: Statewright, target: str) -> None:
    killed_in_the_middle(target)
    Path("go").touch()
    done = statewright("chat", target, "--thread", "t", said="/retry\n")
    assert "The last turn was not finished. /retry continues it." in done.stderr
    assert (done.returncode, done.stdout) == (0, "So: went on\n")
    assert Path("notes.txt").read_text(encoding="utf-8") == "once\n"


def test_a_conversation_waits_while_a_killed_run_of_another_machine_holds_its_thread(terminal: Start) -> None:
    killed_in_the_middle("crew.py:graph")
    change_threads("owner = 'run@elsewhere.1.1.1'")
    Path("go").touch()
    talk = terminal("chat", "crew.py:graph", "--thread", "t")
    talk.wait_for("> ")
    talk.type("/retry\n")
    talk.wait_for("Another run holds the thread. Waiting for it, until ")
    change_threads("until = 1")  # as a minute would
    talk.wait_for("So: went on")
    talk.wait_for("> ")
    talk.type("\x04")
    assert talk.end() == 0


def test_a_pipe_gets_plain_lines(statewright: Statewright) -> None:
    done = statewright("chat", "crew.py:graph", "--thread", "t", said="hello\n")
    assert done.stdout == "You said hello in message 1, and that was all.\n"
    assert "\x1b" not in done.stderr
    assert ">" not in done.stderr
