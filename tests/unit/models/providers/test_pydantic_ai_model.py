"""The adapter for pydantic-ai, without a server."""

import asyncio

import pytest

from statewright.errors import ModelError
from statewright.messages import Message
from statewright.models import ModelRequest
from statewright.models.providers import connect_model


def test_a_model_of_another_provider_is_rejected_before_sending() -> None:
    model = connect_model("openai:gpt-5", base_url="http://127.0.0.1:1", api_key="k")
    with pytest.raises(ModelError, match=r"'anthropic:claude'.*'openai'"):
        asyncio.run(model.complete(ModelRequest([Message("hi")], model="anthropic:claude")))


def test_closing_a_model_twice_does_nothing() -> None:
    model = connect_model("openai:gpt-5", api_key="k")
    asyncio.run(model.aclose())
    asyncio.run(model.aclose())
