"""`statewright chat` on a terminal: text is streamed, Ctrl-C stops it, questions are answered, turns continue."""

from __future__ import annotations

import os
import signal
import sqlite3
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest
from tests.integration.cli.conftest import COMMAND, InProcessTerminal, ProcessTerminal, Statewright

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
    \"\"\"Waits for an hour before the last word if the message contains `forever`.\"\"\"

    async def stream(self, request):
        async for event in super().stream(request):
            if "forever" in request.messages[-1].text and getattr(event, "text", "") == " all.":
                await asyncio.sleep(3600)
            yield event

model = Model(answer)
graph = create_agent(model, [delete, note, wait], retries=0)
agent = Agent("helper", model=model, tools=[delete, note, wait], max_iter=5, retries=0)
"""
Start = Callable[..., InProcessTerminal]
StartProcess = Callable[..., ProcessTerminal]
TARGETS = ("crew.py:graph", "crew.py:agent")


@pytest.fixture(autouse=True)
def _crew(folder: Path) -> None:
    (folder / "crew.py").write_text(CREW, encoding="utf-8")


@pytest.mark.parametrize("target", TARGETS)
def test_a_terminal_shows_how_to_continue_the_answer_and_its_cost(terminal: Start, target: str) -> None:
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
@pytest.mark.sampled(2)
def test_text_is_shown_as_it_arrives_and_ctrl_c_stops_it(terminal_process: StartProcess, target: str) -> None:
    talk = terminal_process("chat", target)
    talk.wait_for("> ")
    talk.type("forever\n")
    talk.wait_for("and that was")  # the rest never comes
    talk.interrupt()
    talk.wait_for("Stopped. Type /retry to continue.")
    talk.wait_for("> ")
    talk.type("hello\n")
    talk.wait_for("You said hello in message 2, and that was all.")
    talk.wait_for("> ")
    talk.type("/exit\n")
    assert talk.end() == 0


def test_ctrl_c_stops_a_running_tool_and_at_the_prompt_ends_the_chat(
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
    Path("go").touch()  # so that the thread of the tool ends
    assert talk.end() == 130


@pytest.mark.parametrize("target", TARGETS)
def test_a_tool_is_approved_within_the_conversation(terminal: Start, target: str) -> None:
    talk = terminal("chat", target)
    talk.wait_for("> ")
    talk.type("delete\n")
    talk.wait_for('→ delete {"path": "a.py"}')
    talk.wait_for("? Allow the call of delete?")
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
@pytest.mark.sampled(2)
def test_a_resumed_conversation_starts_with_its_open_question(terminal_process: StartProcess, target: str) -> None:
    left = terminal_process("chat", target, "--thread", "t")
    left.wait_for("> ")
    left.type("delete\n")
    left.wait_for("answer> ")
    left.interrupt()
    assert left.end() == 130
    back = terminal_process("chat", target, "--thread", "t")
    back.wait_for("? Allow the call of delete?")
    back.wait_for("answer> ")
    back.type("y\n")
    back.wait_for("So: a.py is gone")
    back.wait_for("> ")
    back.type("\x04")
    assert back.end() == 0


def test_arrow_up_recalls_the_last_line(terminal_process: StartProcess) -> None:
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


def kill_in_the_middle_of_a_turn(target: str) -> None:
    """Talk until one tool has written its note and another one waits, then kill the process."""
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
@pytest.mark.sampled(2)
def test_a_turn_of_a_killed_process_continues_and_repeats_no_tool_call(statewright: Statewright, target: str) -> None:
    kill_in_the_middle_of_a_turn(target)
    Path("go").touch()
    result = statewright("chat", target, "--thread", "t", stdin="/retry\n")
    assert "The last turn was not finished. /retry continues it." in result.stderr
    assert (result.returncode, result.stdout) == (0, "So: went on\n")
    assert Path("notes.txt").read_text(encoding="utf-8") == "once\n"


def test_a_conversation_waits_for_the_lease_of_a_killed_run_of_another_machine(terminal: Start) -> None:
    kill_in_the_middle_of_a_turn("crew.py:graph")
    change_threads("owner = 'run@elsewhere.1.1.1'")
    Path("go").touch()
    talk = terminal("chat", "crew.py:graph", "--thread", "t")
    talk.wait_for("> ")
    talk.type("/retry\n")
    talk.wait_for("Another run holds the thread. Waiting for it, until ")
    change_threads("until = 1")  # as if a minute had passed
    talk.wait_for("So: went on")
    talk.wait_for("> ")
    talk.type("\x04")
    assert talk.end() == 0


def test_output_to_a_pipe_is_plain(statewright: Statewright) -> None:
    result = statewright("chat", "crew.py:graph", "--thread", "t", stdin="hello\n")
    assert result.stdout == "You said hello in message 1, and that was all.\n"
    assert "\x1b" not in result.stderr
    assert ">" not in result.stderr
