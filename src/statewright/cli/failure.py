"""How a command ends when it can't do what it was asked for."""

from __future__ import annotations

from typing import NoReturn

from statewright.cli.printing import warn
from statewright.errors import (
    CheckpointConflict,
    CheckpointNotFound,
    EmptyInputError,
    Forbidden,
    GraphError,
    InvalidConfig,
    InvalidRequest,
    InvalidResume,
    InvalidUpdateError,
    NotFound,
    PayloadTooLarge,
    RequestConflict,
    StatewrightError,
    UnansweredInterrupts,
    Unauthorized,
    WrongKey,
)

DONE, FAILED, WRONG_USE, WAITING, CANCELLED, TERMINATED = 0, 1, 2, 3, 130, 143
"""The exit codes."""
_ASKED_WRONGLY = (
    CheckpointConflict,
    CheckpointNotFound,
    EmptyInputError,
    Forbidden,
    GraphError,
    InvalidConfig,
    InvalidRequest,
    InvalidResume,
    InvalidUpdateError,
    NotFound,
    PayloadTooLarge,
    RequestConflict,
    UnansweredInterrupts,
    Unauthorized,
    WrongKey,
)
"""What another command line would have avoided; the rest are failures."""


class WrongUse(Exception):
    """The command was asked for something that cannot be; one sentence says what, and what to do."""


def end(message: str, code: int) -> NoReturn:
    """Say why on standard error, and leave."""
    warn(message)
    raise SystemExit(code)


def told(error: StatewrightError) -> str:
    """What an error says, and its code for those who look it up."""
    if isinstance(error, UnansweredInterrupts):  # whose own advice is for callers in Python
        return (
            f"Thread {error.thread_id!r} waits for answers ({', '.join(error.open_ids)}), so new input would throw its "
            f"work away. Answer with `statewright resume`, or give another --thread. [{error.code}]"
        )
    hint = " The option for it is --key-file PATH." if isinstance(error, WrongKey) else ""
    return f"{error}{hint} [{error.code}]"


def said(error: Exception) -> str:
    """What failed in a run, and in which node."""
    places = [note for note in getattr(error, "__notes__", ()) if note.startswith("in node")]
    sentence = told(error) if isinstance(error, StatewrightError) else str(error)
    return f"{type(error).__name__}: {sentence}{f' ({places[0]})' if places else ''}"


def place_lines(error: Exception) -> list[str]:
    """The line that says where in the user's code it failed; no line if it was nowhere in it."""
    from statewright.cli.user_code import place_of

    place = place_of(error)
    return [f"  {place}"] if place is not None else []


def exit_code_of(error: StatewrightError) -> int:
    """How a command ends that meets the error."""
    return WRONG_USE if isinstance(error, _ASKED_WRONGLY) else FAILED
