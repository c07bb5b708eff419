"""Threads in a SQLite file."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from datetime import datetime
from itertools import islice
from typing import Any, Final, TypeVar

from statewright.checkpoint import (
    Commit,
    Hold,
    Lease,
    Line,
    Pending,
    Pruned,
    PrunePolicy,
    SavedCheckpoint,
    ThreadEntry,
    checked_lease,
)
from statewright.checkpoint.forms import instant_of, made_log
from statewright.checkpoint.serde import Serde
from statewright.clock import Duration
from statewright.errors import CheckpointConflict, CheckpointNotFound, DamagedDatabase
from statewright.events import Event, Log
from statewright.ids import CheckpointId
from statewright.promise import Answered, Promise
from statewright.storage.sqlite.commits import Encoder, Job, Writer, check_hold, has_moved
from statewright.storage.sqlite.history import HistoryReader
from statewright.storage.sqlite.known import Thread
from statewright.storage.sqlite.places import (
    LAST_NUMBER,
    find_line,
    find_place,
    head_of,
    line_of,
    lines_of,
    path_to,
    place_of,
)
from statewright.storage.sqlite.prune import Pruner
from statewright.storage.sqlite.removal import delete_thread
from statewright.storage.sqlite.statements import statements
from statewright.storage.sqlite.view import Given, View, on_event_loop

T = TypeVar("T")


class SqliteSaver(View):
    """Keeps the checkpoints of threads in a database; give it to `compile(checkpointer=...)`.

    Takes a path, or a `SqliteDatabase` that others use too; closes only what it has opened. `lease` is how long runs
    hold their threads after each write; 60 seconds if not given.
    """

    def __init__(self, database: Given, *, lease: Duration | None = None, **options: Any) -> None:
        super().__init__(database, **options)
        self.lease_duration = checked_lease(lease)
        self._writer = Writer(Encoder(self.database.serde, self.database.seal), self.database.known)
        self._ahead: dict[str, Promise[Any]] = {}
        """By thread, the last commit that a run has not waited for: who reads the thread does."""

    @property
    def serde(self) -> Serde:
        """How values are stored: types can be registered with it."""
        return self.database.serde

    def allow(self, types: Iterable[type]) -> None:
        """Let values of these types be stored."""
        self.database.serde.allow(types)

    # -- writing

    def commit(self, commit: Commit, *, also: Sequence[Job] = ()) -> Answered[CheckpointId]:
        beside = [self._writer.commit_job(one, ()) for one in commit.beside]
        job = self._writer.commit_job(commit, [*beside, *also])
        if not commit.overlaps:
            return self._written(job)
        promise = self._ahead[commit.line.thread_id] = self.database.hand_over(job)
        if len(self._ahead) > _MOST_AHEAD:
            self._ahead = {thread: one for thread, one in self._ahead.items() if not one.done()}
        return promise

    def save_results(
        self,
        line: Line,
        checkpoint_id: CheckpointId,
        pending: Pending,
        *,
        hold: Hold | None = None,
        log: Log | None = None,
        also: Sequence[Job] = (),
    ) -> Answered[None]:
        return self._written(self._writer.results_job(line, checkpoint_id, pending, hold, log, also))

    def renew(self, thread_id: str, hold: Hold) -> Answered[Lease | None]:
        def job(connection: sqlite3.Connection) -> Lease | None:
            thread = self._writer.thread(connection, thread_id)
            check_hold(thread, thread_id, hold)
            if has_moved(thread, hold):
                raise CheckpointConflict(thread_id, None, self._head_id(connection, thread_id))
            return None if thread is None else self._writer.write_hold(connection, thread, thread_id, hold).lease

        return self._written(job)

    def want(self, thread_id: str, what: str) -> Answered[Lease | None]:
        def job(connection: sqlite3.Connection) -> Lease | None:
            connection.execute(_WANT, (what, thread_id))
            self.database.known.threads.pop(thread_id, None)
            thread = self._writer.thread(connection, thread_id)
            return thread.lease if thread is not None else None

        return self._written(job)

    def delete_thread(self, thread_id: str) -> Answered[None]:
        def job(connection: sqlite3.Connection) -> None:
            thread = self._writer.thread(connection, thread_id)
            if thread is not None:
                delete_thread(connection, thread.id)
                self.database.known.forget()

        return self._written(job)

    def prune(self, policy: PrunePolicy, *, thread_id: str | None = None, dry_run: bool = False) -> Answered[Pruned]:
        def job(connection: sqlite3.Connection) -> Pruned:
            pruner = Pruner(connection, self.database.serde, self.database.seal)
            counts = [
                pruner.prune(thread, policy, dry_run=dry_run) for thread in _thread_numbers(connection, thread_id)
            ]
            self.database.known.forget()
            return Pruned(sum(1 for count in counts if count), sum(counts))

        return self._written(job)

    def copy_thread(self, thread_id: str, to: str) -> Answered[None]:
        def job(connection: sqlite3.Connection) -> None:
            source, target = self._writer.thread(connection, thread_id), self._writer.thread(connection, to)
            if source is None:
                raise CheckpointNotFound(f"There is no thread {thread_id!r} to copy.")
            if target is not None:
                raise CheckpointConflict(to, None, self._head_id(connection, to))
            _copy(connection, source.id, to)

        return self._written(job)

    def _head_id(self, connection: sqlite3.Connection, thread_id: str) -> CheckpointId | None:
        number = find_line(connection, Line(thread_id))
        head = head_of(connection, number) if number is not None else None
        return self._reader(connection).id_at(head[0]) if head is not None else None

    # -- reading

    def load(
        self,
        thread_id: str,
        *,
        namespace: str = "",
        branch: str = "main",
        checkpoint_id: CheckpointId | None = None,
    ) -> Answered[SavedCheckpoint | None]:
        line = Line(thread_id, namespace, branch)
        return self._read(lambda connection: self._loaded(connection, line, checkpoint_id), thread_id)

    def _loaded(
        self, connection: sqlite3.Connection, line: Line, checkpoint_id: CheckpointId | None
    ) -> SavedCheckpoint | None:
        place: int | None = None
        if checkpoint_id is not None:
            for number, branch in lines_of(connection, line.thread_id, line.namespace):
                place = find_place(connection, number, checkpoint_id)
                if place is not None:
                    line = line._replace(branch=branch)
                    break
        elif (number := find_line(connection, line)) is not None:
            head = head_of(connection, number)
            place = head[0] if head is not None else None
        if place is None:
            return None
        saved = self._reader(connection).checkpoint_at(place, line)
        thread = Thread(*connection.execute(_THREAD, (line.thread_id,)).fetchone())
        return replace(saved, epoch=thread.epoch, lease=thread.lease)

    def history(
        self,
        thread_id: str,
        *,
        namespace: str = "",
        branch: str | None = None,
        before: CheckpointId | None = None,
        limit: int | None = None,
    ) -> Answered[Sequence[SavedCheckpoint]]:
        def read(connection: sqlite3.Connection) -> Sequence[SavedCheckpoint]:
            line = Line(thread_id, namespace, branch or "main")
            found = iter(self._ancestry(connection, line) if branch is not None else self._all(connection, line))
            if before is not None:
                found = _after(connection, found, before, line)
            return self._shown(connection, islice(found, limit), line)

        return self._read(read, thread_id)

    def _ancestry(self, connection: sqlite3.Connection, line: Line) -> Iterator[int]:
        """The places of a branch and its ancestors, the newest first."""
        number = find_line(connection, line)
        head = head_of(connection, number) if number is not None else None
        for interval in path_to(connection, head[0]) if head is not None else ():
            for one in range(interval.last, interval.first - 1, -1):
                yield place_of(interval.line, one)

    def _all(self, connection: sqlite3.Connection, line: Line) -> list[int]:
        """The places of all checkpoints of a namespace, the newest first."""
        found: list[tuple[datetime, bytes, int]] = []
        reader = self._reader(connection)
        for number, _ in lines_of(connection, line.thread_id, line.namespace):
            found.extend(reader.ages(number))
        return [place for _, _, place in sorted(found, reverse=True)]

    def _shown(self, connection: sqlite3.Connection, places: Iterable[int], line: Line) -> list[SavedCheckpoint]:
        """The checkpoints at places, in their order. Those that follow each other are made from each other."""
        branches = dict(lines_of(connection, line.thread_id, line.namespace))
        reader = self._reader(connection)
        shown: list[SavedCheckpoint] = []
        for stretch in _stretches(places, reader.parent_of):
            saved = reader.checkpoints(stretch, line)
            shown.extend(_with_branch(one, branches[line_of(place)]) for one, place in zip(saved, stretch, strict=True))
        return shown

    def threads(self, *, prefix: str = "", limit: int | None = None) -> Answered[Sequence[ThreadEntry]]:
        bounds = (prefix, prefix, -1 if limit is None else limit)
        return self._read(
            lambda connection: [
                ThreadEntry(name, instant_of(changed), owner)
                for name, changed, owner in connection.execute(_THREADS, bounds)
            ]
        )

    def branches(self, thread_id: str, *, namespace: str = "") -> Answered[Sequence[str]]:
        return self._read(
            lambda connection: sorted(name for _, name in lines_of(connection, thread_id, namespace)), thread_id
        )

    def namespaces(self, thread_id: str) -> Answered[Sequence[str]]:
        return self._read(
            lambda connection: [name for (name,) in connection.execute(_NAMESPACES, (thread_id,))], thread_id
        )

    def lease(self, thread_id: str) -> Answered[Lease | None]:
        return self._read(lambda connection: _lease(connection, thread_id), thread_id)

    def events(
        self, thread_id: str, *, run_id: str | None = None, after: int = 0, limit: int | None = None
    ) -> Answered[Sequence[Event]]:
        def read(connection: sqlite3.Connection) -> Sequence[Event]:
            reader = self._reader(connection)
            begin = after if run_id is not None else 0
            runs = connection.execute(_RUNS, (thread_id,)).fetchall()
            log = (
                event
                for thread, run, name in runs
                if run_id is None or run_id == name
                for number, plain in reader.log(thread, run, begin)
                for event in _events(plain, thread_id, name, number)
                if (event.seq or 0) > begin
            )
            return list(islice(log, limit))

        return self._read(read, thread_id)

    def _read(self, read: Callable[[sqlite3.Connection], T], thread_id: str | None = None) -> Answered[T]:
        """What a function reads; on a thread of its own where an event loop waits for the answer.

        What this process has committed to the thread is there: a run may have ended without waiting for it.
        """
        read = _looking_for_damage(read, thread_id)
        ahead = self._ahead.get(thread_id) if thread_id is not None else None
        if ahead is not None and ahead.done():
            ahead = None
        if on_event_loop():
            return self.database.read_beside(read, after=ahead)
        if ahead is not None:
            ahead.wait()
        with self.database.read() as connection:
            return read(connection)

    def _reader(self, connection: sqlite3.Connection) -> HistoryReader:
        return HistoryReader(connection, self.database.serde, self.database.seal)


def _looking_for_damage(
    read: Callable[[sqlite3.Connection], T], thread_id: str | None
) -> Callable[[sqlite3.Connection], T]:
    """What a function reads. What can be decoded but has another form than what is written there was damaged."""

    def careful(connection: sqlite3.Connection) -> T:
        try:
            return read(connection)
        except (TypeError, AttributeError, LookupError, ValueError) as error:
            whose = "a thread" if thread_id is None else f"thread {thread_id!r}"
            raise DamagedDatabase(f"what is stored of {whose} is not what was written: {error}") from error

    return careful


def _events(plain: Sequence[Any], thread_id: str, run_id: str, number: int) -> list[Event]:
    namespace, log = made_log(plain, run_id)
    return log.events(thread_id, namespace, number)


def _lease(connection: sqlite3.Connection, thread_id: str) -> Lease | None:
    row = connection.execute(_THREAD, (thread_id,)).fetchone()
    return Thread(*row).lease if row is not None else None


def _thread_numbers(connection: sqlite3.Connection, thread_id: str | None) -> list[int]:
    if thread_id is None:
        return [number for (number,) in connection.execute("SELECT id FROM threads ORDER BY id").fetchall()]
    return [number for (number,) in connection.execute("SELECT id FROM threads WHERE name = ?", (thread_id,))]


def _bounds(line: int) -> tuple[int, int]:
    return place_of(line, 0), place_of(line, LAST_NUMBER)


def _with_branch(saved: SavedCheckpoint, branch: str) -> SavedCheckpoint:
    return saved if saved.line.branch == branch else replace(saved, line=saved.line._replace(branch=branch))


def _after(connection: sqlite3.Connection, places: Iterator[int], before: CheckpointId, line: Line) -> Iterator[int]:
    """The places that come after a checkpoint. Raises CheckpointNotFound if it is not among them."""
    numbers = [number for number, _ in lines_of(connection, line.thread_id, line.namespace)]
    wanted = {find_place(connection, number, before) for number in numbers}
    if not any(place in wanted for place in places):
        raise CheckpointNotFound(f"Thread {line.thread_id!r} has no checkpoint {before!r}. List its history.")
    return places


def _stretches(places: Iterable[int], parent_of: Callable[[int], int | None]) -> Iterator[list[int]]:
    """Places, the newest first, cut where one is not the parent of the one before."""
    stretch: list[int] = []
    for place in places:
        if stretch and parent_of(stretch[-1]) != place:
            yield stretch
            stretch = []
        stretch.append(place)
    if stretch:
        yield stretch


def _copy(connection: sqlite3.Connection, source: int, to: str) -> None:
    """Give a new thread all that a thread has, under new numbers."""
    target = connection.execute(_COPY_THREAD, (to, source)).lastrowid or 0
    for run, name in connection.execute(_NAMED_RUNS, (source,)).fetchall():
        copied = connection.execute("INSERT INTO runs (thread, name) VALUES (?, ?)", (target, name)).lastrowid or 0
        shift = place_of(copied, 0) - place_of(run, 0)
        connection.execute(_COPY_EVENTS, (shift, *_bounds(run)))
    shifts: dict[int, int] = {}
    for line, namespace, branch in connection.execute(_COPIED_LINES, (source,)).fetchall():
        values = (target, namespace, branch)
        copied = connection.execute("INSERT INTO lines (thread, namespace, branch) VALUES (?, ?, ?)", values).lastrowid
        shifts[line] = place_of(copied or 0, 0) - place_of(line, 0)
    for line, shift in shifts.items():
        _copy_line(connection, line, shift, target)
        for place, parent in connection.execute(_JUMPS, _bounds(line)).fetchall():
            moved = parent + shifts[line_of(parent)] if parent is not None else None
            connection.execute("INSERT INTO jumps (place, parent) VALUES (?, ?)", (place + shift, moved))


def _copy_line(connection: sqlite3.Connection, line: int, shift: int, target: int) -> None:
    connection.execute(_COPY_RECORDS, (shift, target, *_bounds(line)))
    connection.execute(_COPY_SEGMENTS, (shift, *_bounds(line)))
    connection.execute(_COPY_PENDING, (shift, *_bounds(line)))
    connection.execute(_COPY_GROWN, (line_of(place_of(line, 0) + shift), line))


_MOST_AHEAD: Final = 1000
"""How many threads are remembered that were committed to without waiting."""
_SQL: Final = statements("saver")
_WANT: Final = _SQL["want"]
_RUNS: Final = _SQL["runs"]
_THREADS: Final = _SQL["threads"]
_NAMESPACES: Final = _SQL["namespaces"]
_THREAD: Final = _SQL["thread"]
_NAMED_RUNS: Final = _SQL["named_runs"]
_COPIED_LINES: Final = _SQL["copied_lines"]
_COPY_THREAD: Final = _SQL["copy_thread"]
_COPY_EVENTS: Final = _SQL["copy_events"]
_COPY_RECORDS: Final = _SQL["copy_records"]
_COPY_SEGMENTS: Final = _SQL["copy_segments"]
_COPY_PENDING: Final = _SQL["copy_pending"]
_COPY_GROWN: Final = _SQL["copy_grown"]
_JUMPS: Final = _SQL["jumps"]
