"""Keys of LangChain models are masked in errors, as far as they are known."""

from __future__ import annotations

import asyncio
import json
import traceback
from collections.abc import AsyncIterator
from typing import Any

import httpx
import pytest
from langchain_core.language_models import BaseChatModel
from langchain_core.outputs import ChatGenerationChunk, ChatResult
from pydantic import SecretStr
from tests.provider_server import Failure, ProviderServer

from statewright.errors import ModelError
from statewright.messages import Message
from statewright.models import ModelRequest
from statewright.models.adapters.langchain.model import LangChainModel
from statewright.redaction import MARK, full_text

KEY = "very/secret+key=of.the-house"


class ProxiedModel(BaseChatModel):
    """Sends its key over HTTP and raises an error with the response, as the libraries of providers do."""

    url: str
    key: SecretStr | None = None
    proxy_token: str | None = None
    default_headers: dict[str, str] = {}
    key_in_environment: str | None = None

    @property
    def _llm_type(self) -> str:
        return "proxied"

    @property
    def lc_secrets(self) -> dict[str, str]:
        return {"key_in_environment": "PROXIED_API_KEY"}

    async def _send(self) -> Any:
        key = self.key.get_secret_value() if self.key else self.proxy_token or self.key_in_environment or "none"
        async with httpx.AsyncClient(trust_env=False) as client:
            headers = {"authorization": f"Bearer {key}", **self.default_headers}
            response = await client.post(self.url, headers=headers, json={})
        try:
            response.raise_for_status()
        except httpx.HTTPStatusError as error:
            raise RuntimeError(f"Error code: {response.status_code} - {response.text}") from error

    async def _agenerate(self, *args: Any, **kwargs: Any) -> ChatResult:
        return await self._send()

    async def _astream(self, *args: Any, **kwargs: Any) -> AsyncIterator[ChatGenerationChunk]:
        yield await self._send()

    def _generate(self, *args: Any, **kwargs: Any) -> ChatResult:
        raise NotImplementedError

    def bind_tools(self, tools: Any, **kwargs: Any) -> Any:
        raise NotImplementedError


@pytest.mark.parametrize("mode", ["whole", "streamed"])
@pytest.mark.parametrize(
    "options",
    [
        {"key": SecretStr(KEY)},
        {"proxy_token": KEY},
        {"default_headers": {"x-api-key": KEY}},
        {"key_in_environment": KEY},
    ],
    ids=["secret text", "text", "header", "environment"],
)
def test_a_key_in_an_error_is_masked(options: dict[str, Any], mode: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PROXIED_API_KEY", KEY)

    async def ask(model: LangChainModel) -> None:
        request = ModelRequest([Message("hi")])
        if mode == "whole":
            await model.complete(request)
        else:
            async for _ in model.stream(request):
                pass

    with ProviderServer([lambda request: Failure(401, json.dumps(request.headers))]) as server:
        model = LangChainModel(ProxiedModel(url=server.url, **options), fake=True)
        with pytest.raises(ModelError) as caught:
            asyncio.run(ask(model))
    error = caught.value
    assert MARK in str(error)
    assert KEY not in "".join([*traceback.format_exception(error), full_text(error)])
