"""Chat models of providers: `connect_model`, and the adapter from pydantic-ai to the port.

The adapter uses `pydantic_ai.direct`, which sends one request and returns the answer, without agents, loops or memory.
pydantic-ai implements the providers' wire formats; messages, retries and storage are ours. The module `failure`
describes the errors.
"""

from __future__ import annotations

import inspect
from collections.abc import AsyncGenerator, AsyncIterator, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

from statewright.data.mappings import without_none
from statewright.errors import ModelError
from statewright.extras import missing_library
from statewright.models.adapters.conversion import is_wrapped, unwrapped
from statewright.models.conversation.prepare import check_request
from statewright.models.guard import check_calls_allowed
from statewright.models.model import ModelEvent, ModelRequest, ModelResponse, ResponseFinished, TextDelta
from statewright.models.providers.client import Clients
from statewright.models.providers.failure import Sending, translate_error, watch_sending
from statewright.models.providers.incoming import convert_response, stream_events
from statewright.models.providers.names import (
    VARIABLES_BY_PROVIDER,
    ModelName,
    ProviderSecrets,
    check_key,
    key_variables_in,
    missing_key_error,
    parse_name,
    resolve_model_name,
)
from statewright.models.providers.outgoing import convert_messages, request_parameters, request_settings
from statewright.models.providers.provenance import AnswerSource
from statewright.models.providers.stream_cleanup import close_generators, nested_generators, run_in_own_task

if TYPE_CHECKING:
    from pydantic_ai.models import Model
    from pydantic_ai.providers import Provider

_BUNDLED_PROVIDERS = ("openai", "anthropic", "google")
"""The providers whose libraries are installed by the extra `models`."""


class PydanticAIModel:
    """A chat model of a provider, created by `connect_model`.

    Several threads and event loops may call it concurrently. The field `model` of a request may name another model of
    the same provider, with or without the provider's prefix; a model of another provider raises ModelError. The field
    `extra` has settings under pydantic-ai's names, such as `{"thinking": "high"}`, `{"openai_reasoning_effort": "low"}`
    or `{"extra_body": {...}}`. Do not remove `metadata["provider"]`, which is plain JSON, from answers: without it the
    model cannot continue its reasoning.
    """

    def __init__(
        self,
        name: ModelName,
        clients: Clients,
        settings: Mapping[str, Any],
        *,
        secrets: ProviderSecrets,
        has_api_key: bool = False,
    ) -> None:
        self._name = name
        self._clients = clients
        self._settings = settings
        self._secrets = secrets
        variables = " or ".join(VARIABLES_BY_PROVIDER.get(name.provider, ()))
        self._key_source = "the api_key that was passed" if has_api_key else variables or "the key in the environment"

    @property
    def name(self) -> str:
        """The name of the model with its provider, as `connect_model` accepts it."""
        return str(self._name)

    def __repr__(self) -> str:
        return f"PydanticAIModel({self.name!r})"

    async def complete(self, request: ModelRequest) -> ModelResponse:
        """Return the complete answer. A call that is cancelled closes its connection. See `failure` for the errors."""
        from pydantic_ai.direct import model_request

        model, name, source = await self._resolve_model(request)
        with watch_sending(model) as sending:
            try:
                answer = await model_request(model, instrument=False, **self._call_kwargs(request, model, source))
                return unwrapped(convert_response(answer, source, streamed=False), request.output)
            except Exception as error:
                failure = self._translate_error(error, name, request, model, sending)
        raise failure

    def stream(self, request: ModelRequest) -> AsyncIterator[ModelEvent]:
        """Yield the events of the answer. Raises the errors of `complete`, and ModelUnavailable if it breaks off."""
        return run_in_own_task(self._events(request))

    async def _events(self, request: ModelRequest) -> AsyncGenerator[ModelEvent]:
        from pydantic_ai.direct import model_request_stream

        model, name, source = await self._resolve_model(request)
        # The text of a wrapped answer can be unwrapped only when it is complete, so it is yielded at the end.
        holds_text_back = is_wrapped(request.output)
        generators: Sequence[AsyncGenerator[Any]] = ()
        with watch_sending(model) as sending:
            try:
                kwargs = self._call_kwargs(request, model, source)
                async with model_request_stream(model, instrument=False, **kwargs) as stream:
                    try:
                        async for event in stream_events(stream):
                            if not (holds_text_back and isinstance(event, TextDelta)):
                                yield event
                    except BaseException:  # the reader stopped early, or the answer broke off
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
        """Close the connections of the running event loop. They are closed anyway when the loop ends."""
        await self._clients.aclose()

    async def _resolve_model(self, request: ModelRequest) -> tuple[Model, str, AnswerSource]:
        """Return the model for a request, its name with its provider, and the source of its answers.

        Raises ModelError if calls of the model are forbidden, or if a provider would refuse the request.
        """
        model_name = resolve_model_name(request.model, self._name) if request.model else self._name.model
        model, name = await self._clients.model(model_name), str(self._name._replace(model=model_name))
        check_calls_allowed(name, base_url=model.base_url)
        check_request(request)
        return model, name, AnswerSource.at(self._name.provider, model.base_url or "")

    def _translate_error(
        self, error: Exception, name: str, request: ModelRequest, model: Model, sending: Sending
    ) -> Exception:
        mask = self._secrets.mask_for(request.extra, model.base_url or "")
        return translate_error(error, name, self._key_source, mask, was_sent=sending.was_sent)

    def _call_kwargs(self, request: ModelRequest, model: Model, source: AnswerSource) -> dict[str, Any]:
        parameters = request_parameters(request, model)
        return {
            "messages": model.prepare_messages(convert_messages(request, source), parameters),
            "model_settings": request_settings(request, self._settings),
            "model_request_parameters": parameters,
        }


