"""The client with a real server on SQLite, over connections that break."""

from __future__ import annotations

import asyncio
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
import uvicorn

from statewright.client import AsyncClient, Client, LiveEvent
from statewright.errors import InvalidTransition, NotFound, ServiceError, SignalMismatch, Unauthorized
from statewright.server import ServerSettings, create_app
from statewright.service import Catalog, Service
from statewright.storage.sqlite import SqliteDatabase, SqliteLedger, SqliteSaver
from statewright.workflow.steps import Handlers

ADMIN = "the-token-of-the-operator"
PAYMENT: dict[str, Any] = {
    "name": "payment",
    "version": "1",
    "steps": [
        {"type": "task", "name": "prepare", "handler": "prepare"},
        {"type": "external_event", "name": "pay", "signalType": "paid"},
        {"type": "task", "name": "thank", "handler": "prepare"},
    ],
}
LONG: dict[str, Any] = {
    "name": "long",
    "version": "1",
    "steps": [{"type": "task", "name": f"step-{number}", "handler": "prepare"} for number in range(20)],
}


def prepare(ctx: Any) -> dict[str, Any]:
    return {"status": "completed", "stateUpdates": {ctx.step_name: "x" * 100}}


@contextmanager
def running(app: Any) -> Iterator[str]:
    """Run the app in a thread of this process, and yield its URL."""
    server = uvicorn.Server(uvicorn.Config(app, port=0, log_config=None, lifespan="on"))
    thread = threading.Thread(target=server.run, daemon=True)
    thread.start()
    try:
        while not server.started:
            assert thread.is_alive()
            time.sleep(0.01)
        yield f"http://127.0.0.1:{server.servers[0].sockets[0].getsockname()[1]}"
    finally:
        server.should_exit = True
        thread.join(600)


