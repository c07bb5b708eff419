"""The network that writes code: run as by a new user, killed, and with a model behind real HTTP."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import time
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

import pytest
from tests import programs
from tests.provider_server import Answer, Call, ProviderServer

ROOT = Path(__file__).parents[2]
EXAMPLE = ROOT / "examples/code_network"
FIXED = "share, rest = divmod(total, people)"
TOOLS = [
    *["list_files", "read_file", "read_file", "read_file", "create_plan"],
    *["run_tests", "write_file", "run_tests", "write_file", "run_tests", "done"],
]
LEASE = 0.3  # seconds, so that a test need not wait for a minute
KILLABLE = f"""
import runpy, sys
from datetime import timedelta
import statewright.runtime.invocation.run
statewright.runtime.invocation.run.LEASE = timedelta(seconds={LEASE})
sys.path.insert(0, {str(EXAMPLE)!r})
sys.argv = ["code_network.py", *sys.argv[1:]]
runpy.run_path({str(EXAMPLE / "code_network.py")!r}, run_name="__main__")
"""


@pytest.fixture(autouse=True)
def _without_keys(monkeypatch: pytest.MonkeyPatch) -> None:
    """No key of this machine is seen."""
    for name in [name for name in os.environ if name.startswith("OPENAI_")]:
        monkeypatch.delenv(name)


def environment(folder: Path) -> dict[str, str]:
    """The copies of the project are made below the folder of the test."""
    return {"TMPDIR": str(folder), "PYTHONDONTWRITEBYTECODE": "1"}


def example(folder: Path, *args: str, **more: str) -> programs.Ended:
    words = ("--pace", "0", *args)
    return programs.script(EXAMPLE / "code_network.py", *words, cwd=folder, env={**environment(folder), **more})


def killable(folder: Path, *args: str) -> subprocess.Popen[str]:
    command = [sys.executable, "-c", KILLABLE, "--db", "runs.db", "--thread", "t", *args]
    env, out = {**os.environ, **environment(folder)}, subprocess.PIPE
    return subprocess.Popen(command, cwd=folder, stdout=out, stderr=out, text=True, env=env)


def suite(repo: Path) -> int:
    command = [sys.executable, "-B", "-m", "unittest"]
    return subprocess.run(command, cwd=repo, capture_output=True, timeout=600, check=False).returncode


def copy_of(out: str) -> Path:
    return Path(re.search(r"The copy is in (.+)\.$", out, re.M)[1])  # pyright: ignore[reportOptionalSubscript]


def test_the_bug_is_planned_and_fixed_in_a_copy(tmp_path: Path) -> None:
    done = example(tmp_path)
    assert done.returncode == 0, done.stderr
    assert "Tests before: FAILED (failures=2)" in done.stdout
    assert "Tests now: OK" in done.stdout
    assert f"+    {FIXED}" in done.stdout
    assert "- bills/split.py: Divide with divmod" in done.stdout
    assert "after 7 agent calls: completed" in done.stdout
    copy = copy_of(done.stdout)
    assert copy.is_relative_to(tmp_path)
    assert suite(copy) == 0
    assert FIXED not in (EXAMPLE / "project/bills/split.py").read_text(encoding="utf-8")
    assert suite(EXAMPLE / "project") != 0


def test_the_steps_report_the_actual_results_of_the_tools(tmp_path: Path) -> None:
    lines = example(tmp_path).stdout.splitlines()
    assert called(lines) == TOOLS
    assert [line.split()[2] for line in lines if line.startswith("  run_tests")] == ["failed", "failed", "passed"]
    assert '  read_file bills/split.py -> """Splitting of bills. All amounts are in cents.""" ... (9 lines)' in lines
    assert any("test_nobody_pays_more_than_one_cent_more fails" in line for line in lines)


def called(lines: Sequence[str]) -> list[str]:
    """The tools that were called, by the lines that tell of them."""
    return [line.split()[0] for line in lines if " -> " in line]


@pytest.mark.parametrize(
    "last",
    [
        "read_file tests",
        "write_file",
        *(pytest.param(call, marks=pytest.mark.full) for call in ["list_files", "create_plan", "run_tests"]),
    ],
)
def test_a_killed_run_continues_where_it_was(tmp_path: Path, last: str) -> None:
    with killable(tmp_path, "--pace", "0.01") as first:
        assert first.stdout is not None
        before = list(up_to(last, first.stdout))
        first.kill()
        before += first.stdout
    time.sleep(LEASE)
    with killable(tmp_path, "--pace", "0", "--resume") as second:
        out, err = second.communicate(timeout=600)
    assert second.returncode == 0, err
    assert "Tests now: OK" in out
    assert "after 7 agent calls: completed" in out
    assert called(out.splitlines()) == TOOLS[len(called(before)) :]
    assert len(list(tmp_path.glob("code_network-*"))) == 1


def up_to(beginning: str, lines: Iterable[str]) -> Iterator[str]:
    for line in lines:
        yield line
        if line.strip().startswith(beginning):
            return


def test_a_finished_run_is_shown_again_and_a_thread_starts_over(tmp_path: Path) -> None:
    first = example(tmp_path, "--thread", "a")
    shown = example(tmp_path, "--thread", "a", "--resume")
    assert shown.returncode == 0, shown.stderr
    assert copy_of(shown.stdout) == copy_of(first.stdout)
    assert " -> " not in shown.stdout
    again = example(tmp_path, "--thread", "a")
    assert "after 7 agent calls: completed" in again.stdout
    assert copy_of(again.stdout) != copy_of(first.stdout)


def test_a_run_that_cannot_be_resumed_is_one_sentence(tmp_path: Path) -> None:
    nothing = example(tmp_path, "--resume")
    assert nothing.returncode == 2
    assert "--resume needs --thread" in nothing.stderr.splitlines()[-1]
    unknown = example(tmp_path, "--resume", "--thread", "nobody")
    assert (unknown.returncode, len(unknown.stderr.splitlines())) == (1, 1)


def test_a_missing_key_is_one_sentence(tmp_path: Path) -> None:
    done = example(tmp_path, "--model", "openai:gpt-5")
    assert (done.returncode, done.stdout, len(done.stderr.splitlines())) == (1, "", 1)
    assert "OPENAI_API_KEY" in done.stderr


def test_a_model_behind_http_does_the_same(tmp_path: Path) -> None:
    """Its tool calls are carried out, and their results are what it is asked with next."""
    source = (EXAMPLE / "project/bills/split.py").read_text(encoding="utf-8")
    content = re.sub(
        r"    share = .*\n    return .*", f"    {FIXED}\n    return [share + (n < rest) for n in range(people)]", source
    )
    edit = {"filename": "bills/split.py", "idea": "divmod", "reasoning": "nothing is lost"}
    script = [
        Answer("I look.", [Call("list_files", id="1"), Call("read_file", {"path": "../../etc/passwd"}, id="2")]),
        Answer(calls=[Call("create_plan", {"thoughts": "t", "details": "d", "edits": [{"filename": 1}]}, id="3")]),
        Answer(calls=[Call("create_plan", {"thoughts": "t", "details": "d", "edits": [edit]}, id="4")]),
        Answer(
            calls=[
                Call("write_file", {"path": "bills/../tests/test_bills.py", "content": ""}, id="5"),
                Call("write_file", "{no json", id="6"),
                Call("done", {"summary": "too early"}, id="7"),
            ]
        ),
        Answer(
            calls=[
                Call("write_file", {"path": "bills/split.py", "content": content}, id="8"),
                Call("run_tests", id="9"),
                Call("done", {"summary": "It is fixed."}, id="10"),
            ]
        ),
    ]
    with ProviderServer(script) as server:
        done = example(tmp_path, "--model", "openai-chat:test", OPENAI_API_KEY="k", OPENAI_BASE_URL=server.openai_url)
        asked = [request.body for request in server.requests]
    assert done.returncode == 0, done.stdout + done.stderr
    assert "after 5 agent calls: completed" in done.stdout
    told = {
        message["tool_call_id"]: message["content"] for message in asked[-1]["messages"] if message["role"] == "tool"
    }
    assert "is not in the project" in told["2"]
    assert "'edits.0.idea' is missing" in told["3"]
    assert "is a test" in told["5"]
    assert "not a JSON object" in told["6"]
    assert "do not pass yet" in told["7"]
    assert "carry out this plan: d\n- bills/split.py: divmod" in json.dumps(asked[-1]).replace("\\n", "\n")
    assert suite(copy_of(done.stdout)) == 0


def test_the_readme_shows_the_drawing_of_the_network(tmp_path: Path) -> None:
    drawn = example(tmp_path, "--draw")
    readme = (EXAMPLE / "README.md").read_text(encoding="utf-8")
    assert f"```mermaid\n{drawn.stdout.strip()}\n```" in readme
