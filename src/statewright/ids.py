"""Ids: their composition and origin.

Ids of work (`TaskId`, interrupt ids) are hashes of its origin, so that planning the same checkpoint twice gives the
same ids. Ids that name an event in time (`CheckpointId`, `RunId`) are drawn by a driver,
never by the core.
"""

from __future__ import annotations

import itertools
import os
import time
from datetime import UTC, datetime
from typing import Any, Final, NewType

from statewright.errors import InvalidConfig

ThreadId = NewType("ThreadId", str)
"""A line of checkpoints: one conversation. Chosen by the caller."""
RunId = NewType("RunId", str)
"""One attempt to advance a thread to rest."""
CheckpointId = NewType("CheckpointId", str)
"""Sorts by time of creation within one process; unique everywhere."""
TaskId = NewType("TaskId", str)
"""32 hexadecimal digits: a hash of the commit that made the task due, and of its position there."""
InterruptId = NewType("InterruptId", str)
"""32 hexadecimal digits: a hash of the task and of the ordinal or key of the question."""
DEFAULT_WORKSPACE: Final = "default"
"""The workspace of the library, of the command line, and of a service that asks nobody for a key."""


def checked_name(what: str, value: Any) -> str:
    """Return the name of a thread, branch or workspace. Raises InvalidConfig unless it is a valid, non-empty string."""
    if not isinstance(value, str) or not value:
        raise InvalidConfig(f"{what} is {value!r} of type {type(value).__name__}. Give a text that is not empty.")
    if not is_unicode(value):
        raise InvalidConfig(f"{what} is {value!r}, which holds half of a surrogate pair. Give the character itself.")
    return value


def is_unicode(text: str) -> bool:
    """Return whether a string can be encoded as UTF-8, which a lone surrogate cannot."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def digest(*parts: object) -> str:
    """32 hexadecimal digits that depend on every part and its place."""
    return _hashed("\x1f".join(map(str, parts)))


def _hashed(text: str) -> str:
    return (_blake2b or _load_blake2b())(text.encode(), digest_size=16).hexdigest()


_blake2b: Any = None


def _load_blake2b() -> Any:
    """Load the hash function; its module loads OpenSSL, which most runs never need."""
    global _blake2b
    from hashlib import blake2b

    _blake2b = blake2b
    return blake2b


def task_id(origin: str, position: int) -> TaskId:
    """Return the id of the task at `position` of the frontier that the commit `origin` made."""
    return TaskId(_hashed(f"task\x1f{origin}\x1f{position}"))  # the digest of its parts, written out: it is made often


def interrupt_id(task: TaskId, ordinal_or_key: int | str) -> InterruptId:
    """Return the id of one question of one task; it is the same whenever the node is executed again."""
    kind = "ordinal" if isinstance(ordinal_or_key, int) else "key"
    return InterruptId(digest("interrupt", task, kind, ordinal_or_key))


def is_interrupt_id(text: object) -> bool:
    """Return whether `text` has the form of an interrupt id."""
    return isinstance(text, str) and len(text) == 32 and all(sign in "0123456789abcdef" for sign in text)


class _Drawn:
    """Ids of this process: a random prefix, drawn again after a fork, and a counter."""

    def __init__(self) -> None:
        self.reseed()
        if hasattr(os, "register_at_fork"):
            os.register_at_fork(after_in_child=self.reseed)

    def reseed(self) -> None:
        self._prefix = os.urandom(8).hex()
        self._counter = itertools.count()

    def run_id(self) -> RunId:
        return RunId(f"{self._prefix}{next(self._counter):x}")

    def checkpoint_id(self) -> CheckpointId:
        """Return a UUID of version 7 (RFC 9562, section 5.7): milliseconds, a counter of the process, random bits."""
        count = next(self._counter)
        milliseconds = time.time_ns() // 1_000_000
        # 12 bits of rand_a and 18 of rand_b hold the counter, so ids of one millisecond keep their order.
        high = 0x7000 | (count >> 18) & 0xFFF
        low = 0x8000_0000_0000_0000 | (count & 0x3FFFF) << 44 | int(self._prefix[:11], 16)
        return CheckpointId(f"{milliseconds:012x}{high:04x}{low:016x}")


_drawn = _Drawn()
draw_run_id = _drawn.run_id
draw_checkpoint_id = _drawn.checkpoint_id


def drawn_at(checkpoint_id: str) -> datetime | None:
    """Return the time of a generated checkpoint id, to the millisecond; None for an id of another origin."""
    if len(checkpoint_id) != 32 or checkpoint_id[12] != "7" or checkpoint_id[16] not in "89ab":
        return None
    try:
        return datetime.fromtimestamp(int(checkpoint_id[:12], 16) / 1000, UTC)
    except (ValueError, OverflowError, OSError):
        return None


def short_id(text: str) -> str | bytes:
    """Return an id as few bytes: its 32 hexadecimal digits as 16 bytes, followed by its suffix."""
    try:
        head = bytes.fromhex(text[:32])
        if len(head) == 16 and head.hex() == text[:32]:
            return head + text[32:].encode()
    except ValueError:
        pass
    return text


def whole_id(stored: str | bytes) -> str:
    """Reverse `short_id`."""
    return stored if isinstance(stored, str) else stored[:16].hex() + stored[16:].decode()
