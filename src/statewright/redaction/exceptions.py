"""Exceptions without secrets: a traceback prints the causes of an exception too, and libraries quote what they read.

An exception of a library cannot be changed, since its text may be computed. If it contains a secret, copies of it and
of its causes take its place. They have no traceback: the local variables of its frames hold the secret as well.
"""

from __future__ import annotations

import traceback
from collections.abc import Iterator
from typing import cast

from statewright.errors import add_note
from statewright.redaction.values import Mask


class RedactedError(Exception):
    """Replaces an exception that contained a secret. Its message begins with the type of that exception."""


def chain_of(error: BaseException) -> Iterator[BaseException]:
    """Yield an exception, its causes and contexts, and the members of groups among them."""
    seen: set[int] = set()
    pending: list[BaseException | None] = [error]
    while pending:
        link = pending.pop()
        if link is None or id(link) in seen:
            continue
        seen.add(id(link))
        yield link
        pending += [link.__context__, link.__cause__]
        if isinstance(link, BaseExceptionGroup):
            pending += cast("BaseExceptionGroup[BaseException]", link).exceptions


def text_of(error: BaseException) -> str:
    """Return all text in an exception and its chain: tracebacks, arguments and attributes."""
    return "".join([*traceback.format_exception(error), *map(_details_of, chain_of(error))])


def without_secrets(error: BaseException, mask: Mask) -> BaseException:
    """Return the exception itself if nothing in it and in its chain is masked, else a copy without secrets."""
    texts = (text for link in chain_of(error) for text in (_message_of(link), _details_of(link)))
    return error if all(mask(text) == text for text in texts) else _copy(error, mask)


def _copy(error: BaseException, mask: Mask) -> RedactedError:
    """Return a copy of an exception and of those that a traceback prints above it."""
    copies: dict[int, RedactedError] = {}
    effect: RedactedError | None = None
    link: BaseException | None = error
    while link is not None and id(link) not in copies:
        copies[id(link)] = copy = _copy_one(link, mask)
        if effect is not None:
            effect.__cause__ = copy
        effect = copy
        link = link.__cause__ or (None if link.__suppress_context__ else link.__context__)
    return copies[id(error)]


def _copy_one(error: BaseException, mask: Mask) -> RedactedError:
    copy = RedactedError(_masked_line(error, mask))
    for note in _notes_of(error):
        add_note(copy, mask(note))
    if isinstance(error, BaseExceptionGroup):
        members = cast("BaseExceptionGroup[BaseException]", error).exceptions
        for number, member in enumerate(members, 1):
            add_note(copy, f"Exception {number}: {_masked_line(member, mask)}")
    return copy


def _masked_line(error: BaseException, mask: Mask) -> str:
    # The type is not part of what is masked: `InvalidToken: expired` reads like a token and its value.
    return f"{type(error).__name__}: {mask(_message_of(error))}"


def _message_of(error: BaseException) -> str:
    try:
        return str(error)
    except Exception:  # computed by a library
        return ""


def _details_of(error: BaseException) -> str:
    try:
        return f"{error.args!r}{_notes_of(error)!r}{vars(error)!r}"
    except Exception:  # a `__repr__` of a library
        return ""


def _notes_of(error: BaseException) -> list[str]:
    return [note for note in getattr(error, "__notes__", ()) if isinstance(note, str)]
