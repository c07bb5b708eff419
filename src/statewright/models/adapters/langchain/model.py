"""The adapter from LangChain's chat models to the port. It uses their methods `bind_tools`, `with_structured_output`,
`ainvoke` and `astream`."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from dataclasses import replace
from typing import Any, Final

from statewright.errors import InvalidConfig, ModelAnswerInvalid, ModelError, StatewrightError
from statewright.messages import langchain_calls
from statewright.models.adapters.conversion import provider_form, unwrapped
from statewright.models.adapters.langchain.conversion import (
    ChunkMerger,
    convert_answer_call,
    convert_response,
    function_schema,
    langchain_messages,
    output_instruction,
    request_settings,
    titled_schema,
    tool_options,
)
from statewright.models.adapters.langchain.errors import mask_for, model_error
from statewright.models.conversation.prepare import check_request
from statewright.models.guard import check_calls_allowed
from statewright.models.model import (
    ModelEvent,
    ModelRequest,
    ModelResponse,
    OutputForm,
    ResponseFinished,
    ToolSpec,
    UsageUpdate,
)
from statewright.models.port import closing, response_events, timeout_error
from statewright.redaction import without_secrets

_ADDRESSES: Final = ("base_url", "openai_api_base", "anthropic_api_url", "api_base", "endpoint_url", "azure_endpoint")
"""The attributes of LangChain's models that may have the address of the server."""


