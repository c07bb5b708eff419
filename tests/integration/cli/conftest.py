"""The command line in processes of its own: with pipes, and on a terminal."""

from __future__ import annotations

import os
import pty
import select
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from tests.provider_server import ProviderServer

COMMAND = [sys.executable, "-m", "statewright"]
PATIENCE = 600.0
"""Seconds for what takes a moment."""


class Terminal:
    """A process on a terminal of its own, with somebody who types."""

    def __init__(self, *args: object, columns: int = 100) -> None:
        self.seen = ""
        """Everything that was shown so far."""
        self._read = 0
        self._pid, self._fd = pty.fork()
        if not self._pid:
            os.environ.update({"TERM": "xterm", "COLUMNS": str(columns)})
            os.environ.pop("NO_COLOR", None)
            os.execv(sys.executable, [*COMMAND, *map(str, args)])

    def wait_for(self, text: str) -> str:
        """What is shown up to a text, which was not waited for before."""
        end = time.monotonic() + PATIENCE
        while (place := self.seen.find(text, self._read)) < 0:
            assert time.monotonic() < end, f"{text!r} was not shown: {self.seen[self._read :]!r}"
            assert self._receive(), f"The process ended without {text!r}: {self.seen[self._read :]!r}"
        shown, self._read = self.seen[self._read : place], place + len(text)
        return shown

    def type(self, text: str) -> None:
        os.write(self._fd, text.encode())

    def interrupt(self) -> None:
        """Press Ctrl-C once the main thread waits: between a prompt and the wait for a key Python hears no signal."""
        status, times_asleep = Path(f"/proc/{self._pid}/stat"), 0
        while times_asleep < 10:
            time.sleep(0.02)
            is_asleep = not status.exists() or status.read_text().rpartition(")")[2].split()[0] == "S"
            times_asleep = times_asleep + 1 if is_asleep else 0
        self.type("\x03")

    def end(self) -> int:
        """The exit code, once the process has ended."""
        end = time.monotonic() + PATIENCE
        while self._receive():
            assert time.monotonic() < end, f"The process did not end: {self.seen[self._read :]!r}"
        _, status = os.waitpid(self._pid, 0)
        self._pid = 0
        return os.waitstatus_to_exitcode(status)

    def close(self) -> None:
        if self._pid:
            os.kill(self._pid, signal.SIGKILL)
            os.waitpid(self._pid, 0)
        os.close(self._fd)

    def _receive(self) -> bool:
        """Take what is there within a moment; false once there will be nothing more."""
        ready, _, _ = select.select([self._fd], [], [], 0.2)
        if not ready:
            return True
        try:
            received = os.read(self._fd, 65536)
        except OSError:  # how Linux says that nobody has the terminal any more
            return False
        self.seen += received.decode(errors="replace")
        return bool(received)


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
        command = [*COMMAND, *map(str, args)]
        return subprocess.run(command, input=said, capture_output=True, text=True, timeout=600, check=False)

    return run


@pytest.fixture
def terminal() -> Iterator[Callable[..., Terminal]]:
    """Starts commands on terminals."""
    started: list[Terminal] = []

    def start(*args: object, columns: int = 100) -> Terminal:
        started.append(Terminal(*args, columns=columns))
        return started[-1]

    yield start
    for one in started:
        one.close()


@pytest.fixture
def provider() -> Iterator[ProviderServer]:
    """A server that speaks as OpenAI does."""
    with ProviderServer(["first", "second", "third", "fourth"]) as server:
        yield server
