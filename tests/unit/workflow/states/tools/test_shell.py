"""The tool `run_command`."""

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


def test_the_result_has_the_exit_code_and_the_outputs(tmp_path: Path) -> None:
    code = "import sys; print('out'); print('err', file=sys.stderr); sys.exit(3)"
    assert run(tmp_path, python(code)) == {"exit_code": 3, "stdout": "out\n", "stderr": "err\n"}


def test_a_program_runs_in_the_folder_without_input(tmp_path: Path) -> None:
    result = run(tmp_path, python("import os, sys; print(os.getcwd(), repr(sys.stdin.read()))"))
    assert result["stdout"] == f"{tmp_path.resolve()} ''\n"


def test_commands_are_not_interpreted_by_a_shell(tmp_path: Path) -> None:
    for command in ("echo $HOME; touch x > y && `id` *", ["echo", "$HOME; touch x", ">", "y", "&&", "`id`", "*"]):
        result = run(tmp_path, command)
        assert "$HOME" in result["stdout"]
        assert "`id`" in result["stdout"]
    assert list(tmp_path.iterdir()) == []


def test_4_1_11_the_environment_has_no_secrets(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "s3cret-value")
    monkeypatch.setenv("LC_TEST", "kept")
    result = run(tmp_path, ["env"])
    assert "s3cret" not in result["stdout"]
    assert "LC_TEST=kept" in result["stdout"]
    assert "PATH=" in result["stdout"]


def test_a_timeout_stops_the_program_and_its_children(tmp_path: Path) -> None:
    code = "import os, subprocess, time; p = subprocess.Popen(['sleep', '600']); open('x', 'w').write(str(p.pid)); "
    code += "os.rename('x', 'pid'); time.sleep(600)"
    for seconds in longer_and_longer():
        with pytest.raises(ToolError, match=rf"was stopped after {seconds:g} s"):
            run(tmp_path, python(code), seconds=seconds)
        if (tmp_path / "pid").exists():
            break
    pid = int((tmp_path / "pid").read_text())
    deadline = time.monotonic() + 600
    while is_running(pid) and time.monotonic() < deadline:
        time.sleep(0.01)
    assert not is_running(pid)


def test_background_processes_of_a_program_are_not_awaited(tmp_path: Path) -> None:
    code = "import subprocess; subprocess.Popen(['sleep', '600']); print('done', flush=True)"
    assert run(tmp_path, python(code), seconds=120)["stdout"] == "done\n"


def test_cancelling_a_call_stops_the_program(tmp_path: Path) -> None:
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


def test_long_outputs_are_truncated_while_the_program_continues(tmp_path: Path) -> None:
    result = run(tmp_path, python("print('x' * 1_000_000); open('end', 'w')"), limit=10)
    assert result["stdout"] == "x" * 10 + "\n[The first 10 of 1000001 bytes.]"
    assert (tmp_path / "end").exists()


@pytest.mark.parametrize(
    ("command", "sentence"),
    [
        ("", "is empty"), ([], "is empty"), ([""], "is empty"), ("echo 'a", "cannot be split"),
        ("no-such-program-here", "Program 'no-such-program-here' does not exist"),
        (["echo", "a\0b"], "cannot be started"),
    ],
)  # fmt: skip
def test_invalid_commands_are_rejected(tmp_path: Path, command: list[str] | str, sentence: str) -> None:
    with pytest.raises(ToolError, match=sentence):
        run(tmp_path, command)


def test_a_missing_folder_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(ToolError, match=r"Folder .* does not exist"):
        run(tmp_path / "none", "echo a")


def test_a_string_is_split_as_in_a_shell() -> None:
    assert split_command("git commit -m 'two words'") == ["git", "commit", "-m", "two words"]
    assert split_command(["a b", ""]) == ["a b", ""]


def test_arguments_of_a_list_are_converted_to_strings() -> None:
    assert split_command(["echo", 5, True, [1, "é"], {"a": None}]) == ["echo", "5", "true", '[1, "é"]', '{"a": null}']


def test_a_program_runs_on_an_event_loop_of_another_thread(tmp_path: Path) -> None:
    from statewright.runtime.concurrency.private_loop import run_on_private_loop

    shell = Shell(tmp_path, limit=1000, seconds=300)
    assert run_on_private_loop(shell.run_command, ["pwd"])["stdout"] == f"{os.path.realpath(tmp_path)}\n"
