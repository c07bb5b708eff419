"""One client per event loop: creation and closing, without a server."""

import asyncio
import gc
import threading
from typing import Any, cast

import pytest

from statewright.models.providers.client import Clients


class Provider:
    """A provider that records whether it is open."""

    def __init__(self) -> None:
        self.open = False

    async def __aenter__(self) -> None:
        self.open = True

    async def __aexit__(self, *_: object) -> None:
        await asyncio.sleep(0)
        self.open = False


class RecordingClients(Clients):
    """Clients that return the provider itself as the client."""

    def __init__(self, kind: type[Provider] = Provider) -> None:
        self._kind = kind
        self.created: list[Provider] = []
        super().__init__("p", cast(Any, self._create))

    def _create(self) -> Provider:
        self.created.append(self._kind())
        return self.created[-1]


def test_an_event_loop_reuses_its_client() -> None:
    async def open_twice() -> None:
        await clients.client()
        await clients.client()
        assert [provider.open for provider in clients.created] == [True]

    clients = RecordingClients()
    asyncio.run(open_twice())
    assert len(clients.created) == 1


def test_a_client_is_closed_when_its_event_loop_ends() -> None:
    clients = RecordingClients()
    asyncio.run(clients.client())
    assert [provider.open for provider in clients.created] == [False]


def test_each_event_loop_has_its_own_client() -> None:
    clients = RecordingClients()
    threads = [threading.Thread(target=lambda: asyncio.run(clients.client())) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(clients.created) == 3


def test_clients_of_ended_event_loops_are_removed() -> None:
    async def open_client() -> int:
        await clients.client()
        return len(clients._by_loop)

    clients = RecordingClients()
    assert [asyncio.run(open_client()) for _ in range(3)] == [1, 1, 1]


def test_a_client_that_fails_to_open_is_discarded() -> None:
    class BrokenProvider(Provider):
        async def __aenter__(self) -> None:
            raise OSError("no")

    async def open_twice() -> None:
        for _ in range(2):
            with pytest.raises(OSError, match="no"):
                await clients.client()

    clients = RecordingClients(BrokenProvider)
    asyncio.run(open_twice())
    assert len(clients.created) == 2


def test_a_new_client_is_created_after_closing() -> None:
    async def close_client() -> None:
        await clients.client()
        await clients.aclose()
        await clients.aclose()
        assert [provider.open for provider in clients.created] == [False]
        await clients.client()

    clients = RecordingClients()
    asyncio.run(close_client())
    assert len(clients.created) == 2


def test_an_unreferenced_client_is_closed() -> None:
    async def drop_clients() -> Provider:
        clients = RecordingClients()
        await clients.client()
        provider = clients.created[0]
        del clients
        gc.collect()
        async with asyncio.timeout(600):
            while provider.open:
                await asyncio.sleep(0)
        return provider

    assert not asyncio.run(drop_clients()).open
