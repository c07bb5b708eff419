"""Clients by event loop, without a server: how many are created, and when they are closed."""

import asyncio
import gc
import threading
from typing import Any, cast

import pytest

from statewright.models.providers.client import Clients


class Provider:
    """Remembers whether it is open."""

    def __init__(self) -> None:
        self.open = False

    async def __aenter__(self) -> None:
        self.open = True

    async def __aexit__(self, *_: object) -> None:
        await asyncio.sleep(0)
        self.open = False


class Kept(Clients):
    """Clients whose models are the providers themselves."""

    def __init__(self, kind: type[Provider] = Provider) -> None:
        self._kind = kind
        self.made: list[Provider] = []
        super().__init__("p", cast(Any, self._one))

    def _one(self) -> Provider:
        self.made.append(self._kind())
        return self.made[-1]


def test_a_loop_keeps_its_client() -> None:
    async def twice() -> None:
        await clients.client()
        await clients.client()
        assert [item.open for item in clients.made] == [True]

    clients = Kept()
    asyncio.run(twice())
    assert len(clients.made) == 1


def test_a_client_is_closed_when_its_loop_ends() -> None:
    clients = Kept()
    asyncio.run(clients.client())
    assert [item.open for item in clients.made] == [False]


def test_each_loop_has_its_own() -> None:
    clients = Kept()
    threads = [threading.Thread(target=lambda: asyncio.run(clients.client())) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(clients.made) == 3


def test_clients_of_ended_loops_are_forgotten() -> None:
    async def alone() -> int:
        await clients.client()
        return len(clients._by_loop)

    clients = Kept()
    assert [asyncio.run(alone()) for _ in range(3)] == [1, 1, 1]


def test_a_client_that_cannot_be_opened_is_not_kept() -> None:
    class Broken(Provider):
        async def __aenter__(self) -> None:
            raise OSError("no")

    async def twice() -> None:
        for _ in range(2):
            with pytest.raises(OSError, match="no"):
                await clients.client()

    clients = Kept(Broken)
    asyncio.run(twice())
    assert len(clients.made) == 2


def test_a_closed_client_is_followed_by_another() -> None:
    async def closing() -> None:
        await clients.client()
        await clients.aclose()
        await clients.aclose()
        assert [item.open for item in clients.made] == [False]
        await clients.client()

    clients = Kept()
    asyncio.run(closing())
    assert len(clients.made) == 2


def test_a_client_that_nobody_has_any_more_is_closed() -> None:
    async def dropping() -> Provider:
        clients = Kept()
        await clients.client()
        provider = clients.made[0]
        del clients
        gc.collect()
        async with asyncio.timeout(600):
            while provider.open:
                await asyncio.sleep(0)
        return provider

    assert not asyncio.run(dropping()).open
