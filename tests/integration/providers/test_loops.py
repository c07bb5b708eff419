"""One model on several event loops and threads."""

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
from tests.integration.providers.conftest import Asking
from tests.provider_server import Answer, ProviderServer

from statewright.messages import Message
from statewright.models import ModelEvent, ModelRequest

REQUEST = ModelRequest([Message("hi")])


@pytest.fixture
def server() -> Iterator[ProviderServer]:
    """One for each test, to count its connections."""
    with ProviderServer() as running:
        yield running


@pytest.fixture
def ask(server: ProviderServer, provider: str, way: str) -> Asking:
    return Asking(server, provider, way)


@pytest.fixture
def streaming(server: ProviderServer, provider: str) -> Asking:
    return Asking(server, provider, "streamed")


def closed(server: ProviderServer) -> bool:
    """Whether no connection is open, after a moment at most."""
    for _ in range(6000):
        if server.connections == 0:
            return True
        time.sleep(0.01)
    return False


def test_one_run_after_the_other(ask: Asking) -> None:
    ask.server.script([f"answer {number}" for number in range(3)])
    with warnings.catch_warnings(record=True) as heard:
        warnings.simplefilter("always")
        answers = [asyncio.run(ask.answer(REQUEST)).text for _ in range(3)]
        gc.collect()
    assert answers == ["answer 0", "answer 1", "answer 2"]
    assert [str(one.message) for one in heard if issubclass(one.category, ResourceWarning)] == []
    assert closed(ask.server)


def test_threads_with_loops_of_their_own(ask: Asking) -> None:
    async def twice() -> None:
        for response in await asyncio.gather(ask.answer(REQUEST), ask.answer(REQUEST)):
            answers.append(response.text)

    def run() -> None:
        asyncio.run(twice())

    answers: list[str] = []
    ask.server.script([Answer("a", delay=0.05)] * 6)
    threads = [threading.Thread(target=run) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert answers == ["a"] * 6
    assert closed(ask.server)


def test_a_connection_serves_the_next_call_of_its_loop(ask: Asking) -> None:
    async def three() -> int:
        for _ in range(3):
            await ask.answer(REQUEST)
        return ask.server.connections

    ask.server.script(["a", "b", "c"])
    assert asyncio.run(three()) == 1


def test_a_closed_model_opens_another_connection(ask: Asking) -> None:
    async def closing() -> None:
        await ask.answer(REQUEST)
        await ask.model.aclose()
        assert await asyncio.to_thread(closed, ask.server)
        await ask.answer(REQUEST)

    ask.server.script(["a", "b"])
    asyncio.run(closing())


def test_a_model_that_nobody_has_any_more_closes_its_connection(ask: Asking) -> None:
    async def dropping() -> bool:
        await ask.answer(REQUEST)
        assert ask.server.connections == 1
        del ask.model
        gc.collect()
        return await asyncio.to_thread(closed, ask.server)

    ask.server.script(["a"])
    assert asyncio.run(dropping())


def test_a_reader_that_leaves_a_stream_leaves_nothing_behind(streaming: Asking) -> None:
    async def leaving() -> list[object]:
        heard: list[object] = []
        asyncio.get_running_loop().set_exception_handler(lambda _, context: heard.append(context))
        kept.append(streaming.model.stream(REQUEST))
        await anext(kept[0])
        return heard

    kept: list[AsyncIterator[ModelEvent]] = []
    streaming.server.script([Answer("word " * 300, reasoning="hm", pause=0.2)])
    assert asyncio.run(leaving()) == []
    assert streaming.server.requests[0].left.wait(600)
    assert closed(streaming.server)


@pytest.mark.parametrize(
    "provider",
    ["openai", *(pytest.param(one, marks=pytest.mark.full) for one in ("anthropic", "google", "openai-chat"))],
)
def test_a_program_ends_in_silence(streaming: Asking) -> None:
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
    complaints = [line for line in done.stderr.splitlines() if "took" not in line]  # -Xdev tells of slow imports
    assert (done.stdout, complaints, done.returncode) == ("one\ntwo\n", [], 0)


@pytest.mark.parametrize("pieces", [1, 3])
def test_a_stream_that_is_left_closes_all_that_its_library_has_opened(streaming: Asking, pieces: int) -> None:
    heard: list[str] = []

    async def leave() -> list[str]:
        asyncio.get_running_loop().set_exception_handler(lambda loop, context: heard.append(context["message"]))
        stream = streaming.model.stream(REQUEST)
        for _ in range(pieces):
            await anext(stream)
        await stream.aclose()  # type: ignore[attr-defined]
        return [one.__qualname__ for one in gc.get_objects() if is_open(one) and one not in before]

    ended = threading.Event()  # the answer goes on until the stream is left, however slow that is
    streaming.server.script([Answer("one two three four five", reasoning="hm", hold_before=("five", ended))])
    gc.collect()
    before = [one for one in gc.get_objects() if is_open(one)]
    try:
        assert asyncio.run(leave()) == ["Client._hold_open"]
        assert heard == []
        assert streaming.server.requests[0].left.wait(600)
    finally:
        ended.set()


def is_open(candidate: object) -> bool:
    """True for an asynchronous generator that has begun and has not ended."""
    return inspect.isasyncgen(candidate) and candidate.ag_frame is not None and candidate.ag_frame.f_lasti > 0
