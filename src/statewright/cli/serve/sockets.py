"""Listening sockets, and their handover from one server process to the next.

The reloading parent process owns the listening socket, and a connection to each child. A child reports that it is ready
when it has loaded everything, waits for permission to start, and exits if its parent is gone.
"""

from __future__ import annotations

import errno
import os
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Callable, Sequence
from contextlib import suppress

from statewright.cli.console.failure import UsageError

BACKLOG = 2048
"""Connections that may wait while no process accepts them, e.g. during a handover."""


def open_listening_socket(host: str, port: int) -> socket.socket:
    """Open a listening socket; port 0 picks a free port. Raises UsageError if the address is in use or not local."""
    try:
        family, kind, protocol, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
    except (OSError, UnicodeError) as error:
        raise UsageError(
            f"The address {host!r} cannot be resolved: {error}. Use --host 127.0.0.1, or an address of this machine."
        ) from None
    listening = socket.socket(family, kind, protocol)
    try:
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listening.bind(address)
        listening.listen(BACKLOG)
    except OSError as error:
        listening.close()
        raise UsageError(_bind_error_message(host, port, error)) from None
    return listening


def _bind_error_message(host: str, port: int, error: OSError) -> str:
    if error.errno == errno.EADDRINUSE:
        return f"Port {port} on {host} is already in use. Stop the other process, or choose another port with --port."
    if error.errno == errno.EACCES:
        return f"Port {port} requires administrator rights. Choose a port above 1023 with --port."
    return (
        f"Cannot listen on {host}, port {port}: {error.strerror}. Use --host 127.0.0.1, or an address of this machine."
    )


def socket_url(listening: socket.socket) -> str:
    """Return the URL of a listening socket; a wildcard address becomes the loopback address."""
    host, port = listening.getsockname()[:2]
    if host in ("0.0.0.0", "::"):
        host = "127.0.0.1"
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"


# -- handover

_EXIT_TIME = 30.0
"""Seconds that a child has to exit after it has failed, before it is stopped."""
_READY, _FAILED, _FIRST, _NEXT = b"r", b"x", b"f", b"n"
"""Messages: from child to parent `_READY`, or `_FAILED` before a line that describes the failure; from parent to child,
start as the first server or as a successor. Later the parent sends a line for each successor that has failed."""


class ParentLink:
    """The child's end of the connection."""

    def __init__(self, descriptors: str) -> None:
        """`descriptors` are the file descriptors of the listening socket and the connection, e.g. `4:5`."""
        listening, connection = (int(descriptor) for descriptor in descriptors.split(":"))
        self.listening = socket.socket(fileno=listening)
        self._connection = socket.socket(fileno=connection)

    def wait_for_turn(self) -> bool:
        """Report that everything is loaded, and wait until the previous server has stopped.

        Return True for the first server. Raises SystemExit if the parent is gone.
        """
        try:
            self._connection.sendall(_READY)
            message = self._connection.recv(1)
        except OSError:
            message = b""
        if not message:
            raise SystemExit(0)
        return message == _FIRST

    def report_failure(self, line: bytes) -> None:
        """Report why this process cannot serve, in a line."""
        with suppress(OSError):  # the parent is gone
            self._connection.sendall(_FAILED + line)

    def exit_with_parent(self, on_failure: Callable[[bytes], object] = lambda line: None) -> None:
        """Shut down cleanly when the parent is gone, since nothing else would stop this process.

        `on_failure` is called in a thread with the line of each successor that has failed.
        """
        threading.Thread(target=self._watch_parent, args=(on_failure,), daemon=True).start()

    def _watch_parent(self, on_failure: Callable[[bytes], object]) -> None:
        with suppress(OSError), self._connection.makefile("rb") as lines:
            for line in lines:
                on_failure(line)
        os.kill(os.getpid(), signal.SIGTERM)


class ServerProcess:
    """The parent's end of the connection, and the child process, which serves or is about to."""

    def __init__(self, listening: socket.socket, args: Sequence[str]) -> None:
        self._connection, child_end = socket.socketpair()
        descriptors = (listening.fileno(), child_end.fileno())
        command = [sys.executable, "-m", "statewright", *args, "--child", f"{descriptors[0]}:{descriptors[1]}"]
        self.process = subprocess.Popen(command, pass_fds=descriptors)
        self.failure: bytes | None = None
        """The line in which the child has described why it failed."""
        child_end.close()

    def wait_until_ready(self) -> bool:
        """Wait until the child has loaded everything. Return False if it failed."""
        try:
            message = self._connection.recv(1)
            if message == _FAILED:
                self.failure = self._read_to_end()
                with suppress(subprocess.TimeoutExpired):  # it closes the connection a little before it exits
                    self.process.wait(_EXIT_TIME)
        except OSError:
            return False
        return message == _READY

    def _read_to_end(self) -> bytes:
        """Return what the child sends before it exits."""
        with self._connection.makefile("rb") as rest:
            return rest.read()

    def report_failure_of(self, successor: ServerProcess) -> None:
        """Tell the child why its successor failed, if the successor has said so."""
        if successor.failure is not None:
            with suppress(OSError):  # the child has exited
                self._connection.sendall(successor.failure)

    def start(self, *, is_first: bool) -> None:
        """Allow the child to serve."""
        self._connection.sendall(_FIRST if is_first else _NEXT)

    def stop(self, seconds: float) -> int:
        """Stop the child, killing it after `seconds`, and return its exit code."""
        if self.process.poll() is None:
            self.process.terminate()
        try:
            return self.process.wait(seconds)
        except subprocess.TimeoutExpired:
            self.process.kill()
            return self.process.wait()
        finally:
            self._connection.close()
