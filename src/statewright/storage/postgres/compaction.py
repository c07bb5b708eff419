"""Compaction of old checkpoints in transactions of their own, after the commits that make it due.

A commit does not wait for it, and does not fail with it. If it fails, it is attempted again once there are twice as
many records, not after each commit: the error may persist, and an attempt reads all records of a line.
"""

from __future__ import annotations

import logging
import os
from functools import partial
from typing import Final

from statewright.futures import LightFuture
from statewright.storage.checkpoints.segments import LARGEST, RECENT, SegmentWriter
from statewright.storage.damage import report_damage
from statewright.storage.database import Connection, Job, thread_lock
from statewright.storage.group_commit import GroupCommitDatabase

logger: Final = logging.getLogger("statewright.storage")


class Compactions:
    """Submits the compactions of the lines of a database, one at a time for each line.

    All savers of the database share it, because each run of a service has a saver of its own.
    """

    def __init__(self, database: GroupCommitDatabase) -> None:
        self._database = database
        self._submitted: dict[int, int] = {}
        """The lines whose compaction has not ended, and the process in which it was submitted: a forked process does
        not do the jobs of its parent."""
        self._failed: dict[int, int] = {}
        """The lines whose last compaction has failed, and how many records they had."""

    def submit_if_due(self, workspace: str, thread_id: str, line: int, record_count: int, size: int) -> None:
        """Submit the compaction of a line if it has many records, or large ones."""
        has_waited = record_count >= 2 * self._failed.get(line, 0)
        if _is_due(record_count, size) and has_waited and self._submitted.get(line) != os.getpid():
            self._submitted[line] = os.getpid()
            compaction = self._database.submit(self._job(workspace, thread_id, line))
            compaction.add_done_callback(partial(self._on_end, thread_id, line, record_count))

    def _job(self, workspace: str, thread_id: str, line: int) -> Job[None]:
        sql = self._database.statements("commits")

        def compact(connection: Connection) -> None:
            connection.lock(thread_lock(workspace, thread_id))
            connection.execute(sql["count_records"], (line,))
            row = connection.execute(sql["record_sizes"], (line,)).fetchone()
            if row is not None and _is_due(*row):
                with report_damage(f"thread {thread_id!r}"):
                    SegmentWriter(connection, self._database).compact(line)
                connection.execute(sql["count_records"], (line,))

        return compact

    def _on_end(self, thread_id: str, line: int, record_count: int, compaction: LightFuture[None]) -> None:
        self._submitted.pop(line, None)
        try:
            compaction.result()
        except Exception as error:
            self._failed[line] = record_count
            logger.warning(
                "Old checkpoints of thread %r could not be compacted: %s They can still be read, but take more space. "
                "This is attempted again when there are twice as many.",
                thread_id,
                error,
            )
        else:
            self._failed.pop(line, None)


def _is_due(record_count: int, size: int) -> bool:
    return record_count >= RECENT or (size >= LARGEST and record_count > 1)
