"""Start `statewright dev`, `serve` and other commands as separate processes."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

PATIENCE = 600.0
"""How many seconds a test waits for a process."""


class ServerProcess:
    """A process of the command line, started in a folder."""

    def __init__(self, folder: Path, *words: str, env: dict[str, str] | None = None) -> None:
        self.out, self.err = folder / "server.out", folder / "server.err"
        with self.out.open("wb") as out, self.err.open("wb") as err:
            self.process = subprocess.Popen(
                [sys.executable, "-m", "statewright", *words],
                cwd=folder,
                stdout=out,
                stderr=err,
                env={**_environment_without_statewright(), **(env or {})},
            )

    @property
    def url(self) -> str:
        """The URL at which the server listens, once it has printed it."""
        return self.wait_for(r"http://127\.0\.0\.1:\d+")

    @property
    def output(self) -> str:
        """Everything that the process has printed, to either stream."""
        return self.out.read_text(encoding="utf-8") + self.err.read_text(encoding="utf-8")

    def wait_for(self, pattern: str) -> str:
        """Wait until the process has printed a text that matches, and return that text."""
        until = time.monotonic() + PATIENCE
        while (match := re.search(pattern, self.output)) is None:
            assert self.process.poll() is None, self.output
            assert time.monotonic() < until, self.output
            time.sleep(0.02)
        return match[0]

    def stop(self, number: signal.Signals = signal.SIGTERM) -> int:
        """Send the signal, wait until the process has ended, and return its exit code."""
        if self.process.poll() is None:
            self.process.send_signal(number)
        try:
            return self.process.wait(PATIENCE)
        except subprocess.TimeoutExpired:
            self.process.kill()
            raise


def _environment_without_statewright() -> dict[str, str]:
    return {name: value for name, value in os.environ.items() if not name.startswith("STATEWRIGHT_")}


@contextmanager
def serving(folder: Path, *words: str, env: dict[str, str] | None = None) -> Generator[ServerProcess]:
    """Start a server, and stop it at the end."""
    server = ServerProcess(folder, *words, env=env)
    try:
        yield server
    finally:
        server.stop()