class LangChainModel:
    """A LangChain chat model as a chat model of Statewright.

    Temperature and the other settings of a request, including those in `extra`, are passed to the model as keyword
    arguments. With `tool_choice="none"` no tools are sent. The cost of calls is unknown.

    A structured answer is requested with `with_structured_output`. LangChain ignores tools and settings there, so in a
    request with tools or settings the model gets an additional tool, whose arguments are the answer. For a model that
    supports neither structured output nor tools, an instruction is added to the prompt. A structured answer is not
    streamed.

    Calls of the model can be forbidden, see `forbid_model_calls`, unless it is one of LangChain's fake models or
    `fake=True` declares that it contacts no provider.
    """

    def __init__(self, chat_model: Any, *, fake: bool | None = None) -> None:
        if not (hasattr(chat_model, "ainvoke") and hasattr(chat_model, "bind_tools")):
            raise InvalidConfig(
                f"LangChainModel got {chat_model!r} of type {type(chat_model).__name__}. Pass a LangChain chat model."
            )
        self.chat_model = chat_model
        self.name = _name(chat_model)
        self._fake = type(chat_model).__module__.startswith("langchain_core.") if fake is None else fake

    async def complete(self, request: ModelRequest) -> ModelResponse:
        self._check_allowed()
        check_request(request)
        try:
            async with asyncio.timeout(request.timeout):
                form = None if request.output is None else provider_form(request.output)
                return unwrapped(await self._request_answer(replace(request, output=form)), request.output)
        except StatewrightError:
            raise
        except Exception as error:
            failure = self._translate_error(error, request)
        raise failure

    async def stream(self, request: ModelRequest) -> AsyncIterator[ModelEvent]:
        if request.output is not None:
            for event in response_events(await self.complete(request)):
                yield event
            return
        self._check_allowed()
        check_request(request)
        merger = ChunkMerger()
        async with closing(self._chunks(request)) as chunks:
            async for chunk in chunks:
                for event in merger.add(chunk):
                    yield event
        message = merger.merge()
        if message is None:
            raise ModelAnswerInvalid(f"The LangChain model {self.name!r} ended its stream without an answer.")
        response = convert_response(message, merger.calls(), merger.response_metadata, self.name)
        yield UsageUpdate(response.usage)
        yield ResponseFinished(response)

    # -- requests

    async def _request_answer(self, request: ModelRequest) -> ModelResponse:
        form = request.output
        if form is None:
            return await self._invoke(self._with_tools(request), request)
        if not _callable_tools(request) and not request_settings(request):
            try:
                structured = self.chat_model.with_structured_output(titled_schema(form), include_raw=True)
            except NotImplementedError:
                return await self._invoke(self.chat_model, request, output_instruction(form))
            answer = await structured.ainvoke(langchain_messages(request))
            return convert_answer_call(self._response(answer["raw"]), form)
        return await self._request_by_tool(request, form)

    async def _request_by_tool(self, request: ModelRequest, form: OutputForm) -> ModelResponse:
        """Request an answer that calls tools, or that calls an additional tool whose arguments are the answer."""
        tools = _callable_tools(request)
        choice = "any" if request.tool_choice in ("auto", "none") else request.tool_choice
        answer_tool = ToolSpec(form.name, "Gives the final answer.", form.schema)
        try:
            bound = self._bind_tools(replace(request, tools=(*tools, answer_tool), tool_choice=choice))
        except NotImplementedError:
            if tools:
                raise self._no_tools_error(request) from None
            return await self._invoke(self.chat_model, request, output_instruction(form))
        return convert_answer_call(await self._invoke(bound, request), form)

    async def _invoke(self, model: Any, request: ModelRequest, instruction: str = "") -> ModelResponse:
        return self._response(
            await model.ainvoke(langchain_messages(request, instruction), **request_settings(request))
        )

    async def _chunks(self, request: ModelRequest) -> AsyncIterator[Any]:
        """Yield the chunks of an answer. The time that the reader spends between chunks does not count."""
        remaining = request.timeout
        loop = asyncio.get_running_loop()
        try:
            stream = self._with_tools(request).astream(langchain_messages(request), **request_settings(request))
            async with closing(stream) as chunks:
                while True:
                    started_at = loop.time()
                    async with asyncio.timeout(remaining):
                        chunk = await anext(chunks, None)
                    remaining = None if remaining is None else max(remaining - (loop.time() - started_at), 0.0)
                    if chunk is None:
                        return
                    yield chunk
        except StatewrightError:
            raise
        except Exception as error:
            failure = self._translate_error(error, request)
        raise failure

    def _with_tools(self, request: ModelRequest) -> Any:
        """Return the model, to which the tools of the request are bound if there are any."""
        if not _callable_tools(request):
            return self.chat_model
        try:
            return self._bind_tools(request)
        except NotImplementedError:
            raise self._no_tools_error(request) from None

    def _bind_tools(self, request: ModelRequest) -> Any:
        return self.chat_model.bind_tools([function_schema(tool) for tool in request.tools], **tool_options(request))

    def _no_tools_error(self, request: ModelRequest) -> ModelError:
        names = ", ".join(tool.name for tool in request.tools)
        return ModelError(
            f"The LangChain model {self.name!r} does not support tools: it does not implement bind_tools. "
            f"The request has the tools {names}. Use another model, or send no tools."
        )

    def _check_allowed(self) -> None:
        if not self._fake:
            check_calls_allowed(self.name, base_url=_address(self.chat_model))

    def _translate_error(self, error: Exception, request: ModelRequest) -> ModelError:
        """Return our error for one that the model raised.

        Raise it after the `except` block, or the original error, which may contain the API key, becomes its context.
        """
        mask = mask_for(self.chat_model, request.extra)
        if type(error) is TimeoutError and request.timeout is not None:
            failure = timeout_error(self, request)
            failure.__cause__ = without_secrets(error, mask)
            return failure
        return model_error(self.name, error, mask)

    def _response(self, answer: Any) -> ModelResponse:
        return convert_response(answer, langchain_calls(answer), answer.response_metadata, self.name)


def _callable_tools(request: ModelRequest) -> Sequence[ToolSpec]:
    """Return the tools to send. With the tool choice `none`, which not every provider supports, no tools are sent."""
    return () if request.tool_choice == "none" else request.tools


# -- attributes of LangChain's models


def _name(chat_model: Any) -> str:
    names = (getattr(chat_model, name, None) for name in ("model_name", "model"))
    return next((name for name in names if isinstance(name, str) and name), type(chat_model).__name__)


def _address(chat_model: Any) -> str | None:
    addresses = (getattr(chat_model, name, None) for name in _ADDRESSES)
    return next((str(address) for address in addresses if address), None)
