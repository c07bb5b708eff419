"""The providers and APIs under test, and models connected to a test server."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Callable, Iterator
from copy import copy
from functools import cache
from typing import Any
from zlib import crc32

import pytest
from tests.provider_server import ProviderServer

from statewright.messages import Message
from statewright.models import ModelEvent, ModelRequest, ModelResponse, ResponseFinished
from statewright.models.providers import PydanticAIModel, connect_model

NAMES = {
    "openai-chat": "openai-chat:gpt-4.1",
    "openai": "openai:gpt-5",
    "anthropic": "anthropic:claude-opus-5",
    "google": "google:gemini-2.5-pro",
}


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[Any]) -> None:
    """Mark all providers but one as `full` for each test of a group of agents; each test keeps another provider."""
    providers = list(NAMES)
    for item in items:
        params = getattr(item, "callspec", None) and item.callspec.params
        if params and "crew" in params and params["crew"] != providers[crc32(item.originalname.encode()) % 4]:
            item.add_marker("full")


@pytest.fixture(scope="session", autouse=True)
def shared_certificates() -> Iterator[None]:
    """Read the certificates of authorities once, not for each client, because no test here uses TLS."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(ssl, "create_default_context", cache(ssl.create_default_context))
        yield


class ModelCaller:
    """Calls the model of a provider, for whole or streamed responses."""

    def __init__(
        self, server: ProviderServer, provider: str, mode: str, *, run: Callable[[Any], Any] = asyncio.run
    ) -> None:
        self.server = server
        self.provider = provider
        self.mode = mode
        self.run = run
        self.model = self.connect()

    def connect(self, **options: Any) -> PydanticAIModel:
        url = self.server.openai_url if self.provider.startswith("openai") else self.server.url
        return connect_model(NAMES[self.provider], **{"base_url": url, "api_key": "k", **options})

    def __call__(self, *messages: Message, **options: Any) -> ModelResponse:
        return self.run(self.answer(ModelRequest(messages or [Message("hi")], **options)))

    async def answer(self, request: ModelRequest) -> ModelResponse:
        if self.mode == "whole":
            return await self.model.complete(request)
        last = (await self.events(request))[-1]
        assert isinstance(last, ResponseFinished)
        return last.response

    async def events(self, request: ModelRequest) -> list[ModelEvent]:
        return [event async for event in self.model.stream(request)]

    @property
    def sent(self) -> Any:
        """The body of the last request."""
        return self.server.requests[-1].body


class Shared:
    """A server, a loop, and models that are connected once for all tests of a module."""

    def __init__(self, server: ProviderServer, runner: asyncio.Runner) -> None:
        self.server = server
        self._runner = runner
        self._callers: dict[str, ModelCaller] = {}

    def separate_caller(self, server: ProviderServer, provider: str, mode: str) -> ModelCaller:
        """Return a caller of another server."""
        return ModelCaller(server, provider, mode, run=self._runner.run)

    def caller(self, provider: str, mode: str) -> ModelCaller:
        if provider not in self._callers:
            self._callers[provider] = ModelCaller(self.server, provider, mode, run=self._runner.run)
        ask = copy(self._callers[provider])
        ask.mode = mode
        return ask


@pytest.fixture(scope="module")
def shared() -> Iterator[Shared]:
    with ProviderServer() as server, asyncio.Runner() as runner:
        yield Shared(server, runner)


@pytest.fixture
def server(shared: Shared) -> ProviderServer:
    shared.server.script([])
    shared.server.requests.clear()
    return shared.server


@pytest.fixture(params=NAMES)
def provider(request: pytest.FixtureRequest) -> str:
    return request.param


@pytest.fixture(params=["whole", "streamed"])
def mode(request: pytest.FixtureRequest) -> str:
    return request.param


@pytest.fixture
def ask(shared: Shared, server: ProviderServer, provider: str, mode: str) -> ModelCaller:
    return shared.caller(provider, mode)


@pytest.fixture
def streaming(shared: Shared, server: ProviderServer, provider: str) -> ModelCaller:
    return shared.caller(provider, "streamed")


@pytest.fixture
def own_server() -> Iterator[ProviderServer]:
    """A server for one test, whose requests may arrive after the call was abandoned, or even after the test."""
    with ProviderServer() as server:
        yield server


@pytest.fixture
def ask_own_server(shared: Shared, own_server: ProviderServer, provider: str, mode: str) -> ModelCaller:
    return shared.separate_caller(own_server, provider, mode)


@pytest.fixture
def streaming_own_server(shared: Shared, own_server: ProviderServer, provider: str) -> ModelCaller:
    return shared.separate_caller(own_server, provider, "streamed")
