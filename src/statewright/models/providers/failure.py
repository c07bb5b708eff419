"""Which error of a provider is which of ours.

- ModelUnavailable, which is worth another attempt: the statuses 408, 409, 425, 429 and 500 and above, with the seconds
  that the provider wants us to wait; a connection that is refused, breaks or takes too long; an answer that is empty,
  null, no JSON, cut short, or of no form that the provider has. Nobody can tell a hiccup from a habit there, and
  attempts are counted.
- ModelError, which no second attempt would change: every other status, a quota that is used up, a request that the
  provider's library does not take. For 401 and 403 it says which key was refused.
- ModelAnswerInvalid is not raised here: it is for those who check what an answer says.
- What a content filter or the model itself refuses is no error: the answer's `finish_reason` is `refused`.
- Arguments of tools that are no JSON are no error either: `ToolCall.invalid` has them.
"""

from __future__ import annotations

from collections.abc import Generator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, cast

from statewright.errors import ModelError, ModelUnavailable, StatewrightError

if TYPE_CHECKING:
    from pydantic_ai.exceptions import ModelAPIError, ModelHTTPError

_LONGEST = 300  # characters of what a provider said
_FOR_NOW = (408, 409, 425, 429)


@contextmanager
def translated_errors(name: str, key: str) -> Generator[None]:
    """Raise our error for whatever a call of the model raises. `key` says where its key comes from."""
    from pydantic_ai.exceptions import ModelAPIError, ModelHTTPError, UserError

    try:
        yield
    except (StatewrightError, Warning):
        raise
    except ModelHTTPError as error:
        raise _of_status(name, key, error) from error
    except ModelAPIError as error:
        raise _of_connection(name, error) from error
    except (UserError, NotImplementedError) as error:
        raise ModelError(f"Model {name!r} cannot be asked so: {_short(error)}") from error
    except Exception as error:  # the libraries trip over odd answers in many ways
        raise ModelUnavailable(
            f"Model {name!r} gave an answer that cannot be read ({type(error).__name__}: {_short(error)}). "
            f"If it stays so, see that its address speaks the form of this provider."
        ) from error


def _of_status(name: str, key: str, error: ModelHTTPError) -> ModelError:
    from pydantic_ai.exceptions import ModelQuotaExceededError

    status, said = error.status_code, _short(_said(error.body) or "nothing")
    found = f"Model {name!r} answered with status {status}: {said}."
    if isinstance(error, ModelQuotaExceededError):
        return ModelError(f"{found} The quota is used up; see to the account of {key}.")
    if status in _FOR_NOW or status >= 500:
        return ModelUnavailable(found, status=status, retry_after=error.retry_after)
    if status in (401, 403):
        return ModelError(f"{found} The key was refused; check {key}.")
    if status == 404:
        return ModelError(f"{found} Check the name of the model, and the address if you gave one.")
    return ModelError(found)


def _of_connection(name: str, error: ModelAPIError) -> ModelUnavailable:
    from pydantic_ai.exceptions import ModelRequestTimeout

    if isinstance(error, ModelRequestTimeout):
        return ModelUnavailable(f"Model {name!r} had not answered after {error.timeout:g} seconds. Give it more time.")
    cause = error.__cause__.__cause__ if error.__cause__ is not None else None
    reason = f" ({_short(cause)})" if cause is not None and str(cause) else ""
    return ModelUnavailable(
        f"Model {name!r} gave no whole answer: {_short(error)}{reason}", retry_after=error.retry_after
    )


def _said(body: object) -> str:
    """The sentence in the body of an error, wherever the provider puts it."""
    if not isinstance(body, Mapping):
        return "" if body is None else str(body)
    known = cast("Mapping[str, Any]", body)
    return _said(known.get("error") or known.get("message") or known.get("detail") or repr(dict(known)))


def _short(text: object) -> str:
    line = " ".join(str(text).split())
    return line if len(line) <= _LONGEST else f"{line[:_LONGEST]}..."
