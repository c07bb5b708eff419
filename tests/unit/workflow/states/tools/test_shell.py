"""The tool that runs programs."""

from __future__ import annotations

import asyncio
import os
import sys
import time
from pathlib import Path
from typing import Any

import pytest
from tests.work import longer_and_longer

from statewright.errors import ToolError
from statewright.workflow.states.tools.shell import Shell, split_command

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="POSIX programs")


def run(folder: Path, command: list[str] | str, *, limit: int = 200_000, seconds: float = 300) -> dict[str, Any]:
    return asyncio.run(Shell(folder, limit=limit, seconds=seconds).run_command(command))


def python(code: str) -> list[str]:
    return [sys.executable, "-c", code]


def is_running(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def test_a_program_answers_with_its_code_and_outputs(tmp_path: Path) -> None:
    code = "import sys; print('out'); print('err', file=sys.stderr); sys.exit(3)"
    assert run(tmp_path, python(code)) == {"exit_code": 3, "stdout": "out\n", "stderr": "err\n"}


def test_it_runs_in_the_folder_without_input(tmp_path: Path) -> None:
    done = run(tmp_path, python("import os, sys; print(os.getcwd(), repr(sys.stdin.read()))"))
    assert done["stdout"] == f"{tmp_path.resolve()} ''\n"


def test_no_shell_reads_the_command(tmp_path: Path) -> None:
    for command in ("echo $HOME; touch x > y && `id` *", ["echo", "$HOME; touch x", ">", "y", "&&", "`id`", "*"]):
        done = run(tmp_path, command)
        assert "$HOME" in done["stdout"]
        assert "`id`" in done["stdout"]
    assert list(tmp_path.iterdir()) == []


def test_4_1_11_the_environment_has_no_secrets(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "s3cret-value")
    monkeypatch.setenv("LC_TEST", "kept")
    done = run(tmp_path, ["env"])
    assert "s3cret" not in done["stdout"]
    assert "LC_TEST=kept" in done["stdout"]
    assert "PATH=" in done["stdout"]


def test_time_is_limited_and_what_was_started_ends_too(tmp_path: Path) -> None:
    code = "import os, subprocess, time; p = subprocess.Popen(['sleep', '600']); open('x', 'w').write(str(p.pid)); "
    code += "os.rename('x', 'pid'); time.sleep(600)"
    for seconds in longer_and_longer():
        with pytest.raises(ToolError, match=rf"was stopped after {seconds:g} s"):
            run(tmp_path, python(code), seconds=seconds)
        if (tmp_path / "pid").exists():
            break
    pid = int((tmp_path / "pid").read_text())
    until = time.monotonic() + 600
    while is_running(pid) and time.monotonic() < until:
        time.sleep(0.01)
    assert not is_running(pid)


def test_a_program_that_leaves_another_one_behind_is_not_waited_for(tmp_path: Path) -> None:
    code = "import subprocess; subprocess.Popen(['sleep', '600']); print('done', flush=True)"
    assert run(tmp_path, python(code), seconds=120)["stdout"] == "done\n"


def test_a_cancelled_call_stops_the_program(tmp_path: Path) -> None:
    async def main() -> None:
        code = "import os, time; open('pid', 'w').write(str(os.getpid())); os.rename('pid', 'ready'); time.sleep(60)"
        shell = Shell(tmp_path, limit=1000, seconds=300)
        task = asyncio.create_task(shell.run_command(python(code)))
        while not (tmp_path / "ready").exists():
            await asyncio.sleep(0.01)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    asyncio.run(main())
    assert not is_running(int((tmp_path / "ready").read_text()))


def test_outputs_are_limited_and_the_program_goes_on(tmp_path: Path) -> None:
    done = run(tmp_path, python("print('x' * 1_000_000); open('end', 'w')"), limit=10)
    assert done["stdout"] == "x" * 10 + "\n[The first 10 of 1000001 bytes.]"
    assert (tmp_path / "end").exists()


@pytest.mark.parametrize(
    ("command", "sentence"),
    [
        ("", "is empty"), ([], "is empty"), ([""], "is empty"), ("echo 'a", "cannot be split"),
        ("no-such-program-here", "Program 'no-such-program-here' does not exist"),
        (["echo", "a\0b"], "cannot be started"),
    ],
)  # fmt: skip
def test_what_cannot_be_run_is_told(tmp_path: Path, command: list[str] | str, sentence: str) -> None:
    with pytest.raises(ToolError, match=sentence):
        run(tmp_path, command)


def test_a_folder_that_is_not_there_is_told(tmp_path: Path) -> None:
    with pytest.raises(ToolError, match=r"Folder .* does not exist"):
        run(tmp_path / "none", "echo a")


def test_a_text_is_split_as_a_shell_would() -> None:
    assert split_command("git commit -m 'two words'") == ["git", "commit", "-m", "two words"]
    assert split_command(["a b", ""]) == ["a b", ""]


def test_arguments_of_a_list_become_text() -> None:
    assert split_command(["echo", 5, True, [1, "é"], {"a": None}]) == ["echo", "5", "true", '[1, "é"]', '{"a": null}']


def test_it_works_on_a_loop_of_another_thread(tmp_path: Path) -> None:
    from statewright.runtime.concurrency.private_loop import run_on_private_loop

    shell = Shell(tmp_path, limit=1000, seconds=300)
    assert run_on_private_loop(shell.run_command, ["pwd"])["stdout"] == f"{os.path.realpath(tmp_path)}\n"
