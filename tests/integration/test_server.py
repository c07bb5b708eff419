"""The server as a process: its streams, clients that violate the protocol, and a clean shutdown."""

from __future__ import annotations

import json
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest
from tests.unit.server.serving import LEAD, PAYMENT

GUARD = 300
"""Seconds after which a test fails. Only a hang takes this long."""
ROOT = Path(__file__).parents[2]
PROGRAM = """
import sys
from statewright.server import ServerSettings, create_app, serve
from statewright.service import Service
from statewright.storage.sqlite import SqliteDatabase, SqliteLedger, SqliteSaver
from tests.unit.server.serving import catalog

with SqliteDatabase(sys.argv[2]) as database:
    service = Service(catalog(), ledger=SqliteLedger(database), saver=SqliteSaver(database))
    settings = ServerSettings(auth="none", port=int(sys.argv[1]), max_body=100_000, heartbeat=0.2, drain_timeout=5)
    serve(create_app(service, settings=settings))
print("closed", flush=True)
"""


END = b"0\r\n\r\n"
"""The last chunk of a complete response."""


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


class Server:
    """A server in a separate process, which runs a program that gets the port and the path of the database."""

    def __init__(self, port: int, database: Path, program: str = PROGRAM) -> None:
        self.port = port
        command = [sys.executable, "-c", program, str(port), str(database)]
        self.process = subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        self.client = httpx.Client(base_url=f"http://127.0.0.1:{port}", timeout=GUARD)
        self._wait_until_ready()

    def _wait_until_ready(self) -> None:
        for _ in range(GUARD * 20):
            assert self.process.poll() is None, self.process.communicate()[1]
            try:
                if self.client.get("/ready").status_code == 200:
                    return
            except httpx.TransportError:
                time.sleep(0.05)
        raise AssertionError("The server was not ready in time.")

    def post(self, path: str, body: Any, status: int = 200) -> Any:
        response = self.client.post(f"/api/v1{path}", json=body)
        assert response.status_code == status, response.text
        return response.json()["data"]

    def start(self, definition: dict[str, Any]) -> Any:
        definition_id = self.client.post("/api/v1/workflow-definitions", json=definition).json()["data"]["id"]
        return self.post(f"/workflow-runs?wait={GUARD}", {"definitionId": definition_id}, 201)

    def wait_for_runs(self, count: int) -> None:
        """Wait until the server has accepted that many runs."""
        for _ in range(GUARD * 20):
            if self.client.get("/api/v1/workflow-runs?pageSize=1").json()["meta"]["total"] >= count:
                return
            time.sleep(0.05)
        raise AssertionError(f"There are not {count} runs.")

    def connect(self) -> socket.socket:
        return socket.create_connection(("127.0.0.1", self.port), timeout=GUARD)

    def stop(self) -> str:
        """Stop the server, and return its log and what it printed after that."""
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
        self.client.close()
        printed, log = self.process.communicate(timeout=GUARD)
        return log + printed


@contextmanager
def serving(database: Path) -> Iterator[Server]:
    server = Server(free_port(), database)
    try:
        yield server
    finally:
        server.stop()


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    with serving(tmp_path_factory.mktemp("server") / "runs.db") as server:
        yield server


def get(path: str, *headers: str) -> bytes:
    return "\r\n".join([f"GET {path} HTTP/1.1", "host: 127.0.0.1", *headers, "", ""]).encode()


def read_until(connection: socket.socket, end: bytes) -> bytes:
    received = b""
    while end not in received:
        piece = connection.recv(65536)
        if not piece:
            break
        received += piece
    return received


def test_events_are_streamed_as_they_happen(server: Server):
    run = server.start(PAYMENT)
    with server.connect() as connection:
        connection.sendall(get(f"/v1/workflow-runs/{run['id']}/stream"))
        start = read_until(connection, b"event: STEP_WAITING")
        assert b"content-type: text/event-stream" in start
        assert b": still here" in read_until(connection, b": still here")
        body = {"signalType": "payment_confirmed", "payload": {"amount": 5}}
        server.post(f"/workflow-runs/{run['id']}/resume", body)
        rest = read_until(connection, END)
        assert b"event: WORKFLOW_COMPLETED" in rest
        assert rest.endswith(END)


def test_a_reader_that_reconnects_misses_no_event(server: Server):
    run = server.start(LEAD)
    path = f"/api/v1/workflow-runs/{run['id']}/stream"
    events = server.client.get(path).text.split("\n\n")[:-1]
    for last_seen in range(len(events) + 1):
        rest = server.client.get(path, headers={"last-event-id": str(last_seen)}).text.split("\n\n")[:-1]
        assert rest == events[last_seen:]


