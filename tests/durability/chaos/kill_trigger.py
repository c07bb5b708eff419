"""The trigger by which a child signals its parent to kill it during a certain operation."""

from __future__ import annotations

import os
import random
import time
from typing import Any

from tests.durability.chaos.notes import Notes

SIGNAL_LINE = b"reached\n"
"""The line that the child writes to its stdout."""


class KillTrigger:
    """Counts operations of one kind, and signals the parent at the chosen one."""

    def __init__(self) -> None:
        self._kind, self._remaining = "", 0

    def arm(self, kind: str, number: int) -> None:
        """Choose an operation: the `number`-th of a kind, from 1."""
        self._kind, self._remaining = kind, number

    def reach(self, kind: str) -> None:
        """Count an operation."""
        if kind == self._kind:
            self._remaining -= 1
            if self._remaining == 0:
                os.write(1, SIGNAL_LINE)

    def watch_method(self, owner: Any, method: str, kind: str, notes: Notes, *, pause: float = 0.0) -> None:
        """Replace a method of a class by one that counts and notes its calls as operations, and pauses before them."""
        original = getattr(owner, method)

        def watched(*args: Any, **options: Any) -> Any:
            notes.write("begin", operation=kind)
            self.reach(kind)
            time.sleep(random.random() * pause)
            result = original(*args, **options)
            notes.write("end", operation=kind)
            return result

        setattr(owner, method, watched)


trigger = KillTrigger()
