"""A network killed in the middle, and resumed by another process: no model is called again for a saved response.

The child writes a line before and a line after each call of a router, a model and a tool. At the point that it is told
of it stays within the call until it is killed. So what counts is read from the file, not from the state: each call is
done once, and only the one that was under way is begun again.
"""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path
from typing import Any, Final

import pytest

POINTS: Final = [
    "router 0",
    "model planner 1",
    "tool read b",
    "tool note 2",
    "model planner 2",
    "router 1",
    "model coordinator",
    "choice of coordinator",
    "model editor 1",
    "tool edit",
    "router 2",
]
"""All calls that the run makes one after another; `tool read a` and `tool note 1` beside them."""
DONE: Final = sorted([*POINTS, "tool read a", "tool note 1"])
GRACE: Final = 0.2
"""Seconds in which the calls beside the one that hangs come to their end, and are saved."""
LEASE: Final = 0.2
CHILD: Final = '''
import asyncio, json, sys, time
from datetime import timedelta
from pathlib import Path

import statewright.runtime.invocation.run
from statewright import Command
from statewright.agents import Agent, Network, NetworkRun, RoutingAgent, State, tool
from statewright.messages import Message, ToolCall
from statewright.models import ModelResponse, Usage
from statewright.storage.sqlite import SqliteSaver

statewright.runtime.invocation.run.LEASE = timedelta(milliseconds=200)
HOW, DRIVER, STAYS = sys.argv[1:4]

def write(line: str) -> None:
    with Path("calls.txt").open("a", encoding="utf-8") as file:
        file.write(f"{line}\\n")

def begin(label: str) -> None:
    write(f"begin {label}")
    if label == STAYS:
        time.sleep(60)

class Model:
    """Answers by its script: which answer is due is told by the results that it is shown."""

    def __init__(self, name, answers):
        self.name, self.answers = name, answers

    async def complete(self, request):
        turn = sum(1 for one in request.messages if one.role == "assistant" and one.name == self.name)
        label = f"model {self.name}" + (f" {turn + 1}" if len(self.answers) > 1 or self.name == "editor" else "")
        begin(label)
        answer = self.answers[turn]
        message = Message(answer, role="assistant") if isinstance(answer, str) else Message(
            "", role="assistant", tool_calls=tuple(answer))
        write(f"done {label}")
        return ModelResponse(message, Usage(10, 5))

@tool
def read(path: str) -> str:
    """Read a file."""
    begin(f"tool read {path}")
    write(f"done tool read {path}")
    return f"text of {path}"

@tool
def note(number: int, state: State) -> str:
    """Note a number."""
    begin(f"tool note {number}")
    state.data.notes.append(number)
    write(f"done tool note {number}")
    return "noted"

@tool
def edit(network: NetworkRun) -> str:
    """Edit."""
    begin("tool edit")
    network.state.data.done = True
    write("done tool edit")
    return "edited"

planner = Agent("planner", tools=[read, note], max_iter=2, model=Model("planner", [
    [ToolCall("1", "read", {"path": "a"}), ToolCall("2", "note", {"number": 1}),
     ToolCall("3", "read", {"path": "b"}), ToolCall("4", "note", {"number": 2})],
    "the plan",
]))
editor = Agent("editor", tools=[edit], model=Model("editor", [[ToolCall("5", "edit")]]))

def on_route(result):
    begin("choice of coordinator")
    write("done choice of coordinator")
    return [result.text]

coordinator = RoutingAgent("coordinator", model=Model("coordinator", ["editor"]), on_route=on_route)

def router(network, call_count):
    begin(f"router {call_count}")
    chosen = None if network.state.data.done else coordinator if network.state.data.notes else planner
    write(f"done router {call_count}")
    return chosen

network = Network("crew", agents=[planner, editor], router=router, state={"notes": [], "done": False})
given = "go" if HOW == "begin" else None
with SqliteSaver("runs.db") as saver:
    options = {"checkpointer": saver, "thread_id": "t", "durability": "sync"}
    ended = network.run(given, **options) if DRIVER == "run" else asyncio.run(network.arun(given, **options))
print(json.dumps({
    "results": [one.agent_name for one in ended.results],
    "tools": [one.tool_call_id for result in ended.results for one in result.tool_calls],
    "texts": [one.text for result in ended.results for one in result.tool_calls],
    "data": dict(ended.state.data),
    "call_count": ended.call_count,
    "stop_reason": ended.stop_reason,
    "tokens": ended.usage.tokens,
}))
'''


