"""The command line with pipes, and on a terminal with somebody who types."""

from __future__ import annotations

import os
import pty
import select
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from tests import programs
from tests.provider_server import ProviderServer

COMMAND = [sys.executable, "-m", "statewright"]
PATIENCE = 600.0
"""Seconds for what takes a moment."""


class Terminal:
    """A terminal that a command is started on, with somebody who types."""

    def __init__(self) -> None:
        self.seen = ""
        """Everything that was shown so far."""
        self._read = 0

    def wait_for(self, text: str) -> str:
        """What is shown up to a text, which was not waited for before."""
        end = time.monotonic() + PATIENCE
        while (place := self.seen.find(text, self._read)) < 0:
            assert time.monotonic() < end, f"{text!r} was not shown: {self.seen[self._read :]!r}"
            assert self._receive(), f"The command ended without {text!r}: {self.seen[self._read :]!r}"
        shown, self._read = self.seen[self._read : place], place + len(text)
        return shown

    def type(self, text: str) -> None:
        os.write(self._ours, text.encode())

    def end(self) -> int:
        """The exit code, once the command has ended."""
        end = time.monotonic() + PATIENCE
        while self._receive():
            assert time.monotonic() < end, f"The command did not end: {self.seen[self._read :]!r}"
        return self._exit_code()

    def _receive(self) -> bool:
        """Take what is there within a moment; false once there will be nothing more."""
        ready, _, _ = select.select([self._ours], [], [], 0.2)
        if not ready:
            return True
        try:
            received = os.read(self._ours, 65536)
        except OSError:  # how Linux says that nobody has the terminal any more
            return False
        self.seen += received.decode(errors="replace")
        return bool(received)

    _ours: int

    def _exit_code(self) -> int:
        raise NotImplementedError

    def close(self) -> None:
        raise NotImplementedError


class Here(Terminal):
    """The command runs in a thread of this process: enough where nobody presses Ctrl-C, and nothing is killed."""

    def __init__(self, *args: object, columns: int = 100) -> None:
        super().__init__()
        self._screen = programs.Screen(columns)
        self._ours = self._screen.ours
        self._ended: list[int] = []
        self._thread = threading.Thread(target=self._run, args=args, daemon=True)
        self._thread.start()

    def _run(self, *args: object) -> None:
        with self._screen.streams() as streams:
            ended = programs.statewright(*args, env=self._screen.env, terminal=streams)
        self._ended.append(ended.returncode)
        self._screen.hang_up()

    def _exit_code(self) -> int:
        self._thread.join(PATIENCE)
        return self._ended[0]

    def close(self) -> None:
        while self._thread.is_alive():  # the test has failed in the middle
            self.type("\x04")
            self._thread.join(0.5)
        self._screen.close()


class Process(Terminal):
    """The command runs in a process of its own, which has the terminal for its own."""

    def __init__(self, *args: object, columns: int = 100) -> None:
        super().__init__()
        self._pid, self._ours = pty.fork()
        if not self._pid:
            os.environ.update({"TERM": "xterm", "COLUMNS": str(columns)})
            os.environ.pop("NO_COLOR", None)
            os.execv(sys.executable, [*COMMAND, *map(str, args)])

    def interrupt(self) -> None:
        """Press Ctrl-C once the main thread waits: between a prompt and the wait for a key Python hears no signal."""
        status, times_asleep = Path(f"/proc/{self._pid}/stat"), 0
        while times_asleep < 10:
            time.sleep(0.02)
            is_asleep = not status.exists() or status.read_text().rpartition(")")[2].split()[0] == "S"
            times_asleep = times_asleep + 1 if is_asleep else 0
        self.type("\x03")

    def _exit_code(self) -> int:
        _, status = os.waitpid(self._pid, 0)
        self._pid = 0
        return os.waitstatus_to_exitcode(status)

    def close(self) -> None:
        if self._pid:
            os.kill(self._pid, signal.SIGKILL)
            os.waitpid(self._pid, 0)
        os.close(self._ours)


Statewright = Callable[..., "subprocess.CompletedProcess[str]"]


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty working folder, and an environment without keys."""
    monkeypatch.chdir(tmp_path)
    for name in ("STATEWRIGHT_DATABASE", "OPENAI_API_KEY", "OPENAI_BASE_URL", "ANTHROPIC_API_KEY"):
        monkeypatch.delenv(name, raising=False)
    return tmp_path


@pytest.fixture
def statewright() -> Statewright:
    """Runs a command with what it is told by a pipe."""

    def run(*args: object, said: str = "") -> subprocess.CompletedProcess[str]:
        return programs.statewright(*args, said=said)

    return run


@pytest.fixture
def terminal(monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[..., Here]]:
    """Starts commands on terminals, in this process: one at a time."""
    monkeypatch.delenv("NO_COLOR", raising=False)
    started: list[Here] = []

    def start(*args: object, columns: int = 100) -> Here:
        started.append(Here(*args, columns=columns))
        return started[-1]

    yield start
    for one in started:
        one.close()


@pytest.fixture
def terminal_process() -> Iterator[Callable[..., Process]]:
    """Starts commands on terminals, in processes of their own."""
    started: list[Process] = []

    def start(*args: object, columns: int = 100) -> Process:
        started.append(Process(*args, columns=columns))
        return started[-1]

    yield start
    for one in started:
        one.close()


@pytest.fixture
def provider() -> Iterator[ProviderServer]:
    """A server that speaks as OpenAI does."""
    with ProviderServer(["first", "second", "third", "fourth"]) as server:
        yield server
