"""A killed network is resumed by another process, and no model is called again for a saved response.

The child writes a line before and after each call of a router, a model or a tool. In the call at the point of the test
it waits until it is killed. The tests read this file, not the state: each call is completed once, and only the
interrupted one is begun again.
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
"""The sequence of calls of the run; `tool read a` and `tool note 1` run in parallel to them."""
DONE: Final = sorted([*POINTS, "tool read a", "tool note 1"])
GRACE: Final = 0.2
"""Seconds in which calls parallel to the hanging one end and are saved."""
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
ACTION, DRIVER, HANGS_AT = sys.argv[1:4]

def write(line: str) -> None:
    with Path("calls.txt").open("a", encoding="utf-8") as file:
        file.write(f"{line}\\n")

def begin(label: str) -> None:
    write(f"begin {label}")
    if label == HANGS_AT:
        time.sleep(60)

class Model:
    """Answers by its script, according to the number of its earlier messages."""

    def __init__(self, name, answers):
        self.name, self.answers = name, answers

    async def complete(self, request):
        turn = sum(1 for message in request.messages if message.role == "assistant" and message.name == self.name)
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
input_ = "go" if ACTION == "begin" else None
with SqliteSaver("runs.db") as saver:
    options = {"checkpointer": saver, "thread_id": "t", "durability": "sync"}
    ended = network.run(input_, **options) if DRIVER == "run" else asyncio.run(network.arun(input_, **options))
print(json.dumps({
    "results": [result.agent_name for result in ended.results],
    "tools": [call.tool_call_id for result in ended.results for call in result.tool_calls],
    "texts": [call.text for result in ended.results for call in result.tool_calls],
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


def kill_at(folder: Path, action: str, driver: str, point: str) -> None:
    """Run a child until it is in a call, and kill it there."""
    seen = lines(folder).count(f"begin {point}")
    with child(folder, action, driver, point) as process:
        deadline = time.monotonic() + 600
        while lines(folder).count(f"begin {point}") == seen:
            if process.poll() is not None or time.monotonic() > deadline:
                process.kill()
                pytest.fail(f"The child did not reach {point!r}: {process.communicate()[1]}\n{lines(folder)}")
            time.sleep(0.01)
        time.sleep(GRACE)
        process.send_signal(signal.SIGKILL)
        process.communicate(timeout=600)
    time.sleep(LEASE + 0.1)  # until the lease of the killed child has lapsed


def finish(folder: Path, action: str, driver: str) -> dict[str, Any]:
    with child(folder, action, driver, "nowhere") as process:
        out, err = process.communicate(timeout=600)
    assert process.returncode == 0, err
    return json.loads(out)


RESULT: Final = {
    "results": ["planner", "editor"],
    "tools": ["1", "2", "3", "4", "5"],
    "texts": ["text of a", "noted", "text of b", "noted", "edited"],
    "data": {"notes": [1, 2], "done": True},
    "call_count": 2,
    "stop_reason": "completed",
    "tokens": 60,
}


def completed_calls(folder: Path) -> list[str]:
    return sorted(line.removeprefix("done ") for line in lines(folder) if line.startswith("done "))


def test_a_run_that_is_not_killed_makes_each_call_once(tmp_path: Path) -> None:
    (tmp_path / "child.py").write_text(CHILD, encoding="utf-8")
    assert finish(tmp_path, "begin", "run") == RESULT
    assert completed_calls(tmp_path) == DONE


@pytest.mark.parametrize("driver", ["arun", pytest.param("run", marks=pytest.mark.full)])
def test_a_run_killed_at_every_call_makes_each_call_once(tmp_path: Path, driver: str) -> None:
    (tmp_path / "child.py").write_text(CHILD, encoding="utf-8")
    for number, point in enumerate(POINTS):
        kill_at(tmp_path, "resume" if number else "begin", driver, point)
    assert finish(tmp_path, "resume", driver) == RESULT
    assert completed_calls(tmp_path) == DONE
    begun = Counter(line.removeprefix("begin ") for line in lines(tmp_path) if line.startswith("begin "))
    assert {label: count for label, count in begun.items() if count > 1} == dict.fromkeys(POINTS, 2)


@pytest.mark.parametrize("point", ["tool read b", "router 1", "model coordinator"])
@pytest.mark.sampled(2)
def test_a_killed_run_can_be_resumed_with_the_other_driver(tmp_path: Path, point: str) -> None:
    (tmp_path / "child.py").write_text(CHILD, encoding="utf-8")
    kill_at(tmp_path, "begin", "run", point)
    assert finish(tmp_path, "resume", "arun") == RESULT
    assert completed_calls(tmp_path) == DONE


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
    has_results = any(message.role == "tool" for message in request.messages)
    write(f"model {'2' if has_results else '1'}")
    return "sent it" if has_results else [ToolCall("1", "look"), ToolCall("2", "send", {"to": "all"})]

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

input_ = "go" if sys.argv[1] == "begin" else Command(resume=json.loads(sys.argv[1]))
with SqliteSaver("runs.db") as saver:
    network = Agent("a", model=ScriptedModel(answers), tools=[look, send], max_iter=2).alone()
    ended = network.run(input_, checkpointer=saver, thread_id="t", durability="sync")
    texts = [call.text for result in ended.results for call in result.tool_calls]
    print(json.dumps([[question.value["tool"] for question in ended.interrupts], texts]), flush=True)
    if sys.argv[1] == "begin":
        os.kill(os.getpid(), signal.SIGKILL)
"""


@pytest.mark.parametrize(
    ("decision", "sent", "result"),
    [
        (True, ["send all"], "sent"),
        ({"approved": True, "arguments": {"to": "one"}}, ["send one"], "sent"),
        ("not today", [], "Error: The call of 'send' was refused: not today."),
    ],
    ids=["approved", "edited", "refused"],
)
@pytest.mark.sampled(2)
def test_another_process_can_answer_an_approval(tmp_path: Path, decision: Any, sent: list[str], result: str) -> None:
    (tmp_path / "child.py").write_text(ASKING, encoding="utf-8")
    with child(tmp_path, "begin") as first:
        out, err = first.communicate(timeout=600)
    assert json.loads(out) == [["send"], []], err
    with child(tmp_path, json.dumps(decision)) as second:
        out, err = second.communicate(timeout=600)
    assert second.returncode == 0, err
    assert json.loads(out) == [[], ["seen", result]]
    assert lines(tmp_path) == ["model 1", "look", *sent, "model 2"]
