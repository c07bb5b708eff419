"""One model used on several event loops and threads."""

from __future__ import annotations

import asyncio
import gc
import inspect
import subprocess
import sys
import threading
import time
import warnings
from collections.abc import AsyncIterator, Iterator

import pytest
from tests.integration.providers.conftest import ModelCaller
from tests.provider_server import Answer, ProviderServer

from statewright.messages import Message
from statewright.models import ModelEvent, ModelRequest

REQUEST = ModelRequest([Message("hi")])


@pytest.fixture
def server() -> Iterator[ProviderServer]:
    """A server for each test, to count its connections."""
    with ProviderServer() as running:
        yield running


@pytest.fixture
def ask(server: ProviderServer, provider: str, mode: str) -> ModelCaller:
    return ModelCaller(server, provider, mode)


@pytest.fixture
def streaming(server: ProviderServer, provider: str) -> ModelCaller:
    return ModelCaller(server, provider, "streamed")


def is_closed(server: ProviderServer) -> bool:
    """Wait until no connection is open, for a limited time."""
    for _ in range(6000):
        if server.connections == 0:
            return True
        time.sleep(0.01)
    return False


def test_a_model_works_on_consecutive_event_loops(ask: ModelCaller) -> None:
    ask.server.script([f"answer {number}" for number in range(3)])
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        answers = [asyncio.run(ask.answer(REQUEST)).text for _ in range(3)]
        gc.collect()
    assert answers == ["answer 0", "answer 1", "answer 2"]
    assert [str(warning.message) for warning in caught if issubclass(warning.category, ResourceWarning)] == []
    assert is_closed(ask.server)


def test_a_model_works_on_concurrent_event_loops(ask: ModelCaller) -> None:
    async def call_twice() -> None:
        for response in await asyncio.gather(ask.answer(REQUEST), ask.answer(REQUEST)):
            answers.append(response.text)

    def run() -> None:
        asyncio.run(call_twice())

    answers: list[str] = []
    ask.server.script([Answer("a", delay=0.05)] * 6)
    threads = [threading.Thread(target=run) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert answers == ["a"] * 6
    assert is_closed(ask.server)


def test_calls_on_one_event_loop_share_a_connection(ask: ModelCaller) -> None:
    async def call_three_times() -> int:
        for _ in range(3):
            await ask.answer(REQUEST)
        return ask.server.connections

    ask.server.script(["a", "b", "c"])
    assert asyncio.run(call_three_times()) == 1


def test_a_closed_model_opens_a_new_connection(ask: ModelCaller) -> None:
    async def close_and_call() -> None:
        await ask.answer(REQUEST)
        await ask.model.aclose()
        assert await asyncio.to_thread(is_closed, ask.server)
        await ask.answer(REQUEST)

    ask.server.script(["a", "b"])
    asyncio.run(close_and_call())


def test_a_garbage_collected_model_closes_its_connection(ask: ModelCaller) -> None:
    async def collect_model() -> bool:
        await ask.answer(REQUEST)
        assert ask.server.connections == 1
        del ask.model
        gc.collect()
        return await asyncio.to_thread(is_closed, ask.server)

    ask.server.script(["a"])
    assert asyncio.run(collect_model())


def test_an_unfinished_stream_is_closed_with_its_event_loop(streaming: ModelCaller) -> None:
    async def leave_stream_open() -> list[object]:
        reports: list[object] = []
        asyncio.get_running_loop().set_exception_handler(lambda _, context: reports.append(context))
        streams.append(streaming.model.stream(REQUEST))
        await anext(streams[0])
        return reports

    streams: list[AsyncIterator[ModelEvent]] = []
    streaming.server.script([Answer("word " * 300, reasoning="hm", pause=0.2)])
    assert asyncio.run(leave_stream_open()) == []
    assert streaming.server.requests[0].disconnected.wait(600)
    assert is_closed(streaming.server)


@pytest.mark.parametrize(
    "provider",
    ["openai", *(pytest.param(name, marks=pytest.mark.full) for name in ("anthropic", "google", "openai-chat"))],
)
def test_a_program_ends_without_warnings(streaming: ModelCaller) -> None:
    url = streaming.server.openai_url if streaming.provider.startswith("openai") else streaming.server.url
    code = f"""if True:
        import asyncio
        from statewright.messages import Message
        from statewright.models import ModelRequest
        from statewright.models.providers import connect_model
        model = connect_model({streaming.model.name!r}, base_url={url!r}, api_key="k")
        request = ModelRequest([Message("hi")])
        async def whole(): print((await model.complete(request)).text)
        async def streamed(): print([event async for event in model.stream(request)][-1].response.text)
        asyncio.run(whole())
        asyncio.run(streamed())
    """
    streaming.server.script(["one", "two"])
    command = [sys.executable, "-Xdev", "-Wignore::DeprecationWarning", "-c", code]
    done = subprocess.run(command, capture_output=True, text=True, timeout=600, check=False)
    complaints = [line for line in done.stderr.splitlines() if "took" not in line]  # -Xdev reports slow callbacks
    assert (done.stdout, complaints, done.returncode) == ("one\ntwo\n", [], 0)


@pytest.mark.parametrize("pieces", [1, 3])
def test_closing_a_stream_closes_the_generators_of_its_library(streaming: ModelCaller, pieces: int) -> None:
    reports: list[str] = []

    async def leave() -> list[str]:
        asyncio.get_running_loop().set_exception_handler(lambda loop, context: reports.append(context["message"]))
        stream = streaming.model.stream(REQUEST)
        for _ in range(pieces):
            await anext(stream)
        await stream.aclose()  # type: ignore[attr-defined]
        return [item.__qualname__ for item in gc.get_objects() if is_open(item) and item not in before]

    ended = threading.Event()  # the answer does not end before the stream is closed
    streaming.server.script([Answer("one two three four five", reasoning="hm", hold_before=("five", ended))])
    gc.collect()
    before = [item for item in gc.get_objects() if is_open(item)]
    try:
        assert asyncio.run(leave()) == ["Client._hold_open"]
        assert reports == []
        assert streaming.server.requests[0].disconnected.wait(600)
    finally:
        ended.set()


def is_open(candidate: object) -> bool:
    """Return whether an object is an asynchronous generator that has started and not ended."""
    return inspect.isasyncgen(candidate) and candidate.ag_frame is not None and candidate.ag_frame.f_lasti > 0
