"""Convert errors of a provider to ours.

- ModelUnavailable is worth a retry: the statuses 408, 409, 425, 429 and 500 and above, with the Retry-After of the
  provider; a connection that is refused, breaks or times out; an answer that is empty, null, not JSON, truncated, or in
  a form that the provider does not document. A transient fault looks like a permanent one there, and retries are
  limited.
- ModelError is permanent: every other status, an exhausted quota, a request that the provider's library rejects or
  cannot serialize, so that nothing was sent. For 401 and 403 it names the key that was refused.
- ModelAnswerInvalid is not raised here: it is for callers that validate the content of an answer.
- A refusal by a content filter or by the model itself is not an error: the answer's `finish_reason` is `refused`.
- Tool arguments that are not JSON are not an error either: they are in `ToolCall.invalid`.

The vendors' libraries raise the same errors for invalid requests and for invalid answers. `watch_sending` records
whether anything was sent: an error before that is about the request, and would recur at every retry.
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

_LONGEST = 300  # characters of a provider's message
_PROGRAMMING_ERRORS = (ValueError, TypeError, LookupError, AttributeError, RuntimeError, AssertionError)
"""Errors of code with wrong input, as opposed to network and login errors."""


def translate_error(error: Exception, name: str, key: str, mask: Mask, *, was_sent: bool = True) -> Exception:
    """Return our error for one that a call of the model has raised, with the original as its cause.

    `was_sent` is False if the call certainly never left. `key` says where the key comes from. `mask` takes secrets out
    of a text: nothing that a traceback prints contains one. Raise the result outside of the handler, or the original
    hangs on as its context.
    """
    if isinstance(error, StatewrightError | Warning):
        return error
    failure = _failure_of(error, name, key, mask, was_sent)
    failure.__cause__ = without_secrets(error, mask)
    return failure


def _failure_of(error: Exception, name: str, key: str, mask: Mask, was_sent: bool) -> ModelError:
    from pydantic_ai.exceptions import ModelAPIError, ModelHTTPError, ModelRequestRejectedError, UserError

    if isinstance(error, ModelHTTPError):
        return _status_error(name, key, error, mask)
    if isinstance(error, ModelRequestRejectedError):  # by its library: a status would be a ModelHTTPError
        return ModelError(f"Model {name!r} does not take this request: {_short(error, mask)}")
    if isinstance(error, ModelAPIError):
        return _connection_error(name, error, mask)
    detail = _short(error, mask)
    if isinstance(error, UserError | NotImplementedError):
        return ModelError(f"Model {name!r} does not support this request: {detail}")
    if not was_sent and isinstance(error, _PROGRAMMING_ERRORS):
        return ModelError(
            f"The request to model {name!r} could not be built, and nothing was sent ({type(error).__name__}: "
            f"{detail}). Look for values in its messages, tools, schema or settings that are not plain JSON, or for "
            f"files of a type that this provider does not support."
        )
    # The libraries raise errors of many types for answers that they cannot parse.
    return ModelUnavailable(
        f"Model {name!r} gave an answer that cannot be read ({type(error).__name__}: {detail}). "
        f"If this persists, check that the server at its address implements the API of this provider."
    )


def _status_error(name: str, key: str, error: ModelHTTPError, mask: Mask) -> ModelError:
    from pydantic_ai.exceptions import ModelQuotaExceededError

    status, detail = error.status_code, _short(_body_text(error.body) or "nothing", mask)
    summary = f"Model {name!r} answered with status {status}: {detail}."
    if isinstance(error, ModelQuotaExceededError):
        return ModelError(f"{summary} The quota is used up; check the account of {key}.")
    if is_temporary(status):
        return ModelUnavailable(summary, status=status, retry_after=error.retry_after)
    if status in (401, 403):
        return ModelError(f"{summary} The key was refused; check {key}.")
    if status == 404:
        return ModelError(f"{summary} Check the name of the model, and the address if you gave one.")
    return ModelError(summary)


def _connection_error(name: str, error: ModelAPIError, mask: Mask) -> ModelUnavailable:
    from pydantic_ai.exceptions import ModelRequestTimeout

    if isinstance(error, ModelRequestTimeout):
        return ModelUnavailable(f"Model {name!r} had not answered after {error.timeout:g} seconds. Give it more time.")
    cause = error.__cause__.__cause__ if error.__cause__ is not None else None
    reason = f" ({_short(cause, mask)})" if cause is not None and str(cause) else ""
    return ModelUnavailable(
        f"Model {name!r} gave no complete answer: {_short(error, mask)}{reason}", retry_after=error.retry_after
    )


def _body_text(body: object) -> str:
    """Return the message in the body of an error, in any of the providers' formats."""
    if not isinstance(body, Mapping):
        return "" if body is None else str(body)
    fields = cast("Mapping[str, Any]", body)
    return _body_text(fields.get("error") or fields.get("message") or fields.get("detail") or repr(dict(fields)))


def _short(text: object, mask: Mask) -> str:
    # Masked before it is truncated: a partial secret would not be recognised.
    line = " ".join(mask(str(text)).split())
    return line if len(line) <= _LONGEST else f"{line[:_LONGEST]}..."


# -- was the call sent?


@dataclass(slots=True)
class Sending:
    """The progress of one call."""

    was_sent: bool
    """False if the call has certainly not been sent. Not every provider lets that be observed."""


_current: Final[ContextVar[Sending | None]] = ContextVar("statewright_sending", default=None)


@contextmanager
def watch_sending(model: Any) -> Generator[Sending]:
    """Observe whether the model call in this block is sent."""
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
    """Mark the current call as sent. The HTTP client calls this when a request is built and about to be sent."""
    sending = _current.get()
    if sending is not None:
        sending.was_sent = True


def _request_hooks(provider: Any) -> list[Any] | None:
    """Return the functions that a provider's HTTP client calls before it sends; None if it has no such client."""
    client = getattr(provider, "_own_http_client", None)
    hooks = getattr(client, "event_hooks", None)
    if not isinstance(hooks, Mapping):
        return None
    return cast("Mapping[str, list[Any]]", hooks).get("request")
