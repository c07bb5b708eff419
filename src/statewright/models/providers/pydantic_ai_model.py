"""Adapter from a provider's model to the port.

It uses `pydantic_ai.direct`, which sends one request and returns its answer: no agent, no loop, no memory. The wire
format is pydantic-ai's; messages, retries and storage are ours. See `failure` for the errors.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from statewright.models.adapters.conversion import is_wrapped, unwrapped
from statewright.models.conversation.prepare import check_request
from statewright.models.guard import check_calls_allowed
from statewright.models.model import ModelEvent, ModelRequest, ModelResponse, ResponseFinished, TextDelta
from statewright.models.providers.client import Clients
from statewright.models.providers.failure import Sending, translate_error, watch_sending
from statewright.models.providers.incoming import convert_response, stream_events
from statewright.models.providers.names import VARIABLES_BY_PROVIDER, ModelName, ProviderSecrets, resolve_model_name
from statewright.models.providers.outgoing import convert_messages, request_parameters, request_settings
from statewright.models.providers.provenance import Source
from statewright.models.providers.stream_cleanup import close_generators, nested_generators, run_in_own_task

if TYPE_CHECKING:
    from pydantic_ai.models import Model


class PydanticAIModel:
    """A chat model of a provider; made by `connect_model`.

    Several threads and event loops may call it concurrently. A request's `model` may name another model of the same
    provider, with or without the prefix; that of another provider is a ModelError. A request's `extra` are settings
    under pydantic-ai's names, such as `{"thinking": "high"}`, `{"openai_reasoning_effort": "low"}` or `{"extra_body":
    {...}}`. `metadata["provider"]` of an answer is plain JSON. Leave it in the message: without it the model cannot
    continue its reasoning.
    """

    def __init__(
        self,
        name: ModelName,
        clients: Clients,
        settings: Mapping[str, Any],
        *,
        secrets: ProviderSecrets,
        key_given: bool = False,
    ) -> None:
        self._name = name
        self._clients = clients
        self._settings = settings
        self._secrets = secrets
        variables = " or ".join(VARIABLES_BY_PROVIDER.get(name.provider, ()))
        self._key = "the api_key that was given" if key_given else variables or "the key in the environment"

    @property
    def name(self) -> str:
        """Provider and model, as `connect_model` takes them."""
        return str(self._name)

    def __repr__(self) -> str:
        return f"PydanticAIModel({self.name!r})"

    async def complete(self, request: ModelRequest) -> ModelResponse:
        """Return the complete answer. See `failure` for the errors; a cancelled call closes its connection."""
        from pydantic_ai.direct import model_request

        model, name = await self._resolve_model(request)
        source = self._source(model)
        with watch_sending(model) as sending:
            try:
                answer = await model_request(model, instrument=False, **self._call(request, model, source))
                return unwrapped(convert_response(answer, source, streamed=False), request.output)
            except Exception as error:
                failure = self._translate_error(error, name, request, model, sending)
        raise failure

    def stream(self, request: ModelRequest) -> AsyncIterator[ModelEvent]:
        """Yield the answer as events. Raises ModelUnavailable if it breaks off."""
        return run_in_own_task(self._events(request))

    async def _events(self, request: ModelRequest) -> AsyncGenerator[ModelEvent]:
        from pydantic_ai.direct import model_request_stream

        model, name = await self._resolve_model(request)
        source = self._source(model)
        holds_text_back = is_wrapped(request.output)  # the text is emitted after it is unwrapped
        generators: Sequence[AsyncGenerator[Any]] = ()
        with watch_sending(model) as sending:
            try:
                call = model_request_stream(model, instrument=False, **self._call(request, model, source))
                async with call as stream:
                    try:
                        async for piece in stream_events(stream):
                            if not (holds_text_back and isinstance(piece, TextDelta)):
                                yield piece
                    except BaseException:  # the reader has left, or the answer broke off
                        generators = nested_generators(stream)
                        raise
                    response = unwrapped(convert_response(stream.get(), source, streamed=True), request.output)
            except Exception as error:
                failure = self._translate_error(error, name, request, model, sending)
            else:
                if holds_text_back and response.text:
                    yield TextDelta(response.text)
                yield ResponseFinished(response)
                return
            finally:
                await close_generators(generators)
        raise failure

    async def aclose(self) -> None:
        """Close the connections of the running loop. They are closed anyway when the loop ends."""
        await self._clients.aclose()

    async def _resolve_model(self, request: ModelRequest) -> tuple[Model, str]:
        """Return the model of a request, and its full name.

        Raises ModelError if calls are forbidden, and for a request that a provider would refuse.
        """
        model_name = resolve_model_name(request.model, self._name) if request.model else self._name.model
        model, name = await self._clients.model(model_name), str(self._name._replace(model=model_name))
        check_calls_allowed(name, base_url=model.base_url)
        check_request(request)
        return model, name

    def _translate_error(
        self, error: Exception, name: str, request: ModelRequest, model: Model, sending: Sending
    ) -> Exception:
        mask = self._secrets.mask_for(request.extra, model.base_url or "")
        return translate_error(error, name, self._key, mask, was_sent=not sending.was_not_sent)

    def _source(self, model: Model) -> Source:
        return Source.at(self._name.provider, model.base_url or "")

    def _call(self, request: ModelRequest, model: Model, source: Source) -> dict[str, Any]:
        parameters = request_parameters(request, model)
        return {
            "messages": model.prepare_messages(convert_messages(request, source), parameters),
            "model_settings": request_settings(request, self._settings),
            "model_request_parameters": parameters,
        }
