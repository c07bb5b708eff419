"""The event loop of all connections."""

import asyncio
import threading
from concurrent.futures import ThreadPoolExecutor

import pytest

from statewright.agents.mcp.host import McpHost, get_host
from statewright.errors import ToolError


async def thread_name() -> str:
    return threading.current_thread().name


def test_a_process_has_one_host_with_its_own_thread() -> None:
    with ThreadPoolExecutor(8) as pool:
        hosts = set(pool.map(lambda _: get_host(), range(8)))
    assert hosts == {get_host()}
    assert get_host().submit(thread_name).result(600) == "statewright-mcp"


def test_cancelling_a_future_cancels_its_coroutine() -> None:
    started, cancelled = threading.Event(), threading.Event()

    async def wait_forever() -> None:
        started.set()
        try:
            await asyncio.Event().wait()
        finally:
            cancelled.set()

    future = get_host().submit(wait_forever)
    assert started.wait(600)
    future.cancel()
    assert cancelled.wait(600)


def test_a_closed_host_refuses_calls_and_its_thread_has_ended() -> None:
    host = McpHost()
    name = host.submit(thread_name).result(600)
    before = sum(thread.name == name for thread in threading.enumerate())
    host.close()
    assert sum(thread.name == name for thread in threading.enumerate()) == before - 1
    with pytest.raises(ToolError, match="MCP servers are closed"):
        host.submit(thread_name)
