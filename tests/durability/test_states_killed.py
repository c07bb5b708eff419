"""A workflow of states that is killed during an iteration does not compute reported results again."""

from __future__ import annotations

import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

FLOW = """
enable_summarization_node: false
max_concurrency: 4
tools: [{id: lister, tool: list_items}, {id: worker, tool: work}, {id: counter, tool: count}]
states:
- {id: split, tool_id: lister, next: {state_id: first, iter_key: items}}
- {id: first, tool_id: worker, tool_args: {stage: first, item: "{{task}}"}, next: {state_id: second, iter_key: items}}
- {id: second, tool_id: worker, tool_args: {stage: second, item: "{{task}}"}, next: {state_id: merge}}
- {id: merge, tool_id: counter, tool_args: {items: "{{items}}"}, next: {state_id: end}}
"""
CHILD = """
import json, sys, time
from pathlib import Path
from datetime import timedelta
import statewright.runtime.invocation.run
from statewright.storage.sqlite import SqliteSaver
from statewright.workflow.states import load_workflow

statewright.runtime.invocation.run.LEASE = timedelta(milliseconds=300)

def list_items() -> dict:
    return {"items": [f"item {number}" for number in range(20)]}

def work(stage: str, item: str) -> dict:
    with Path("calls.txt").open("a", encoding="utf-8") as file:
        file.write(f"{stage} {item}\\n")
    time.sleep(0.05)
    return {item: stage}

def count(items: list) -> dict:
    return {"count": len(items)}

workflow = load_workflow(Path("flow.yaml"))
with SqliteSaver("runs.db") as saver:
    app = workflow.compile(tools={"list_items": list_items, "work": work, "count": count}, checkpointer=saver)
    input_ = {"input": "go"} if sys.argv[1] == "begin" else None
    for part in app.stream(input_, thread_id="t", stream_mode="tasks", durability="sync"):
        if "result" in part and part["name"] in ("first", "second"):
            (visit,) = part["result"]["visits"]
            print(f"{visit.state} {next(iter(visit.output))}", flush=True)
    values = app.get_state({"configurable": {"thread_id": "t"}}).values
    print(json.dumps({"context": values["context"], "visits": len(values["visits"])}), flush=True)
"""


def child(folder: Path, action: str) -> subprocess.Popen[str]:
    command = [sys.executable, "child.py", action]
    return subprocess.Popen(command, cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


@pytest.mark.parametrize("reported", [3, 17, 24])
def test_finished_branches_do_not_run_again(tmp_path: Path, reported: int) -> None:
    (tmp_path / "flow.yaml").write_text(FLOW, encoding="utf-8")
    (tmp_path / "child.py").write_text(CHILD, encoding="utf-8")
    with child(tmp_path, "begin") as first:
        assert first.stdout is not None
        finished = [first.stdout.readline().strip() for _ in range(reported)]
        first.send_signal(signal.SIGKILL)
        finished += first.stdout.read().split("\n")[:-1]
    before = (tmp_path / "calls.txt").read_text(encoding="utf-8").split("\n")[:-1]
    assert len(before) < 40

    time.sleep(0.4)  # until the lease of the killed child has lapsed
    with child(tmp_path, "resume") as second:
        out, err = second.communicate(timeout=600)
    assert '"count": 20' in out, err
    assert '"visits": 42' in out
    after = (tmp_path / "calls.txt").read_text(encoding="utf-8").split("\n")[len(before) : -1]
    assert set(after) & set(finished) == set()
    assert set(before) | set(after) == {f"{stage} item {n}" for stage in ("first", "second") for n in range(20)}
