"""Fixtures for the tests of the written rules: both drivers, both kinds of nodes, and a guard against hanging."""

from __future__ import annotations

import asyncio
import itertools
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.postgres_server import STORAGES, empty_database
from tests.semantics.on_services import RunStorage
from tests.semantics.surroundings import items_for_memory_only, parametrize, repeated_items, surroundings  # noqa: F401
from tests.work import FULL

from statewright import InMemorySaver
from statewright.storage.sqlite import SqliteSaver


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    parametrize(metafunc)


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Deselect tests that repeat another one in other surroundings, except in `make test-full`."""
    deselected = [*items_for_memory_only(items), *([] if FULL else repeated_items(items))]
    if deselected:
        config.hook.pytest_deselected(items=deselected)
        repeated = set(deselected)
        items[:] = [item for item in items if item not in repeated]


class SyncDriver:
    """Runs graphs by plain calls."""

    name = "sync"

    def invoke(self, app: Any, input: Any, config: Any = None, **options: Any) -> Any:  # noqa: A002
        return app.invoke(input, config, **options)

    def stream(self, app: Any, input: Any, config: Any = None, **options: Any) -> list[Any]:  # noqa: A002
        return list(app.stream(input, config, **options))

    def batch(self, app: Any, inputs: Any, config: Any = None, **options: Any) -> list[Any]:
        return app.batch(inputs, config, **options)

    def take(self, app: Any, input: Any, count: int, **options: Any) -> list[Any]:  # noqa: A002
        """Return the first parts of a stream, and close it."""
        parts = app.stream(input, **options)
        first = [next(parts) for _ in range(count)]
        parts.close()
        return first


class AsyncDriver:
    """Runs graphs on an event loop."""

    name = "async"

    def invoke(self, app: Any, input: Any, config: Any = None, **options: Any) -> Any:  # noqa: A002
        return asyncio.run(app.ainvoke(input, config, **options))

    def stream(self, app: Any, input: Any, config: Any = None, **options: Any) -> list[Any]:  # noqa: A002
        async def read() -> list[Any]:
            return [part async for part in app.astream(input, config, **options)]

        return asyncio.run(read())

    def batch(self, app: Any, inputs: Any, config: Any = None, **options: Any) -> list[Any]:
        return asyncio.run(app.abatch(inputs, config, **options))

    def take(self, app: Any, input: Any, count: int, **options: Any) -> list[Any]:  # noqa: A002
        """Return the first parts of a stream, and close it."""

        async def read() -> list[Any]:
            parts = app.astream(input, **options)
            first = [await anext(parts) for _ in range(count)]
            await parts.aclose()
            return first

        return asyncio.run(read())


@pytest.fixture(params=[SyncDriver, AsyncDriver], ids=["sync", "async"])
def driver(request: pytest.FixtureRequest) -> SyncDriver | AsyncDriver:
    """Return a driver of graphs; both behave in the same way."""
    return request.param()


@pytest.fixture
def anyio_backend() -> str:
    """Run coroutine tests on asyncio only."""
    return "asyncio"


@pytest.fixture(params=STORAGES)
def run_storage(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[RunStorage]:
    """Yield the storage of a service: in memory, in a SQLite file, and on Postgres."""
    run_storage = RunStorage.of(request.param, tmp_path / "runs.db")
    yield run_storage
    run_storage.close()


@pytest.fixture(params=STORAGES)
def saver(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Any]:
    """Yield an empty saver of each kind."""
    if request.param == "postgres":
        from statewright.storage.postgres import PostgresSaver

        yield PostgresSaver(empty_database())
        return
    with InMemorySaver() if request.param == "memory" else SqliteSaver(tmp_path / "threads.db") as saver:
        yield saver


Node = Callable[..., Any]


def _as_coroutine(function: Node) -> Node:
    """Return a coroutine function that yields to the event loop once and calls the function."""

    async def node(state: Any) -> Any:
        await asyncio.sleep(0)
        return function(state)

    node.__name__ = function.__name__
    return node


@pytest.fixture(params=["plain", "coroutine", "mixed"])
def paint(request: pytest.FixtureRequest) -> Callable[[Node], Node]:
    """Return a decorator that makes nodes plain functions, coroutine functions, or both by turns (`mixed`)."""
    kind: str = request.param
    turns = itertools.cycle([False, True])

    def convert(function: Node) -> Node:
        awaits = kind == "coroutine" or (kind == "mixed" and next(turns))
        return _as_coroutine(function) if awaits else function

    return convert


@pytest.fixture
def within() -> Callable[[Callable[[], Any]], Any]:
    """Return a function that calls another one on a thread, and fails the test if the call hangs."""

    def call(function: Callable[[], Any], seconds: float = 600.0) -> Any:
        results: list[Any] = []
        raised: list[BaseException] = []

        def target() -> None:
            try:
                results.append(function())
            except BaseException as error:
                raised.append(error)

        thread = threading.Thread(target=target, daemon=True)
        thread.start()
        thread.join(seconds)
        if thread.is_alive():
            pytest.fail(f"The call is still running after {seconds} s: a deadlock.")
        if raised:
            raise raised[0]
        return results[0]

    return call
