"""Convert the errors of providers to ours.

- ModelUnavailable means that a retry may succeed: after the HTTP statuses 408, 409, 425, 429 and above 499, with the
  provider's Retry-After; after a connection was refused, broke or timed out; and after an answer that is empty, null,
  not JSON, truncated, or in an undocumented form. The cause of such an answer may be temporary or permanent, but the
  number of retries is limited anyway.
- ModelError means that a retry would not help: after any other HTTP status, after the quota was used up, and for a
  request that the provider's library rejects or cannot serialize, so that nothing was sent. For the statuses 401 and
  403 it names the source of the API key that was refused.
- ModelAnswerInvalid is not raised here: it is for callers that validate the content of an answer.
- A refusal by a content filter or by the model itself is not an error: the `finish_reason` of the answer is `refused`.
- Tool arguments that are not JSON are not an error either: they are in `ToolCall.invalid`.

The providers' libraries raise the same errors for invalid requests and for invalid answers. Therefore `watch_sending`
records whether a request was sent. If an error is raised before that, the request is its cause, and every retry would
fail in the same way.
"""

from __future__ import annotations

from collections.abc import Generator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, cast

from statewright.errors import ModelError, ModelUnavailable, StatewrightError
from statewright.models.adapters.conversion import is_temporary
from statewright.redaction import Mask, without_secrets

if TYPE_CHECKING:
    from pydantic_ai.exceptions import ModelAPIError, ModelHTTPError

_MAX_DETAIL = 300  # characters of a provider's message
_PROGRAMMING_ERRORS = (ValueError, TypeError, LookupError, AttributeError, RuntimeError, AssertionError)
"""Errors that code raises because of wrong input, as opposed to errors of the network or of authentication."""


def translate_error(error: Exception, name: str, key_source: str, mask: Mask, *, was_sent: bool = True) -> Exception:
    """Return our error for an error that a call of the model `name` raised.

    Its cause is the original error, with secrets masked. `key_source` describes where the API key comes from. `mask`
    masks the secrets in a text, so that no traceback shows them. `was_sent` is False if the request was certainly not
    sent. Raise the result after the `except` block, or the original error, with its secrets, becomes its context.
    """
    if isinstance(error, StatewrightError | Warning):
        return error
    failure = _failure_of(error, name, key_source, mask, was_sent)
    failure.__cause__ = without_secrets(error, mask)
    return failure


def _failure_of(error: Exception, name: str, key_source: str, mask: Mask, was_sent: bool) -> ModelError:
    from pydantic_ai.exceptions import ModelAPIError, ModelHTTPError, ModelRequestRejectedError, UserError

    if isinstance(error, ModelHTTPError):
        return _status_error(name, key_source, error, mask)
    if isinstance(error, ModelRequestRejectedError):  # by the library; a refusal by the provider is a ModelHTTPError
        return ModelError(f"The library of model {name!r} rejected this request: {_excerpt(error, mask)}")
    if isinstance(error, ModelAPIError):
        return _connection_error(name, error, mask)
    detail = _excerpt(error, mask)
    if isinstance(error, UserError | NotImplementedError):
        return ModelError(f"Model {name!r} does not support this request: {detail}")
    if not was_sent and isinstance(error, _PROGRAMMING_ERRORS):
        return ModelError(
            f"The request to model {name!r} could not be built, and nothing was sent ({type(error).__name__}: "
            f"{detail}). Check its messages, tools, schema and settings for values that are not plain JSON, and for "
            f"files of types that this provider does not support."
        )
    # The libraries raise errors of many types for answers that they cannot parse.
    return ModelUnavailable(
        f"Model {name!r} returned an answer that cannot be parsed ({type(error).__name__}: {detail}). "
        f"If this persists, check that the server at base_url implements the API of this provider."
    )


def _status_error(name: str, key_source: str, error: ModelHTTPError, mask: Mask) -> ModelError:
    from pydantic_ai.exceptions import ModelQuotaExceededError

    status, detail = error.status_code, _excerpt(_body_text(error.body) or "nothing", mask)
    summary = f"Model {name!r} answered with status {status}: {detail}."
    if isinstance(error, ModelQuotaExceededError):
        return ModelError(f"{summary} The quota is used up; check the account of {key_source}.")
    if is_temporary(status):
        return ModelUnavailable(summary, status=status, retry_after=error.retry_after)
    if status in (401, 403):
        return ModelError(f"{summary} The key was refused; check {key_source}.")
    if status == 404:
        return ModelError(f"{summary} Check the name of the model, and base_url if it is set.")
    return ModelError(summary)


def _connection_error(name: str, error: ModelAPIError, mask: Mask) -> ModelUnavailable:
    from pydantic_ai.exceptions import ModelRequestTimeout

    if isinstance(error, ModelRequestTimeout):
        return ModelUnavailable(f"Model {name!r} did not answer within {error.timeout:g} seconds. Raise the timeout.")
    cause = error.__cause__.__cause__ if error.__cause__ is not None else None
    reason = f" ({_excerpt(cause, mask)})" if cause is not None and str(cause) else ""
    return ModelUnavailable(
        f"Model {name!r} returned no complete answer: {_excerpt(error, mask)}{reason}", retry_after=error.retry_after
    )


def _body_text(body: object) -> str:
    """Return the message in the body of an error response, in any of the providers' formats."""
    if not isinstance(body, Mapping):
        return "" if body is None else str(body)
    fields = cast("Mapping[str, Any]", body)
    return _body_text(fields.get("error") or fields.get("message") or fields.get("detail") or repr(dict(fields)))


def _excerpt(text: object, mask: Mask) -> str:
    # The text is masked before it is truncated, because a truncated secret would not be recognised.
    line = " ".join(mask(str(text)).split())
    return line if len(line) <= _MAX_DETAIL else f"{line[:_MAX_DETAIL]}..."


# -- whether a request was sent


@dataclass(slots=True)
class Sending:
    """Records whether the request of a model call was sent."""

    was_sent: bool
    """False if the request has certainly not been sent. Always True for providers for which this is not observable."""


_current: Final[ContextVar[Sending | None]] = ContextVar("statewright_sending", default=None)


@contextmanager
def watch_sending(model: Any) -> Generator[Sending]:
    """Observe whether the model call that is made in the `with` block sends its request."""
    hooks = _request_hooks(getattr(model, "provider", None))
    if hooks is not None and _mark_sent not in hooks:
        hooks.append(_mark_sent)
    sending = Sending(was_sent=hooks is None)
    token = _current.set(sending)
    try:
        yield sending
    finally:
        _current.reset(token)


async def _mark_sent(request: object) -> None:
    """Mark the request of the current call as sent. The HTTP client calls this hook just before it sends a request."""
    sending = _current.get()
    if sending is not None:
        sending.was_sent = True


def _request_hooks(provider: Any) -> list[Any] | None:
    """Return the list of request hooks of a provider's HTTP client; None if its client has no hooks."""
    client = getattr(provider, "_own_http_client", None)
    hooks = getattr(client, "event_hooks", None)
    if not isinstance(hooks, Mapping):
        return None
    return cast("Mapping[str, list[Any]]", hooks).get("request")
