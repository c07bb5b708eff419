"""The base class of all errors, and helpers for their messages."""

from __future__ import annotations

import re
from collections.abc import Iterable
from contextlib import suppress
from typing import Any, ClassVar


def nearest(name: str, valid_names: Iterable[str]) -> str | None:
    """Return the valid name that is most similar to a misspelled one; None if no name is similar."""
    from difflib import get_close_matches  # slow to import, and needed only when an error is composed

    matches = get_close_matches(name, list(valid_names), n=1, cutoff=0.6)
    return matches[0] if matches else None


def suggestion(name: str, valid_names: Iterable[str], *, noun: str) -> str:
    """Return a hint for the message about an invalid name: the most similar valid name, if any, and all valid names.

    `noun` is the plural that introduces the list, such as `Nodes`: `Did you mean 'plan'? Nodes: act, plan.`
    """
    sorted_names = sorted(set(map(str, valid_names)))
    guess = nearest(name, sorted_names)
    return (f"Did you mean {guess!r}? " if guess else "") + f"{noun}: {', '.join(sorted_names) or 'none'}."


def _rebuild(cls: type[StatewrightError], args: tuple[Any, ...], attributes: dict[str, Any]) -> StatewrightError:
    """Rebuild a copied or unpickled error, without calling `__init__`: its message has already been composed."""
    error = cls.__new__(cls, *args)
    error.args = args
    error.__dict__.update(attributes)
    return error


def add_note(error: BaseException, note: str) -> None:
    """Add a note to an error, unless the error refuses notes, as an exception that is a frozen dataclass does."""
    with suppress(Exception):
        error.add_note(note)


def code_of(error: BaseException) -> str:
    """Return the code of an error for records, logs and traces: its `code`, or else the name of its class."""
    code = getattr(error, "code", None)
    return code if isinstance(code, str) and code else type(error).__name__


class StatewrightError(Exception):
    """Base class of all errors that Statewright raises on purpose."""

    code: str = "SW-statewright-error"
    exit_code: ClassVar[int] = 1
    """Exit code of a command that fails with this error: 2 for usage errors, otherwise 1."""

    def __reduce__(self) -> tuple[Any, ...]:
        return _rebuild, (type(self), self.args, self.__dict__)

    def __init_subclass__(cls, **kwargs: object) -> None:
        super().__init_subclass__(**kwargs)
        cls.code = "SW-" + re.sub(r"(?<!^)(?=[A-Z])", "-", cls.__name__).lower()


class InternalError(StatewrightError):
    """A broken invariant of Statewright itself; please report it with the message."""
