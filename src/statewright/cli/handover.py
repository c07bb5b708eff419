"""How one server takes over from another: the socket stays, and the new one begins when the old one is done.

A parent holds the socket and a line to its child. The child says that it is ready once all that it serves is loaded,
waits for the word to begin, and ends if its parent is gone.
"""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Sequence

_READY, _FIRST, _NEXT = b"r", b"f", b"n"
"""What is said: by the child, and by the parent to the first one and to those after it."""


class Child:
    """The end of the process that serves."""

    def __init__(self, numbers: str) -> None:
        """`numbers` are those of the socket that listens and of the line to the parent: `4:5`."""
        listening, line = (int(one) for one in numbers.split(":"))
        self.listening = socket.socket(fileno=listening)
        self._line = socket.socket(fileno=line)

    def wait_for_turn(self) -> bool:
        """Say that everything is loaded, and come back when the one before has ended; whether there was none."""
        try:
            self._line.sendall(_READY)
            told = self._line.recv(1)
        except OSError:
            told = b""
        if not told:
            raise SystemExit(0)
        return told == _FIRST

    def end_with_parent(self) -> None:
        """End in good order when the parent is gone: nobody else would stop this process."""
        threading.Thread(target=self._watch_parent, daemon=True).start()

    def _watch_parent(self) -> None:
        if not self._line.recv(1):
            os.kill(os.getpid(), signal.SIGTERM)


class Server:
    """The end of the parent: one process that serves, or is about to."""

    def __init__(self, listening: socket.socket, words: Sequence[str]) -> None:
        self._line, theirs = socket.socketpair()
        numbers = (listening.fileno(), theirs.fileno())
        command = [sys.executable, "-m", "statewright", *words, "--child", "{}:{}".format(*numbers)]
        self.process = subprocess.Popen(command, pass_fds=numbers)
        theirs.close()

    def is_ready(self) -> bool:
        """Whether it has loaded what it serves; waits until that is known."""
        try:
            return self._line.recv(1) == _READY
        except OSError:
            return False

    def begin(self, *, is_first: bool) -> None:
        """Let it serve."""
        self._line.sendall(_FIRST if is_first else _NEXT)

    def stop(self, seconds: float) -> int:
        """Let it end in good order, within so many seconds; its exit code."""
        if self.process.poll() is None:
            self.process.terminate()
        try:
            return self.process.wait(seconds)
        except subprocess.TimeoutExpired:
            self.process.kill()
            return self.process.wait()
        finally:
            self._line.close()
