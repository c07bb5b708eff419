"""A mailbox in a file that deduplicates by idempotency key, as a good mail service does.

So it does not matter how often a step is executed. If a process is killed after sending and before saving, the step
sends again, and receives the same response as the first time.
"""

from __future__ import annotations

import hashlib
import sqlite3
import time
from collections.abc import Generator
from contextlib import closing, contextmanager
from datetime import UTC
from pathlib import Path
from typing import NamedTuple

from statewright.clock import Clock, SystemClock

_TABLE = """
    CREATE TABLE IF NOT EXISTS letters
        (key TEXT PRIMARY KEY, id TEXT, recipient TEXT, text TEXT, sent_at TEXT, requests INTEGER)
"""
_SEND = """
    INSERT INTO letters VALUES (?, ?, ?, ?, ?, 1)
    ON CONFLICT (key) DO UPDATE SET requests = requests + 1
    RETURNING key, id, recipient, text, sent_at, requests
"""


class Letter(NamedTuple):
    """A sent letter."""

    key: str
    id: str
    recipient: str
    text: str
    sent_at: str
    requests: int
    """Number of requests with its key."""


class Mailbox:
    """The sent letters. Several processes may use one file."""

    def __init__(self, path: Path, *, pace: float = 0.0, clock: Clock | None = None) -> None:
        self._path = path
        self._pace = pace
        self._clock = clock or SystemClock()

    def send(self, key: str, recipient: str, text: str) -> Letter:
        """Send a letter unless one was sent with this key, and return the sent letter.

        The response takes `pace` seconds; the letter is sent at once.
        """
        sent_at = f"{self._clock.now().astimezone(UTC):%Y-%m-%dT%H:%M:%SZ}"
        letter_id = f"msg_{hashlib.sha256(key.encode()).hexdigest()[:12]}"
        with self._connect() as connection:
            row = connection.execute(_SEND, (key, letter_id, recipient, text, sent_at)).fetchone()
        time.sleep(self._pace)
        return Letter(*row)

    def letters(self) -> list[Letter]:
        """Return the sent letters, in order."""
        with self._connect() as connection:
            return [Letter(*row) for row in connection.execute("SELECT * FROM letters ORDER BY rowid")]

    @contextmanager
    def _connect(self) -> Generator[sqlite3.Connection]:
        self._path.parent.mkdir(parents=True, exist_ok=True)
        with closing(sqlite3.connect(self._path, timeout=30)) as connection, connection:
            connection.execute(_TABLE)
            yield connection
