"""A server with the page in a process of its own, which requires keys."""

from __future__ import annotations

import asyncio
import logging
import sys
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests.integration.test_server import GUARD, Server, free_port
from tests.page.gates import Gates
from tests.page.graphs import catalog
from tests.work import wait_until

from statewright.observe import LogCapture
from statewright.runs import DEFAULT_WORKSPACE, Ledger
from statewright.server import ServerSettings, create_app, serve
from statewright.service import Service, ServiceSettings
from statewright.service.access import create_key, list_keys
from statewright.service.access.workspaces import ensure_default_workspace
from statewright.service.webhooks import WebhookSettings
from statewright.storage.sqlite import SqliteDatabase, SqliteLedger, SqliteSaver

PROGRAM = "from tests.page.page_server import run_server; run_server()"
ADMIN_TOKEN = "the token of the tests"
IDLE = ("completed", "failed", "cancelled", "waiting", "paused")
"""The statuses of a run that does nothing by itself."""


def run_server() -> None:
    """Serve until SIGTERM; the port and the path of the database are the arguments of the process."""
    port, path = int(sys.argv[1]), Path(sys.argv[2])
    with SqliteDatabase(path) as database, LogCapture(level=logging.INFO) as logs:
        ledger = SqliteLedger(database)
        hooks = WebhookSettings(allow_hosts=["127.0.0.1"])
        service = Service(
            catalog(Gates(gates_of(path))),
            ledger=ledger,
            saver=SqliteSaver(database),
            settings=ServiceSettings(drain=1),
            logs=logs,
            webhooks=hooks,
        )
        asyncio.run(add_key(ledger, path, service.clock.now()))
        settings = ServerSettings(auth="keys", port=port, drain_timeout=5, admin_token=ADMIN_TOKEN)
        serve(create_app(service, settings=settings))


async def add_key(ledger: Ledger, path: Path, now: Any) -> None:
    await ensure_default_workspace(ledger, now)
    if not await list_keys(ledger, DEFAULT_WORKSPACE):
        scopes = ["admin", "workers:read", "workers:manage"]
        _, key = await create_key(ledger, DEFAULT_WORKSPACE, "tests", scopes, now=now)
        key_file_of(path).write_text(key)


def key_file_of(database: Path) -> Path:
    return database.with_suffix(".key")


def gates_of(database: Path) -> Path:
    return database.with_suffix(".gates")


@dataclass
class PageServer:
    """A server which can be stopped, killed, and started again on the same port and database."""

    database: Path
    port: int = field(default_factory=free_port)

    def __post_init__(self) -> None:
        self.start_process()
        self.key = key_file_of(self.database).read_text()
        self.keys = [self.key]
        """All keys that were used."""
        self._cookies: dict[str, dict[str, str]] = {}

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def start_process(self) -> None:
        self.server = Server(self.port, self.database, PROGRAM)
        self.server.client.headers["x-api-key"] = key_file_of(self.database).read_text()

    def stop(self) -> str:
        """Stop the server, and return its log."""
        return self.server.stop()

    def kill(self) -> None:
        """End the process at once, as a power failure would."""
        self.server.process.kill()
        self.server.stop()

    # -- the API

    def call(self, method: str, path: str, body: Any = None, status: int | None = None) -> Any:
        """Send a request, and return the data of its response."""
        response = self.server.client.request(method, f"/api/v1{path}", json=body)
        assert response.status_code == status if status else response.is_success, response.text
        return response.json()["data"] if response.content else None

    def start(self, graph: str, input: Any = None, **fields: Any) -> str:  # noqa: A002
        """Start a run, and return its id."""
        return self.call("POST", "/workflow-runs", {"graph": graph, "input": input or {}, **fields})["id"]

    def run(self, run_id: str) -> Any:
        return self.call("GET", f"/workflow-runs/{run_id}")

    def wait_for(self, run_id: str, *statuses: str) -> Any:
        """Wait until a run has one of the statuses, by default until it does nothing by itself; return the run."""
        wait_until(lambda: self.run(run_id)["status"] in (statuses or IDLE), GUARD)
        return self.run(run_id)

    def start_and_wait(self, graph: str, input: Any = None, *statuses: str, **fields: Any) -> str:  # noqa: A002
        """Start a run, wait until it has one of the statuses, and return its id."""
        run_id = self.start(graph, input, **fields)
        self.wait_for(run_id, *statuses)
        return run_id

    def wait_of(self, run_id: str, step: str | None = None) -> str:
        """Return the id of what a run waits for, once it waits: by default at any step."""
        found: list[str] = []

        def is_waiting() -> list[str]:
            waits = self.call("GET", "/interrupts?pageSize=100")
            own = [wait for wait in waits if wait["workflowRunId"] == run_id and step in (None, wait["stepName"])]
            found.extend(wait["id"] for wait in own)
            return found

        wait_until(is_waiting, GUARD)
        return found[0]

    def answer(self, run_id: str, step: str, answer: Any) -> None:
        """Answer the question of a step."""
        answers = {self.wait_of(run_id, step): answer}
        self.call("POST", f"/workflow-runs/{run_id}/resume", {"answers": answers})

    def add_key(self, *scopes: str) -> tuple[str, str]:
        """Create a key, and return its id and the key."""
        created = self.call("POST", "/api-keys", {"name": "of a test", "scopes": list(scopes)})
        self.keys.append(created["key"])
        return created["id"], created["key"]

    def add_workspace(self, slug: str) -> str:
        """Create a workspace, and return its first key."""
        headers = {"x-admin-token": ADMIN_TOKEN}
        response = self.server.client.post("/api/v1/workspaces", json={"slug": slug}, headers=headers)
        assert response.status_code == 201, response.text
        key = response.json()["data"]["apiKey"]["key"]
        self.keys.append(key)
        return key

    def cookie_of(self, key: str) -> dict[str, str]:
        """Sign in with a key, once, and return the cookie of the session."""
        if key not in self._cookies:
            client = self.server.client
            response = client.post("/api/v1/session", json={"key": key}, headers={"origin": self.url})
            assert response.status_code == 200, response.text
            ((name, value),) = response.cookies.items()
            client.cookies.clear()
            self._cookies[key] = {"name": name, "value": value, "url": self.url}
        return self._cookies[key]