@pytest.fixture(scope="module")
def address(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    path: Path = tmp_path_factory.mktemp("client") / "runs.db"
    with SqliteDatabase(path) as database:
        catalog = Catalog(handlers=Handlers({"prepare": prepare}))
        service = Service(catalog, ledger=SqliteLedger(database), saver=SqliteSaver(database))
        with running(create_app(service, settings=ServerSettings(admin_token=ADMIN))) as url:
            yield url


@pytest.fixture(scope="module")
def key(address: str) -> str:
    with Client(address, admin_token=ADMIN) as operator:
        return operator.workspaces.create("sales").api_key.key


@pytest.fixture
def client(address: str, key: str) -> Iterator[Client]:
    with Client(address, key) as client:
        yield client


@dataclass
class Proxy:
    """Forward connections to a server; cut each in turn after as many bytes of its answers as `cuts` says."""

    upstream: int
    cuts: list[int]
    connections: int = 0
    _open: list[socket.socket] = field(default_factory=list)

    @contextmanager
    def listening(self) -> Iterator[str]:
        with closing(socket.create_server(("127.0.0.1", 0))) as server:
            thread = threading.Thread(target=self._accept, args=(server,), daemon=True)
            thread.start()
            yield f"http://127.0.0.1:{server.getsockname()[1]}"
            server.shutdown(socket.SHUT_RDWR)
            thread.join(600)
        for connection in self._open:
            connection.close()

    def _accept(self, server: socket.socket) -> None:
        with suppress(OSError):
            while True:
                downstream, _ = server.accept()
                self.connections += 1
                upstream = socket.create_connection(("127.0.0.1", self.upstream))
                self._open += [downstream, upstream]
                cut = self.cuts.pop(0) if self.cuts else None
                threading.Thread(target=_forward, args=(downstream, upstream, None), daemon=True).start()
                threading.Thread(target=_forward, args=(upstream, downstream, cut), daemon=True).start()


def _forward(source: socket.socket, target: socket.socket, cut: int | None) -> None:
    passed = 0
    with suppress(OSError):
        while piece := source.recv(64):
            if cut is not None and passed + len(piece) > cut:
                target.sendall(piece[: cut - passed])
                break
            target.sendall(piece)
            passed += len(piece)
    for connection in (source, target):
        with suppress(OSError):
            connection.shutdown(socket.SHUT_RDWR)


def port_of(address: str) -> int:
    return int(address.rpartition(":")[2])


def test_the_client_follows_a_run_from_start_to_completion(client: Client) -> None:
    definition = client.definitions.add(PAYMENT)
    assert client.definitions.add(PAYMENT).id == definition.id
    run = client.runs.start(definition_id=definition.id, input={"a_b": 1}, wait=10, tags=["one"])
    assert (run.status, run.created, run.input) == ("waiting", True, {"a_b": 1})
    assert [wait.signal_type for wait in client.interrupts.iterate() if wait.workflow_run_id == run.id] == ["paid"]
    with pytest.raises(SignalMismatch) as mismatch:
        client.runs.resume(run.id, "payed")
    assert mismatch.value.details == {"waitsFor": ["paid"]}
    client.runs.resume(run.id, "paid", {"amount": 3})
    completed = client.runs.wait(run.id, seconds=10)
    assert completed.status == "completed"
    assert client.runs.state(run.id)["amount"] == 3
    assert [step.status for step in client.runs.get(run.id).step_runs] == ["completed"] * 3
    with pytest.raises(InvalidTransition) as refused:
        client.runs.pause(run.id)
    assert (refused.value.before, refused.value.after) == ("completed", "paused")


def test_a_repeated_start_with_one_key_creates_one_run(client: Client) -> None:
    client.definitions.add(PAYMENT)
    definition_id = client.definitions.list().items[0].id
    first = client.runs.start(definition_id=definition_id, idempotency_key="k")
    again = client.runs.start(definition_id=definition_id, idempotency_key="k")
    assert (again.id, again.created) == (first.id, False)
    others = [client.runs.start(definition_id=definition_id) for _ in range(2)]
    assert all(run.created for run in others)
    assert others[0].id != others[1].id


def test_iterate_reads_all_pages(client: Client) -> None:
    definition = client.definitions.add(PAYMENT)
    started = {client.runs.start(definition_id=definition.id, tags=["many"]).id for _ in range(105)}
    assert {run.id for run in client.runs.iterate(tags=["many"])} == started
    page = client.runs.list(tags=["many"], page=3, page_size=50)
    assert (len(page.items), page.total, page.total_pages) == (5, 105, 3)
    assert set(client.runs.cancel_all(tags=["many"])) == started
    assert {run.status for run in client.runs.iterate(tags=["many"])} == {"cancelled"}


@pytest.mark.parametrize("cuts", [[1500], [700, 900, 1100], [400, 3000, 2000]], ids=str)
def test_an_interrupted_stream_continues_after_the_last_event(
    client: Client, address: str, key: str, cuts: list[int]
) -> None:
    definition = client.definitions.add(LONG)
    run = client.runs.start(definition_id=definition.id, wait=20)
    assert run.status == "completed"
    proxy = Proxy(port_of(address), [*cuts])
    with proxy.listening() as proxy_url, Client(proxy_url, key, timeout=600) as proxied:
        events = list(proxied.runs.follow(run.id))
    assert [event.seq for event in events] == list(range(1, len(events) + 1))
    assert events[-1].event_type == "WORKFLOW_COMPLETED"
    assert [event.id for event in events] == [f"{run.id}:{event.seq}" for event in events]
    assert proxy.connections > len(cuts)
    assert not proxy.cuts


def test_events_arrive_as_they_happen_even_if_connections_break(client: Client, address: str, key: str) -> None:
    """The first connection carries the events so far, and is cut in the middle of those that follow."""
    run = client.runs.start(definition_id=client.definitions.add(PAYMENT).id, wait=10)
    proxy = Proxy(port_of(address), [2400])
    numbers: list[int] = []
    with proxy.listening() as proxy_url, Client(proxy_url, key, timeout=600) as proxied:
        for event in proxied.runs.follow(run.id):
            numbers.append(event.seq)
            if event.event_type == "STEP_WAITING":
                client.runs.signal(run.id, "paid")
    assert numbers == list(range(1, len(numbers) + 1))
    assert client.runs.get(run.id).status == "completed"
    assert proxy.connections >= 2


def test_a_lost_response_to_a_start_does_not_start_two_runs(client: Client, address: str, key: str) -> None:
    definition = client.definitions.add(PAYMENT)
    proxy = Proxy(port_of(address), [20])
    with proxy.listening() as proxy_url, Client(proxy_url, key, timeout=600) as proxied:
        run = proxied.runs.start(definition_id=definition.id, tags=["lost"])
    assert not run.created  # the first request started it, and its answer was cut off
    assert client.runs.list(tags=["lost"]).total == 1


def test_a_request_that_may_have_been_carried_out_is_not_repeated(client: Client, address: str, key: str) -> None:
    run = client.runs.start(definition_id=client.definitions.add(PAYMENT).id, wait=10)
    proxy = Proxy(port_of(address), [20])
    with (
        proxy.listening() as proxy_url,
        Client(proxy_url, key, timeout=600) as proxied,
        pytest.raises(ServiceError, match="It is not known whether the request was carried out"),
    ):
        proxied.runs.cancel(run.id)
    assert proxy.connections == 1
    assert client.runs.get(run.id).status == "cancelled"


def test_the_error_for_an_unreachable_service_contains_its_url() -> None:
    with closing(socket.create_server(("127.0.0.1", 0))) as server:
        port = server.getsockname()[1]
    with Client(f"http://127.0.0.1:{port}", retries=1) as client, pytest.raises(ServiceError) as refused:
        client.runs.list()
    assert f"http://127.0.0.1:{port}" in str(refused.value)
    assert "Check that the service is running" in str(refused.value)


def test_errors_of_the_service_are_raised(client: Client, address: str) -> None:
    with pytest.raises(NotFound, match="Run 'nope' does not exist"):
        client.runs.get("nope")
    with Client(address) as stranger, pytest.raises(Unauthorized):
        stranger.runs.list()


def test_the_async_client_has_the_same_methods_and_results(address: str, key: str) -> None:
    async def use() -> None:
        async with AsyncClient(address, key) as client:
            definition = await client.definitions.add(PAYMENT)
            run = await client.runs.start_and_wait(definition_id=definition.id, seconds=10)
            assert run.status == "waiting"
            follower = asyncio.create_task(_follow(client, run.id))
            await client.runs.signal(run.id, "paid")
            assert (await client.runs.wait(run.id, seconds=10)).status == "completed"
            events = await follower
            assert [event.seq for event in events] == list(range(1, len(events) + 1))
            assert run.id in [completed.id async for completed in client.runs.iterate(status=["completed"])]
            watched = [event async for event in client.runs.watch(run.id)]
            assert not any(isinstance(event, LiveEvent) for event in watched)  # the run had already ended

    asyncio.run(use())


async def _follow(client: AsyncClient, run_id: str) -> list[Any]:
    return [event async for event in client.runs.follow(run_id)]


def test_an_interrupted_async_stream_continues_after_the_last_event(client: Client, address: str, key: str) -> None:
    run = client.runs.start(definition_id=client.definitions.add(LONG).id, wait=20)

    async def use() -> list[Any]:
        with Proxy(port_of(address), [900, 1500]).listening() as proxy_url:
            async with AsyncClient(proxy_url, key, timeout=600) as proxied:
                return await _follow(proxied, run.id)

    events = asyncio.run(use())
    assert [event.seq for event in events] == list(range(1, len(events) + 1))


def test_the_client_reads_health_readiness_and_metrics(client: Client) -> None:
    assert client.health().is_well
    assert client.live()
    assert client.ready()
    assert isinstance(client.metrics(), str)
