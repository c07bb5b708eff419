"""An HTTP service on a local port, and a folder of modules with tools."""

from __future__ import annotations

import sys
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest


class Service(ThreadingHTTPServer):
    """Responds with configured answers, and records requests."""

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.requests: list[dict[str, Any]] = []
        self.answers: dict[str, tuple[int, dict[str, str], bytes]] = {}
        self.stop = threading.Event()
        """Ends the responses that otherwise never end."""

    @property
    def host(self) -> str:
        return f"127.0.0.1:{self.server_port}"

    @property
    def url(self) -> str:
        return f"http://{self.host}"

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Ignore errors, because clients of these tests disconnect during responses."""


class _Handler(BaseHTTPRequestHandler):
    server: Service  # pyright: ignore

    def _answer(self) -> None:
        body = self.rfile.read(int(self.headers.get("content-length", 0)))
        headers = {name.lower(): value for name, value in self.headers.items()}
        self.server.requests.append({"method": self.command, "path": self.path, "headers": headers, "body": body})
        if self.path == "/slow":
            self.server.stop.wait(600)
            return
        if self.path == "/drip":
            self._drip()
            return
        status, headers_of_answer, content = self.server.answers.get(self.path, (200, {}, b"hello"))
        self.send_response(status)
        for name, value in {"content-length": str(len(content)), **headers_of_answer}.items():
            self.send_header(name, value)
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(content)

    def _drip(self) -> None:
        """Send a header without an end."""
        self.wfile.write(b"HTTP/1.1 200 OK\r\nX-Long: ")
        while not self.server.stop.wait(0.05):
            self.wfile.write(b"x")

    def __getattr__(self, name: str) -> Any:
        """Handle all HTTP methods, `do_GET` and the others, in the same way."""
        if name.startswith("do_"):
            return self._answer
        raise AttributeError(name)

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002
        pass


@pytest.fixture
def service() -> Iterator[Service]:
    server = Service()
    thread = threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True)
    thread.start()
    yield server
    server.stop.set()
    server.shutdown()
    server.server_close()
    thread.join()


@pytest.fixture
def other(service: Service) -> Iterator[Service]:
    """Yield a second service, which is another origin."""
    server = Service()
    thread = threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True)
    thread.start()
    yield server
    server.stop.set()
    server.shutdown()
    server.server_close()
    thread.join()


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return a folder with a module of a unique name."""
    monkeypatch.setattr(sys, "path", list(sys.path))
    name = f"own_{abs(hash(str(tmp_path)))}"
    (tmp_path / f"{name}.py").write_text("number = 3\n\n\ndef triple(value: int) -> int:\n    return value * number\n")
    (tmp_path / f"{name}_broken.py").write_text("1 / 0\n")
    (tmp_path / f"{name}_lost.py").write_text("import there_is_no_such_module\n")
    return tmp_path