BROKEN_REQUESTS = {
    "no HTTP": b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + b"\x00" * 50,
    "no version": b"GET /health\r\n\r\n",
    "incomplete head": b"GET /health HTTP/1.1\r\nhost: 127",
    "incomplete body": b"POST /v1/events HTTP/1.1\r\nhost: 127.0.0.1\r\ncontent-length: 100\r\n\r\n{",
    "negative length": b"POST /v1/events HTTP/1.1\r\nhost: 127.0.0.1\r\ncontent-length: -5\r\n\r\n",
    "two lengths": b"POST /v1/events HTTP/1.1\r\nhost: a\r\ncontent-length: 1\r\ncontent-length: 2\r\n\r\nab",
    "a broken chunk": b"POST /v1/events HTTP/1.1\r\nhost: 127.0.0.1\r\ntransfer-encoding: chunked\r\n\r\nzz\r\n",
    "a huge head": b"GET /health HTTP/1.1\r\nhost: 127.0.0.1\r\nx: " + b"y" * 200_000 + b"\r\n\r\n",
    "many heads": b"GET /health HTTP/1.1\r\n" + b"x: y\r\n" * 20_000 + b"\r\n",
}


@pytest.mark.parametrize("name", BROKEN_REQUESTS)
def test_broken_requests_do_not_harm_the_server(server: Server, name: str):
    with server.connect() as connection:
        try:
            connection.sendall(BROKEN_REQUESTS[name])
            connection.shutdown(socket.SHUT_WR)  # tells the server not to wait for more
            answer = read_until(connection, b"\r\n")
        except (ConnectionError, OSError):  # the server closed the connection
            answer = b""
    assert b" 500 " not in answer.partition(b"\r\n")[0]
    assert server.client.get("/health").json()["status"] == "ok"


def chunk(size: int) -> bytes:
    return b"%x\r\n%b\r\n" % (size, b" " * size)


def test_an_endless_body_is_rejected(server: Server):
    head = ["POST /v1/events HTTP/1.1", "host: 127.0.0.1", "content-type: application/json"]
    with server.connect() as connection:
        connection.sendall("\r\n".join([*head, "transfer-encoding: chunked", "", ""]).encode())
        connection.sendall(chunk(60_000))
        connection.sendall(chunk(60_000))
        answer = read_until(connection, b"PAYLOAD_TOO_LARGE")
    assert answer.startswith(b"HTTP/1.1 413 ")


def test_a_body_that_is_announced_as_too_large_is_rejected_before_it_arrives(server: Server):
    with server.connect() as connection:
        connection.sendall(b"POST /v1/events HTTP/1.1\r\nhost: 127.0.0.1\r\ncontent-length: 999999999999\r\n\r\n")
        assert read_until(connection, b"PAYLOAD_TOO_LARGE").startswith(b"HTTP/1.1 413 ")


def test_requests_for_another_host_are_rejected(server: Server):
    with server.connect() as connection:
        connection.sendall(b"GET /v1/workflow-runs HTTP/1.1\r\nhost: evil.example\r\n\r\n")
        assert read_until(connection, b"FORBIDDEN").startswith(b"HTTP/1.1 403 ")


def test_sigterm_ends_streams_and_waiting_requests_and_loses_no_run(tmp_path: Path):
    database = tmp_path / "runs.db"
    with serving(database) as first:
        run = first.start(PAYMENT)
        delayed = json.dumps({"definitionId": run["definitionId"], "after": "2999-01-01T00:00:00Z"}).encode()
        head = f"POST /v1/workflow-runs?wait=300 HTTP/1.1\r\nhost: 127.0.0.1\r\ncontent-length: {len(delayed)}"
        with first.connect() as stream, first.connect() as wait:
            stream.sendall(get(f"/v1/workflow-runs/{run['id']}/stream"))
            read_until(stream, b"STEP_WAITING")
            wait.sendall(f"{head}\r\ncontent-type: application/json\r\n\r\n".encode() + delayed)
            first.wait_for_runs(2)
            first.process.send_signal(signal.SIGTERM)
            assert read_until(stream, END).endswith(END)
            answer = read_until(wait, b'"created":true')
            assert answer.startswith(b"HTTP/1.1 201 ")
            assert first.process.wait(timeout=GUARD) == 0
        output = first.stop()
        assert "Traceback" not in output
        assert output.endswith("closed\n")
    with serving(database) as second:
        body = {"signalType": "payment_confirmed", "payload": {"amount": 5}}
        second.post(f"/workflow-runs/{run['id']}/resume", body)
        resumed = second.client.get(f"/api/v1/workflow-runs/{run['id']}?wait={GUARD}").json()["data"]
        assert resumed["output"]["amount"] == 5


def test_an_error_names_the_address_that_is_in_use(server: Server, tmp_path: Path):
    command = [sys.executable, "-c", PROGRAM, str(server.port), str(tmp_path / "other.db")]
    result = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=GUARD, check=False)
    assert result.returncode != 0
    assert "address already in use" in result.stderr
