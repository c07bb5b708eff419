"""Masking of secrets in exceptions, whose messages may quote what a library has read.

The exception of a library cannot be changed, because it may compute its text. A traceback also prints the causes of an
exception. So if the exception or one of its causes contains a secret, all of them are replaced by copies. The copies
have no traceback, because the local variables in its frames contain the secret as well.
"""

from __future__ import annotations

import traceback
from collections.abc import Iterator
from typing import cast

from statewright.errors import add_note
from statewright.redaction.values import Mask


class RedactedError(Exception):
    """The copy of an exception that contained a secret. Its message begins with the type of the original exception."""


def iter_chain(error: BaseException) -> Iterator[BaseException]:
    """Yield an exception, its causes and contexts, and the members of any exception groups among them."""
    seen: set[int] = set()
    pending: list[BaseException | None] = [error]
    while pending:
        current = pending.pop()
        if current is None or id(current) in seen:
            continue
        seen.add(id(current))
        yield current
        pending += [current.__context__, current.__cause__]
        if isinstance(current, BaseExceptionGroup):
            pending += cast("BaseExceptionGroup[BaseException]", current).exceptions


def full_text(error: BaseException) -> str:
    """Return all text in an exception and its chain: tracebacks, arguments and attributes."""
    return "".join([*traceback.format_exception(error), *map(_details_of, iter_chain(error))])


def without_secrets(error: BaseException, mask: Mask) -> BaseException:
    """Return a copy of an exception without secrets; the exception itself if its whole chain contains none."""
    texts = (text for member in iter_chain(error) for text in (_message_of(member), _details_of(member)))
    return error if all(mask(text) == text for text in texts) else _copy(error, mask)


def _copy(error: BaseException, mask: Mask) -> RedactedError:
    """Return a copy of an exception and its causes."""
    copies: dict[int, RedactedError] = {}
    last_copy: RedactedError | None = None
    current: BaseException | None = error
    while current is not None and id(current) not in copies:
        copies[id(current)] = copy = _copy_without_cause(current, mask)
        if last_copy is not None:
            last_copy.__cause__ = copy
        last_copy = copy
        current = current.__cause__ or (None if current.__suppress_context__ else current.__context__)
    return copies[id(error)]


def _copy_without_cause(error: BaseException, mask: Mask) -> RedactedError:
    copy = RedactedError(_masked_line(error, mask))
    for note in _notes_of(error):
        add_note(copy, mask(note))
    if isinstance(error, BaseExceptionGroup):
        members = cast("BaseExceptionGroup[BaseException]", error).exceptions
        for number, member in enumerate(members, 1):
            add_note(copy, f"Exception {number}: {_masked_line(member, mask)}")
    return copy


def _masked_line(error: BaseException, mask: Mask) -> str:
    # Only the message is masked, because `InvalidToken: expired` looks like the name and the value of a token.
    return f"{type(error).__name__}: {mask(_message_of(error))}"


def _message_of(error: BaseException) -> str:
    try:
        return str(error)
    except Exception:  # from the `__str__` of a library
        return ""


def _details_of(error: BaseException) -> str:
    try:
        return f"{error.args!r}{_notes_of(error)!r}{vars(error)!r}"
    except Exception:  # from the `__repr__` of a library
        return ""


def _notes_of(error: BaseException) -> list[str]:
    return [note for note in getattr(error, "__notes__", ()) if isinstance(note, str)]
