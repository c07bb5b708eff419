"""The network that writes code: run as by a new user, killed and resumed, and with a model over HTTP."""

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
    """Hide the keys of this machine."""
    for name in [name for name in os.environ if name.startswith("OPENAI_")]:
        monkeypatch.delenv(name)


def environment(folder: Path) -> dict[str, str]:
    """Return variables that put the copies of the project into the folder of the test."""
    return {"TMPDIR": str(folder), "PYTHONDONTWRITEBYTECODE": "1"}


def example(folder: Path, *args: str, **variables: str) -> programs.Ended:
    words = ("--pace", "0", *args)
    return programs.script(EXAMPLE / "code_network.py", *words, cwd=folder, env={**environment(folder), **variables})


def killable(folder: Path, *args: str) -> subprocess.Popen[str]:
    command = [sys.executable, "-c", KILLABLE, "--db", "runs.db", "--thread", "t", *args]
    env, out = {**os.environ, **environment(folder)}, subprocess.PIPE
    return subprocess.Popen(command, cwd=folder, stdout=out, stderr=out, text=True, env=env)


def run_tests_of(repo: Path) -> int:
    command = [sys.executable, "-B", "-m", "unittest"]
    return subprocess.run(command, cwd=repo, capture_output=True, timeout=600, check=False).returncode


def project_copy(out: str) -> Path:
    return Path(re.search(r"The copy is in (.+)\.$", out, re.M)[1])  # pyright: ignore[reportOptionalSubscript]


def test_the_bug_is_planned_and_fixed_in_a_copy(tmp_path: Path) -> None:
    result = example(tmp_path)
    assert result.returncode == 0, result.stderr
    assert "Tests before: FAILED (failures=2)" in result.stdout
    assert "Tests now: OK" in result.stdout
    assert f"+    {FIXED}" in result.stdout
    assert "- bills/split.py: Divide with divmod" in result.stdout
    assert "after 7 agent calls: completed" in result.stdout
    copy = project_copy(result.stdout)
    assert copy.is_relative_to(tmp_path)
    assert run_tests_of(copy) == 0
    assert FIXED not in (EXAMPLE / "project/bills/split.py").read_text(encoding="utf-8")
    assert run_tests_of(EXAMPLE / "project") != 0


def test_the_steps_report_the_actual_results_of_the_tools(tmp_path: Path) -> None:
    lines = example(tmp_path).stdout.splitlines()
    assert called_tools(lines) == TOOLS
    assert [line.split()[2] for line in lines if line.startswith("  run_tests")] == ["failed", "failed", "passed"]
    assert '  read_file bills/split.py -> """Splitting of bills. All amounts are in cents.""" ... (9 lines)' in lines
    assert any("test_nobody_pays_more_than_one_cent_more fails" in line for line in lines)


def called_tools(lines: Sequence[str]) -> list[str]:
    """Return the names of the called_tools tools."""
    return [line.split()[0] for line in lines if " -> " in line]


@pytest.mark.parametrize(
    "last",
    [
        "read_file tests",
        "write_file",
        *(pytest.param(call, marks=pytest.mark.full) for call in ["list_files", "create_plan", "run_tests"]),
    ],
)
def test_a_killed_run_continues_where_it_stopped(tmp_path: Path, last: str) -> None:
    with killable(tmp_path, "--pace", "0.01") as first:
        assert first.stdout is not None
        before = list(read_up_to(last, first.stdout))
        first.kill()
        before += first.stdout
    time.sleep(LEASE)
    with killable(tmp_path, "--pace", "0", "--resume") as second:
        out, err = second.communicate(timeout=600)
    assert second.returncode == 0, err
    assert "Tests now: OK" in out
    assert "after 7 agent calls: completed" in out
    assert called_tools(out.splitlines()) == TOOLS[len(called_tools(before)) :]
    assert len(list(tmp_path.glob("code_network-*"))) == 1


def read_up_to(prefix: str, lines: Iterable[str]) -> Iterator[str]:
    for line in lines:
        yield line
        if line.strip().startswith(prefix):
            return


def test_a_finished_run_is_shown_again_or_started_again(tmp_path: Path) -> None:
    first = example(tmp_path, "--thread", "a")
    shown = example(tmp_path, "--thread", "a", "--resume")
    assert shown.returncode == 0, shown.stderr
    assert project_copy(shown.stdout) == project_copy(first.stdout)
    assert " -> " not in shown.stdout
    again = example(tmp_path, "--thread", "a")
    assert "after 7 agent calls: completed" in again.stdout
    assert project_copy(again.stdout) != project_copy(first.stdout)


def test_a_run_that_cannot_be_resumed_is_reported_in_one_line(tmp_path: Path) -> None:
    nothing = example(tmp_path, "--resume")
    assert nothing.returncode == 2
    assert "--resume needs --thread" in nothing.stderr.splitlines()[-1]
    unknown = example(tmp_path, "--resume", "--thread", "nobody")
    assert (unknown.returncode, len(unknown.stderr.splitlines())) == (1, 1)


def test_a_missing_key_is_reported_in_one_line(tmp_path: Path) -> None:
    result = example(tmp_path, "--model", "openai:gpt-5")
    assert (result.returncode, result.stdout, len(result.stderr.splitlines())) == (1, "", 1)
    assert "OPENAI_API_KEY" in result.stderr


def test_a_model_over_http_fixes_the_bug(tmp_path: Path) -> None:
    """Its tool calls are executed, and the next request contains their results."""
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
        result = example(tmp_path, "--model", "openai-chat:test", OPENAI_API_KEY="k", OPENAI_BASE_URL=server.openai_url)
        requests = [request.body for request in server.requests]
    assert result.returncode == 0, result.stdout + result.stderr
    assert "after 5 agent calls: completed" in result.stdout
    results = {
        message["tool_call_id"]: message["content"] for message in requests[-1]["messages"] if message["role"] == "tool"
    }
    assert "is not in the project" in results["2"]
    assert "'edits.0.idea' is missing" in results["3"]
    assert "is a test" in results["5"]
    assert "not a JSON object" in results["6"]
    assert "do not pass yet" in results["7"]
    assert "carry out this plan: d\n- bills/split.py: divmod" in json.dumps(requests[-1]).replace("\\n", "\n")
    assert run_tests_of(project_copy(result.stdout)) == 0


def test_the_readme_shows_the_drawing_of_the_network(tmp_path: Path) -> None:
    drawing = example(tmp_path, "--draw")
    readme = (EXAMPLE / "README.md").read_text(encoding="utf-8")
    assert f"```mermaid\n{drawing.stdout.strip()}\n```" in readme
