"""A TCP proxy for tests, which cuts or freezes its connections."""

from __future__ import annotations

import socket
import threading
from collections.abc import Callable
from contextlib import suppress
from typing import Self

Watch = Callable[[bytes], bool]
"""Returns whether the proxy should cut a connection instead of forwarding these bytes."""


class TcpProxy:
    """Forwards connections to a port of this machine.

    `watch_requests` sees what clients send, `watch_responses` what the server sends.
    """

    def __init__(self, port: int) -> None:
        self._target = port
        self.watch_requests: Watch | None = None
        self.watch_responses: Watch | None = None
        self.tells_server = True
        """True if the server sees that a watch has cut a connection. Otherwise its end stays open."""
        self.cuts = 0
        """How many connections were cut by a watch."""
        self._moving, self._responding = threading.Event(), threading.Event()
        self.thaw()
        self._sockets: list[socket.socket] = []
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._listener.getsockname()[1]
        threading.Thread(target=self._accept, daemon=True).start()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.thaw()
        _shut(self._listener)
        self.cut()

    def freeze(self) -> None:
        """Forward nothing more, until `thaw`."""
        self._moving.clear()

    def freeze_responses(self) -> None:
        """Forward nothing more of what the server sends, until `thaw`."""
        self._responding.clear()

    def thaw(self) -> None:
        self._moving.set()
        self._responding.set()

    def cut(self) -> None:
        """End all connections."""
        sockets, self._sockets = self._sockets, []
        for end in sockets:
            _shut(end)

    def _accept(self) -> None:
        while True:
            try:
                client, _ = self._listener.accept()
            except OSError:
                return
            try:
                server = socket.create_connection(("127.0.0.1", self._target))
            except OSError:
                _shut(client)
                continue
            self._sockets += [client, server]
            for source, target, is_request in ((client, server, True), (server, client, False)):
                threading.Thread(target=self._forward, args=(source, target, is_request), daemon=True).start()

    def _forward(self, source: socket.socket, target: socket.socket, is_request: bool) -> None:
        with suppress(OSError):
            while data := source.recv(65536):
                self._moving.wait()
                if not is_request:
                    self._responding.wait()
                watch = self.watch_requests if is_request else self.watch_responses
                if watch is not None and watch(data):
                    self.cuts += 1
                    if is_request and not self.tells_server:
                        _shut(source)
                        return
                    break
                target.sendall(data)
        _shut(source)
        _shut(target)


def _shut(end: socket.socket) -> None:
    with suppress(OSError):
        end.shutdown(socket.SHUT_RDWR)
    end.close()
