"""The port on which a server listens, taken before anything else is done."""

from __future__ import annotations

import errno
import os
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Sequence

from statewright.cli.console.failure import UsageError

BACKLOG = 2048
"""How many connections may wait while nobody takes them, as between two processes."""


def open_listening_socket(host: str, port: int) -> socket.socket:
    """A socket that listens; port 0 is any free one. Raises UsageError for what is taken, or not of this machine."""
    try:
        family, kind, protocol, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
    except (OSError, UnicodeError) as error:
        raise UsageError(
            f"There is no address {host!r}: {error}. Give --host 127.0.0.1, or one of this machine."
        ) from None
    taken = socket.socket(family, kind, protocol)
    try:
        taken.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        taken.bind(address)
        taken.listen(BACKLOG)
    except OSError as error:
        taken.close()
        raise UsageError(_refused(host, port, error)) from None
    return taken


def _refused(host: str, port: int, error: OSError) -> str:
    if error.errno == errno.EADDRINUSE:
        return f"Port {port} of {host} is taken. Stop what listens there, or choose another with --port."
    if error.errno == errno.EACCES:
        return f"Port {port} is only for administrators. Choose one above 1023 with --port."
    return f"Nobody can listen on {host}, port {port}: {error.strerror}. Give --host 127.0.0.1, or one of this machine."


def socket_url(listening: socket.socket) -> str:
    """The address of a socket as a URL. One that listens everywhere is reached on this machine."""
    host, port = listening.getsockname()[:2]
    if host in ("0.0.0.0", "::"):
        host = "127.0.0.1"
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"


# -- How one server takes over from another: the socket stays, and the new one begins when the old one is done.
#
# A parent holds the socket and a line to its child. The child says that it is ready once all that it serves is loaded,
# waits for the word to begin, and ends if its parent is gone.

_READY, _FIRST, _NEXT = b"r", b"f", b"n"
"""What is said: by the child, and by the parent to the first one and to those after it."""


class ParentLink:
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

    def exit_with_parent(self) -> None:
        """End in good order when the parent is gone: nobody else would stop this process."""
        threading.Thread(target=self._watch_parent, daemon=True).start()

    def _watch_parent(self) -> None:
        if not self._line.recv(1):
            os.kill(os.getpid(), signal.SIGTERM)


class ServerProcess:
    """The end of the parent: one process that serves, or is about to."""

    def __init__(self, listening: socket.socket, words: Sequence[str]) -> None:
        self._line, theirs = socket.socketpair()
        numbers = (listening.fileno(), theirs.fileno())
        command = [sys.executable, "-m", "statewright", *words, "--child", "{}:{}".format(*numbers)]
        self.process = subprocess.Popen(command, pass_fds=numbers)
        theirs.close()

    def wait_until_ready(self) -> bool:
        """Whether it has loaded what it serves; waits until that is known."""
        try:
            return self._line.recv(1) == _READY
        except OSError:
            return False

    def start(self, *, is_first: bool) -> None:
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
