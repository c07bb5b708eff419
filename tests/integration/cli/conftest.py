"""Start commands with pipes, and on a terminal on which the test types."""

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
"""Seconds that a step may take before the test fails."""


class Terminal:
    """A terminal on which a command runs, and on which the test types."""

    def __init__(self) -> None:
        self.seen = ""
        """Everything that the terminal has shown so far."""
        self._read = 0

    def wait_for(self, text: str) -> str:
        """Wait until the terminal shows the text once more, and return what it showed before that."""
        end = time.monotonic() + PATIENCE
        while (position := self.seen.find(text, self._read)) < 0:
            assert time.monotonic() < end, f"{text!r} was not shown: {self.seen[self._read :]!r}"
            assert self._receive(), f"The command ended without {text!r}: {self.seen[self._read :]!r}"
        shown, self._read = self.seen[self._read : position], position + len(text)
        return shown

    def type(self, text: str) -> None:
        os.write(self._parent_end, text.encode())

    def end(self) -> int:
        """Wait until the command has ended, and return its exit code."""
        end = time.monotonic() + PATIENCE
        while self._receive():
            assert time.monotonic() < end, f"The command did not end: {self.seen[self._read :]!r}"
        return self._exit_code()

    def _receive(self) -> bool:
        """Read what the terminal shows within 0.2 seconds. Return false once the command has closed it."""
        ready, _, _ = select.select([self._parent_end], [], [], 0.2)
        if not ready:
            return True
        try:
            received = os.read(self._parent_end, 65536)
        except OSError:  # on Linux: no process has the terminal open any more
            return False
        self.seen += received.decode(errors="replace")
        return bool(received)

    _parent_end: int

    def _exit_code(self) -> int:
        raise NotImplementedError

    def close(self) -> None:
        raise NotImplementedError


class InProcessTerminal(Terminal):
    """The command runs in a thread of this process, so it can be neither interrupted with Ctrl-C nor killed."""

    def __init__(self, *args: object, columns: int = 100) -> None:
        super().__init__()
        self._screen = programs.Screen(columns)
        self._parent_end = self._screen.ours
        self._exit_codes: list[int] = []
        self._thread = threading.Thread(target=self._run, args=args, daemon=True)
        self._thread.start()

    def _run(self, *args: object) -> None:
        with self._screen.streams() as streams:
            result = programs.statewright(*args, env=self._screen.env, terminal=streams)
        self._exit_codes.append(result.returncode)
        self._screen.hang_up()

    def _exit_code(self) -> int:
        self._thread.join(PATIENCE)
        return self._exit_codes[0]

    def close(self) -> None:
        while self._thread.is_alive():  # the test has failed in the middle
            self.type("\x04")
            self._thread.join(0.5)
        self._screen.close()


class ProcessTerminal(Terminal):
    """The command runs in a separate process, which the terminal controls."""

    def __init__(self, *args: object, columns: int = 100) -> None:
        super().__init__()
        self._pid, self._parent_end = pty.fork()
        if not self._pid:
            os.environ.update({"TERM": "xterm", "COLUMNS": str(columns)})
            os.environ.pop("NO_COLOR", None)
            os.execv(sys.executable, [*COMMAND, *map(str, args)])

    def interrupt(self) -> None:
        """Press Ctrl-C once the main thread sleeps: Python misses a signal that comes just before it reads a key."""
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
        os.close(self._parent_end)


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
    """Return a function that runs a command, with the text `stdin` on its standard input."""

    def run(*args: object, stdin: str = "") -> subprocess.CompletedProcess[str]:
        return programs.statewright(*args, stdin=stdin)

    return run


@pytest.fixture
def terminal(monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[..., InProcessTerminal]]:
    """Return a function that starts a command on a terminal, in this process; only one may run at a time."""
    monkeypatch.delenv("NO_COLOR", raising=False)
    started: list[InProcessTerminal] = []

    def start(*args: object, columns: int = 100) -> InProcessTerminal:
        started.append(InProcessTerminal(*args, columns=columns))
        return started[-1]

    yield start
    for terminal in started:
        terminal.close()


@pytest.fixture
def terminal_process() -> Iterator[Callable[..., ProcessTerminal]]:
    """Return a function that starts a command on a terminal, in a separate process."""
    started: list[ProcessTerminal] = []

    def start(*args: object, columns: int = 100) -> ProcessTerminal:
        started.append(ProcessTerminal(*args, columns=columns))
        return started[-1]

    yield start
    for terminal in started:
        terminal.close()


@pytest.fixture
def provider() -> Iterator[ProviderServer]:
    """A server that answers as OpenAI does."""
    with ProviderServer(["first", "second", "third", "fourth"]) as server:
        yield server
