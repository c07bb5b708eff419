"""An assistant that is killed during its tool calls: finished calls and requests are not repeated."""

from __future__ import annotations

import signal
import subprocess
import sys
import time
from pathlib import Path

FLOW = """
enable_summarization_node: false
assistants: [{id: a, system_prompt: p, tools: [{name: work}]}]
states: [{id: s, assistant_id: a, task: go, next: {state_id: end}}]
"""
CHILD = """
import sys, time
from pathlib import Path
from datetime import timedelta
import statewright.runtime.invocation.run
from statewright.messages import Message, ToolCall
from statewright.models import ScriptedModel
from statewright.storage.sqlite import SqliteSaver
from statewright.workflow.states import load_workflow

statewright.runtime.invocation.run.LEASE = timedelta(milliseconds=300)
slow = 60.0 if sys.argv[1] == "begin" else 0.0

def note(line):
    with Path("notes.txt").open("a", encoding="utf-8") as file:
        file.write(line + "\\n")

def work(number: int) -> int:
    note(f"begin {number}")
    time.sleep(slow if number > 2 else 0)
    note(f"end {number}")
    return number

def answer(request):
    results = [message.text for message in request.messages if message.role == "tool"]
    note(f"model {len(results)}")
    if len(results) == 6:
        return "got " + " ".join(results)
    first = 3 * (len(results) // 3)
    return Message("", role="assistant", tool_calls=tuple(
        ToolCall(f"c{n}", "work", {"number": n}) for n in range(first, first + 3)))

with SqliteSaver("runs.db") as saver:
    app = load_workflow(Path("flow.yaml")).compile(
        models=ScriptedModel(answer), tools={"work": work}, checkpointer=saver)
    start = {"input": "go"} if sys.argv[1] == "begin" else None
    print(app.invoke(start, thread_id="t", durability="sync")["result"], flush=True)
"""


def start_process(folder: Path, mode: str) -> subprocess.Popen[str]:
    command = [sys.executable, "child.py", mode]
    return subprocess.Popen(command, cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def read_notes(folder: Path) -> list[str]:
    file = folder / "notes.txt"
    return file.read_text(encoding="utf-8").splitlines() if file.exists() else []


def test_finished_tool_calls_are_not_repeated(tmp_path: Path) -> None:
    (tmp_path / "flow.yaml").write_text(FLOW, encoding="utf-8")
    (tmp_path / "child.py").write_text(CHILD, encoding="utf-8")
    with start_process(tmp_path, "begin") as first:
        until = time.monotonic() + 600
        while "begin 5" not in read_notes(tmp_path) and time.monotonic() < until:
            time.sleep(0.02)
        first.send_signal(signal.SIGKILL)
    before = read_notes(tmp_path)
    assert {"model 0", "model 3", "end 0", "end 1", "end 2", "begin 5"} <= set(before)
    assert "end 5" not in before

    time.sleep(0.4)  # until the lease of the killed process has expired
    with start_process(tmp_path, "resume") as second:
        out, err = second.communicate(timeout=600)
    assert out.strip() == "got 0 1 2 3 4 5", err
    after = read_notes(tmp_path)[len(before) :]
    assert sorted(line for line in after if line.startswith("begin")) == ["begin 3", "begin 4", "begin 5"]
    assert [line for line in after if line.startswith("model")] == ["model 6"]
