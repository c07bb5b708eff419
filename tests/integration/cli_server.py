"""A server of the command line as a process of its own, and commands called in this one."""

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

LONGEST = 600.0
"""Seconds that a process may take to begin, or to do what it is waited for."""


class ServerProcess:
    """A server that was started in a folder."""

    def __init__(self, folder: Path, *words: str, env: dict[str, str] | None = None) -> None:
        self.out, self.err = folder / "server.out", folder / "server.err"
        with self.out.open("wb") as out, self.err.open("wb") as err:
            self.process = subprocess.Popen(
                [sys.executable, "-m", "statewright", *words],
                cwd=folder,
                stdout=out,
                stderr=err,
                env={**_own_environment(), **(env or {})},
            )

    @property
    def url(self) -> str:
        """Where it listens, once it says so."""
        return self.wait_for(r"http://127\.0\.0\.1:\d+")

    @property
    def said(self) -> str:
        return self.out.read_text(encoding="utf-8") + self.err.read_text(encoding="utf-8")

    def wait_for(self, pattern: str) -> str:
        """What it has said that fits, once it has."""
        until = time.monotonic() + LONGEST
        while (found := re.search(pattern, self.said)) is None:
            assert self.process.poll() is None, self.said
            assert time.monotonic() < until, self.said
            time.sleep(0.02)
        return found[0]

    def stop(self, number: signal.Signals = signal.SIGTERM) -> int:
        """Its exit code, after a signal."""
        if self.process.poll() is None:
            self.process.send_signal(number)
        try:
            return self.process.wait(LONGEST)
        except subprocess.TimeoutExpired:
            self.process.kill()
            raise


def _own_environment() -> dict[str, str]:
    return {name: value for name, value in os.environ.items() if not name.startswith("STATEWRIGHT_")}


@contextmanager
def serving(folder: Path, *words: str, env: dict[str, str] | None = None) -> Generator[ServerProcess]:
    """A server, stopped at the end."""
    server = ServerProcess(folder, *words, env=env)
    try:
        yield server
    finally:
        server.stop()