def child(folder: Path, *words: str) -> subprocess.Popen[str]:
    command = [sys.executable, "child.py", *words]
    return subprocess.Popen(command, cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def lines(folder: Path) -> list[str]:
    path = folder / "calls.txt"
    return path.read_text(encoding="utf-8").splitlines() if path.exists() else []


def kill_at(folder: Path, how: str, driver: str, point: str) -> None:
    """Run a child until it is within a call, and kill it there."""
    seen = lines(folder).count(f"begin {point}")
    with child(folder, how, driver, point) as process:
        give_up = time.monotonic() + 600
        while lines(folder).count(f"begin {point}") == seen:
            if process.poll() is not None or time.monotonic() > give_up:
                process.kill()
                pytest.fail(f"The child never came to {point!r}: {process.communicate()[1]}\n{lines(folder)}")
            time.sleep(0.01)
        time.sleep(GRACE)
        process.send_signal(signal.SIGKILL)
        process.communicate(timeout=600)
    time.sleep(LEASE + 0.1)  # until the lease of the one that was killed has lapsed


def finish(folder: Path, how: str, driver: str) -> dict[str, Any]:
    with child(folder, how, driver, "nowhere") as process:
        out, err = process.communicate(timeout=600)
    assert process.returncode == 0, err
    return json.loads(out)


ENDED: Final = {
    "results": ["planner", "editor"],
    "tools": ["1", "2", "3", "4", "5"],
    "texts": ["text of a", "noted", "text of b", "noted", "edited"],
    "data": {"notes": [1, 2], "done": True},
    "call_count": 2,
    "stop_reason": "completed",
    "tokens": 60,
}


def done_in(folder: Path) -> list[str]:
    return sorted(line.removeprefix("done ") for line in lines(folder) if line.startswith("done "))


def test_a_run_without_a_kill(tmp_path: Path) -> None:
    (tmp_path / "child.py").write_text(CHILD, encoding="utf-8")
    assert finish(tmp_path, "begin", "run") == ENDED
    assert done_in(tmp_path) == DONE


@pytest.mark.parametrize("driver", ["arun", pytest.param("run", marks=pytest.mark.full)])
def test_killed_at_every_point_one_after_the_other(tmp_path: Path, driver: str) -> None:
    (tmp_path / "child.py").write_text(CHILD, encoding="utf-8")
    for number, point in enumerate(POINTS):
        kill_at(tmp_path, "resume" if number else "begin", driver, point)
    assert finish(tmp_path, "resume", driver) == ENDED
    assert done_in(tmp_path) == DONE
    begun = Counter(line.removeprefix("begin ") for line in lines(tmp_path) if line.startswith("begin "))
    assert {label: count for label, count in begun.items() if count > 1} == dict.fromkeys(POINTS, 2)


@pytest.mark.parametrize("point", ["tool read b", "router 1", "model coordinator"])
def test_killed_once_and_resumed_by_the_other_driver(tmp_path: Path, point: str) -> None:
    (tmp_path / "child.py").write_text(CHILD, encoding="utf-8")
    kill_at(tmp_path, "begin", "run", point)
    assert finish(tmp_path, "resume", "arun") == ENDED
    assert done_in(tmp_path) == DONE


ASKING: Final = """
import json, os, signal, sys
from pathlib import Path

from statewright import Command
from statewright.agents import Agent, tool
from statewright.messages import ToolCall
from statewright.models import ScriptedModel
from statewright.storage.sqlite import SqliteSaver

def write(line):
    with Path("calls.txt").open("a", encoding="utf-8") as file:
        file.write(f"{line}\\n")

def answers(request):
    asked = any(one.role == "tool" for one in request.messages)
    write(f"model {'2' if asked else '1'}")
    return "sent it" if asked else [ToolCall("1", "look"), ToolCall("2", "send", {"to": "all"})]

@tool
def look() -> str:
    "Look."
    write("look")
    return "seen"

@tool(approve=True)
def send(to: str) -> str:
    "Send."
    write(f"send {to}")
    return "sent"

given = "go" if sys.argv[1] == "begin" else Command(resume=json.loads(sys.argv[1]))
with SqliteSaver("runs.db") as saver:
    network = Agent("a", model=ScriptedModel(answers), tools=[look, send], max_iter=2).alone()
    ended = network.run(given, checkpointer=saver, thread_id="t", durability="sync")
    told = [one.text for result in ended.results for one in result.tool_calls]
    print(json.dumps([[one.value["tool"] for one in ended.interrupts], told]), flush=True)
    if sys.argv[1] == "begin":
        os.kill(os.getpid(), signal.SIGKILL)
"""


@pytest.mark.parametrize(
    ("decision", "sent", "told"),
    [
        (True, ["send all"], "sent"),
        ({"approved": True, "arguments": {"to": "one"}}, ["send one"], "sent"),
        ("not today", [], "Error: The call of 'send' was refused: not today."),
    ],
    ids=["approved", "edited", "refused"],
)
def test_an_approval_that_another_process_gives(tmp_path: Path, decision: Any, sent: list[str], told: str) -> None:
    (tmp_path / "child.py").write_text(ASKING, encoding="utf-8")
    with child(tmp_path, "begin") as first:
        out, err = first.communicate(timeout=600)
    assert json.loads(out) == [["send"], []], err
    with child(tmp_path, json.dumps(decision)) as second:
        out, err = second.communicate(timeout=600)
    assert second.returncode == 0, err
    assert json.loads(out) == [[], ["seen", told]]
    assert lines(tmp_path) == ["model 1", "look", *sent, "model 2"]