# -- connecting


def connect_model(
    name: str,
    *,
    base_url: str | None = None,
    api_key: str | None = None,
    timeout: float | None = None,
    settings: Mapping[str, Any] | None = None,
    http_headers: Mapping[str, str] | None = None,
) -> PydanticAIModel:
    """Return a model of a provider by name. Nothing is sent before the model is called.

    The prefix of the name is the provider: `"openai:gpt-5"` uses OpenAI's Responses API, `"openai-chat:gpt-5"` its chat
    completions; `"anthropic:..."`, `"google:..."` and all other prefixes of pydantic-ai select other providers. With
    `base_url`, a name without a prefix means a model on a server that is compatible with OpenAI's chat completions.

    The API key is `api_key`, or is read from an environment variable such as OPENAI_API_KEY. `timeout` is the default
    timeout of a call, in seconds. `settings` are default settings under pydantic-ai's names, such as
    `{"temperature": 0}`; the settings of a request override them. `http_headers` are sent with every call.

    Raises MissingApiKey if there is no API key; and ModelError if the provider is unknown, if its library is not
    installed, or if the model cannot be configured.
    """
    _require_library()
    parsed = parse_name(name, base_url=base_url)
    check_key(str(parsed), parsed.provider, api_key=api_key, base_url=base_url)
    defaults = {**(settings or {})}
    if timeout is not None:
        defaults.setdefault("request_timeout", timeout)
    if http_headers:
        defaults["extra_headers"] = {**defaults.get("extra_headers", {}), **http_headers}
    create_provider = partial(_create_provider, parsed, {"base_url": base_url, "api_key": api_key})
    clients = Clients(parsed.provider, create_provider)
    _check_connection(parsed, clients)
    secrets = ProviderSecrets(parsed.provider, api_key=api_key, base_url=base_url, settings=defaults)
    return PydanticAIModel(parsed, clients, defaults, secrets=secrets, has_api_key=api_key is not None)


def _require_library() -> None:
    try:
        import pydantic_ai.direct  # pyright: ignore[reportUnusedImport]  # noqa: F401
    except ImportError as error:
        raise ModelError(missing_library("Models of providers need", error, "statewright[models]")) from error


def _create_provider(name: ModelName, options: Mapping[str, str | None]) -> Provider[Any]:
    """Create a provider with a new HTTP client. Raises ModelError for an option that its class does not accept."""
    from pydantic_ai.providers import infer_provider_class

    provider_class = infer_provider_class(name.provider)
    accepted = inspect.signature(provider_class).parameters
    kwargs = without_none(options)
    if "base_url" in kwargs and "base_url" not in accepted and "azure_endpoint" in accepted:
        kwargs["azure_endpoint"] = kwargs.pop("base_url")
    for option in kwargs:
        if option not in accepted:
            raise ModelError(
                f"Model {str(name)!r}: the provider {name.provider!r} does not accept {option}. "
                f"Omit it, and configure the provider by environment variables."
            )
    return provider_class(**kwargs)


def _check_connection(name: ModelName, clients: Clients) -> None:
    """Create the first client, so that errors in the configuration are raised now."""
    from pydantic_ai.exceptions import UserError

    try:
        clients.prepare(name.model)
    except ImportError as error:
        raise ModelError(_missing_library_message(name, error)) from error
    except UserError as error:
        if variables := key_variables_in(str(error)):
            raise missing_key_error(str(name), variables) from error
        raise ModelError(f"Model {str(name)!r} cannot be connected: {error}") from error


def _missing_library_message(name: ModelName, error: ImportError) -> str:
    is_bundled = name.provider.split("-")[0] in _BUNDLED_PROVIDERS
    package = "statewright[models]" if is_bundled else f"pydantic-ai-slim[{name.provider}]"
    cause = error.__cause__  # the original error, for which pydantic-ai substitutes one with installation advice
    missing = cause if isinstance(cause, ImportError) else error
    return missing_library(f"Model {str(name)!r} needs", missing, package)
