"""Every chat model passes the conformance suite."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage
from langchain_core.outputs import ChatGeneration, ChatResult
from tests.provider_server import Answer, Call, ProviderServer

from statewright.errors import ModelUnavailable
from statewright.messages import Message
from statewright.models import ChatModel, FallbackModel, LangChainModel, RecordedModel, RetryingModel, ScriptedModel
from statewright.models.providers import connect_model
from statewright.testing import ChatModelConformance


class TestScriptedModel(ChatModelConformance):
    @contextmanager
    def chat_model(self, *answers: Message) -> Iterator[ChatModel]:
        yield ScriptedModel(answers)


class TestRecordedModel(ChatModelConformance):
    """The recorded answers of another model are replayed."""

    @contextmanager
    def chat_model(self, *answers: Message) -> Iterator[ChatModel]:
        with tempfile.TemporaryDirectory() as folder:
            yield RecordedModel(Path(folder) / "cassette.json", ScriptedModel(answers), "record")


class TestFallbackModel(ChatModelConformance):
    """The first model is always unavailable."""

    @contextmanager
    def chat_model(self, *answers: Message) -> Iterator[ChatModel]:
        unavailable = ScriptedModel([ModelUnavailable("unavailable")], repeat_last=True)
        yield FallbackModel(unavailable, ScriptedModel(answers))


class TestRetryingModel(ChatModelConformance):
    @contextmanager
    def chat_model(self, *answers: Message) -> Iterator[ChatModel]:
        yield RetryingModel(ScriptedModel(answers))


class Scripted(BaseChatModel):
    """A LangChain chat model with scripted answers."""

    answers: list[Any]

    @property
    def _llm_type(self) -> str:
        return "scripted"

    def bind_tools(self, tools: Any, **options: Any) -> Any:
        return self

    def _generate(self, messages: Any, stop: Any = None, run_manager: Any = None, **options: Any) -> ChatResult:
        return ChatResult(generations=[ChatGeneration(message=self.answers.pop(0))])


class TestLangChainModel(ChatModelConformance):
    @contextmanager
    def chat_model(self, *answers: Message) -> Iterator[ChatModel]:
        yield LangChainModel(Scripted(answers=[_for_langchain(answer) for answer in answers]))


def _for_langchain(message: Message) -> AIMessage:
    calls = [{"id": call.id, "name": call.name, "args": call.arguments} for call in message.tool_calls]
    return AIMessage(message.text, tool_calls=calls)


@pytest.mark.filterwarnings("default::pytest.PytestUnraisableExceptionWarning")
class OverHttp(ChatModelConformance):
    """The client library of a provider, against a test server that implements its API."""

    name: str

    @contextmanager
    def chat_model(self, *answers: Message) -> Iterator[ChatModel]:
        with ProviderServer([_for_server(answer) for answer in answers]) as server:
            is_openai = self.name.startswith("openai")
            address = server.openai_url if is_openai else server.url
            yield connect_model(self.name, base_url=address, api_key="key")


def _for_server(message: Message) -> Answer:
    calls = [Call(call.name, call.arguments, id=call.id) for call in message.tool_calls]
    return Answer(message.text, calls=calls)


class TestOpenAIResponses(OverHttp):
    name = "openai:gpt-4.1"


class TestOpenAIChat(OverHttp):
    name = "openai-chat:gpt-4.1"


class TestAnthropic(OverHttp):
    name = "anthropic:claude-opus-5"


class TestGoogle(OverHttp):
    name = "google:gemini-2.5-pro"


del OverHttp
