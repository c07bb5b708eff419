"""Threads of format 0 carried over, the format of prototypes: they are committed again, one checkpoint after the other.

Format 0 has two tables, and its number stands in a file that is marked as ours:

    checkpoints(thread, namespace, branch, id, parent, step, source, run, created_at, body,
                PRIMARY KEY (thread, namespace, id))
    writes(thread, namespace, checkpoint, task, kind, body), with an index on the first three

A row of `checkpoints` is a checkpoint. Rows stand in the order in which they were saved: the last one of a branch is
its head. `created_at` is ISO 8601 with an offset, `source` one of `SOURCES`, and `body` a MessagePack map:

    state     the values, whole
    next      the frontier: of each task `node`, `from` (its origin) and `at` (its position); `arg` for that of a
              Send, `limits` for its time limit
    waiting   what is held: of each `task`, `gather` and `by` (the sender)
    arrived   joins
    info      the metadata
    report    what was reported; only of subgraphs
    graph     the version of the graph, if it has one

A row of `writes` tells something about a task of a checkpoint, by `kind`; of rows that tell the same the last counts:

    result    `writes`, `targets`, `goto`
    question  `id`, `kind`, `value`, `event`, `due` (like `created_at`), `schema` (see `checkpoint/annotations.py`)
    answer    `question`, `value`
    error     its text
    attempts  how many failed
    step      of the journal: `name`, `nth`, `given`, `value`
    paused    nothing: a run has stopped at a breakpoint. It names no task

Values have the extension tags that they have today. Nobody has said yet which types of users may be read, and nobody
needs to know them: their values are carried as they are stored.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Generator, Iterable, Mapping, Sequence
from contextlib import contextmanager
from datetime import datetime
from typing import Any, Final, NamedTuple, cast

import ormsgpack

from statewright.channels import MISSING, Added
from statewright.checkpoint import (
    DEFAULT_WORKSPACE,
    NO_ARG,
    Checkpoint,
    Commit,
    Held,
    Hold,
    Interrupt,
    JournalEntry,
    Line,
    Pending,
    Source,
    Task,
    TaskResult,
    TimedTask,
    TimeLimit,
    Values,
)
from statewright.checkpoint.annotations import made_annotation
from statewright.checkpoint.codecs import BY_TAG, CODECS, type_name
from statewright.checkpoint.forms import REPORTED
from statewright.checkpoint.serde import Serde
from statewright.errors import DamagedDatabase, StatewrightError
from statewright.ids import CheckpointId, InterruptId, TaskId
from statewright.storage.seal import Seal
from statewright.storage.sqlite.commits import Writer
from statewright.storage.sqlite.known import Known

SOURCES: Final[Mapping[str, Source]] = {"start": "input", "step": "loop", "edit": "update", "fork": "fork"}
"""What made a checkpoint, in the words of format 0 and of today."""


def has_format_0(connection: sqlite3.Connection) -> bool:
    """Whether a database of ours holds threads of format 0, and is not just new."""
    return bool(connection.execute(_TABLE).fetchone()[0])


def carry_over(connection: sqlite3.Connection, seal: Seal) -> None:
    """Commit all threads of format 0 to the tables of today, and drop the old ones; within a transaction.

    What is held in memory at once is of one thread: two of its states, and what is known of one frontier. Raises
    DamagedDatabase for what is not of that format.
    """
    connection.execute(_WRITES)  # a prototype that never ran a task has made only the other one
    if seal.encrypts:
        connection.execute("PRAGMA secure_delete=ON")  # nothing stays readable in the pages that become free
    where = connection.execute("PRAGMA database_list").fetchone()[2]
    (orphan,) = connection.execute(_ORPHAN).fetchone() or (None,)
    if orphan is not None:
        raise DamagedDatabase(f"something is told of checkpoint {orphan!r}, which is not there", where=where)
    (name,) = connection.execute(_FIRST_THREAD).fetchone()
    while name is not None:
        _Carried(connection, name, seal, where).carry()
        (name,) = connection.execute(_NEXT_THREAD, (name,)).fetchone()
    connection.execute("DROP TABLE checkpoints")
    connection.execute("DROP TABLE writes")


# -- values


class Unread:
    """A value as it is stored, of a type that nobody needs to know here."""

    __slots__ = ("data", "tag")

    def __init__(self, tag: int, data: bytes) -> None:
        self.tag = tag
        self.data = data


_READ: Final = frozenset(CODECS[f"statewright.channels.{name}"].tag for name in ("change.Added", "channel._Missing"))
"""Tags of what says how a state has changed: whoever lays checkpoints together has to know it."""
_OPTIONS: Final = ormsgpack.OPT_NON_STR_KEYS | ormsgpack.OPT_PASSTHROUGH_TUPLE


class Carrier(Serde):
    """Reads values without knowing their types, and writes them as they were."""

    def __init__(self) -> None:
        super().__init__()
        self._stand_ins: dict[str, type[Any]] = {}

    def encode(self, value: Any, where: str = "value") -> bytes:
        return ormsgpack.packb(value, self._extended_by_tag, _OPTIONS)

    def _extended_by_tag(self, value: Any) -> ormsgpack.Ext:
        if type(value) is Unread:
            return ormsgpack.Ext(value.tag, value.data)
        codec = CODECS[type_name(cast("type[Any]", type(value)))]
        return ormsgpack.Ext(codec.tag, self.encode(codec.plain(value)))

    def decode(self, data: bytes) -> Any:
        return ormsgpack.unpackb(data, ext_hook=self._made, option=ormsgpack.OPT_NON_STR_KEYS)

    def _made(self, tag: int, data: bytes) -> Any:
        return BY_TAG[tag].made(self.decode(data)) if tag in _READ else Unread(tag, data)

    def named(self, name: str) -> type[Any]:
        """A class that stands in for the one of a name."""
        return self._stand_ins.setdefault(name, type(name, (), {}))

    def name_of(self, kind: type[Any]) -> str | None:
        return kind.__name__ if self._stand_ins.get(kind.__name__) is kind else None


# -- threads


class _Row(NamedTuple):
    """A row of `checkpoints`."""

    namespace: str
    branch: str
    id: CheckpointId
    parent: CheckpointId | None
    step: int
    source: str
    run: str
    created_at: str
    body: bytes


class _State(NamedTuple):
    """The state of a checkpoint, with its values packed, so that they compare as they are stored: 1 is not True."""

    key: tuple[str, str]
    """The namespace and the id of the checkpoint."""
    values: Values
    packed: Mapping[str, Any]
    """A list is packed item by item."""


class _Carried:
    """A thread on its way."""

    def __init__(self, connection: sqlite3.Connection, name: str, seal: Seal, where: str) -> None:
        self._connection = connection
        self._name = name
        self._where = where
        self._serde = Carrier()
        self._writer = Writer(self._serde, seal, Known(), DEFAULT_WORKSPACE)
        self._heads: dict[Line, CheckpointId] = {}
        self._last: _State | None = None
        self._changed_at: datetime | None = None

    def carry(self) -> None:
        """Commit every checkpoint, and then what is known of their tasks: a commit would take some of it for done."""
        numbers: list[tuple[int]] = self._connection.execute(_NUMBERS, (self._name,)).fetchall()
        for (number,) in numbers:
            self._carry_checkpoint(_Row(*self._connection.execute(_ROW, (number,)).fetchone()))
        for place in self._connection.execute(_TOLD, (self._name,)).fetchall():
            self._carry_known(*place)
        self._let_go()
        # One by one: SQLite keeps in memory what a statement changes. The pages become those of the next thread.
        self._connection.executemany("DELETE FROM checkpoints WHERE rowid = ?", numbers)

    def _carry_checkpoint(self, row: _Row) -> None:
        with self._reading(f"checkpoint {row.id!r}"):
            commit = self._commit(row)
            self._writer.commit_job(commit, ())(self._connection)
        self._heads[commit.line] = row.id

    def _carry_known(self, namespace: str, branch: str, checkpoint: CheckpointId) -> None:
        with self._reading(f"what is known of checkpoint {checkpoint!r}"):
            pending, line = self._pending(namespace, checkpoint), Line(self._name, namespace, branch)
            self._writer.results_job(line, checkpoint, pending, None, None)(self._connection)
        self._connection.execute(_FORGET, (self._name, namespace, checkpoint))

    @contextmanager
    def _reading(self, what: str) -> Generator[None]:
        """Raises DamagedDatabase where something is not of format 0."""
        try:
            yield
        except (DamagedDatabase, sqlite3.Error):
            raise
        except (StatewrightError, LookupError, TypeError, ValueError, AttributeError) as error:
            found = f"{what} of thread {self._name!r} is not of format 0: {type(error).__name__}: {error}"
            raise DamagedDatabase(found, where=self._where) from error

    def _let_go(self) -> None:
        """Let lists say that the thread was changed when its last checkpoint was made."""
        thread = self._writer.thread(self._connection, self._name)
        assert thread is not None
        assert self._changed_at is not None
        self._writer.write_hold(self._connection, thread, self._name, Hold("format 0", self._changed_at, None))

    # -- checkpoints

    def _commit(self, row: _Row) -> Commit:
        body = self._serde.decode(row.body)
        parent = self._state_of(row.namespace, row.parent) if row.parent is not None else None
        self._last = own = self._state((row.namespace, row.id), body)
        line, created_at = Line(self._name, row.namespace, row.branch), _instant(row.created_at)
        self._changed_at = max(created_at, self._changed_at or created_at)
        self._check_due(row, tasks := tuple(_task(one) for one in body["next"]))
        return Commit(
            line=line,
            expected=self._heads.get(line),
            parent_id=row.parent if parent is not None else None,
            checkpoint=Checkpoint(
                row.id,
                row.step,
                own.values,
                tasks,
                tuple(_held(one) for one in body["waiting"]),
                {key: frozenset(cast("list[str]", names)) for key, names in body["arrived"].items()},
            ),
            deltas=_changes(parent, own) if parent is not None else None,
            source=SOURCES[row.source],
            run_id=row.run,
            created_at=created_at,
            metadata=dict(body["info"]),
            graph_version=body.get("graph"),
        )

    def _state_of(self, namespace: str, checkpoint: CheckpointId) -> _State | None:
        """The state of a checkpoint: the last one that was carried, or one that is read again; None if it is gone."""
        if self._last is not None and self._last.key == (namespace, checkpoint):
            return self._last
        row = self._connection.execute(_BODY, (self._name, namespace, checkpoint)).fetchone()
        return self._state((namespace, checkpoint), self._serde.decode(row[0])) if row is not None else None

    def _state(self, key: tuple[str, str], body: Mapping[str, Any]) -> _State:
        values = dict(body["state"])
        if body.get("report"):
            values[REPORTED] = body["report"]
        return _State(key, values, {name: self._packed(value) for name, value in values.items()})

    def _packed(self, value: Any) -> Any:
        return (
            [self._serde.encode(one) for one in cast("list[Any]", value)]
            if type(value) is list
            else self._serde.encode(value)
        )

    def _check_due(self, row: _Row, tasks: Sequence[Task]) -> None:
        """Raise ValueError for results of tasks that are not due: nobody could read the checkpoint."""
        landed = self._connection.execute(_LANDED, (self._name, row.namespace, row.id)).fetchall()
        strange = {task for (task,) in landed} - {task.id for task in tasks}
        if strange:
            raise ValueError(f"there is a result of task {min(strange)}, which is not due")

    # -- what is known of frontiers

    def _pending(self, namespace: str, checkpoint: str) -> Pending:
        pending = Pending()
        rows: Iterable[Any] = self._connection.execute(_KNOWN, (self._name, namespace, checkpoint)).fetchall()
        for task, kind, body in rows:
            self._note(pending, TaskId(task), kind, self._serde.decode(body))
        return pending

    def _note(self, pending: Pending, task: TaskId, kind: str, told: Any) -> None:
        if kind == "result":
            own = Task("", NO_ARG, "", 0)  # which one it was is told by its id
            pending.landed[task] = TaskResult(own, told["writes"], told["targets"], goto=told["goto"])
        elif kind == "question":
            question = self._question(told)
            others = [one for one in pending.interrupts.get(task, ()) if one.id != question.id]
            pending.interrupts[task] = (*others, question)
        elif kind == "answer":
            pending.answers[InterruptId(told["question"])] = told["value"]
        elif kind == "error":
            pending.errors[task] = told
        elif kind == "attempts":
            pending.attempts[task] = told
        elif kind == "step":
            pending.journal[task, told["name"], told["nth"]] = JournalEntry(told["given"], told["value"])
        elif kind == "paused":
            pending.paused = True
        else:
            raise ValueError(f"nobody knows what {kind!r} tells")

    def _question(self, told: Mapping[str, Any]) -> Interrupt:
        return Interrupt(
            id=InterruptId(told["id"]),
            kind=told["kind"],
            value=told["value"],
            event=told["event"],
            due_at=_instant(told["due"]) if told["due"] is not None else None,
            schema=made_annotation(told["schema"], self._serde.named),
        )


def _instant(text: str) -> datetime:
    found = datetime.fromisoformat(text)
    if found.tzinfo is None:
        raise ValueError(f"the time {text!r} has no offset")
    return found


def _task(told: Mapping[str, Any]) -> Task:
    parts = (told["node"], told.get("arg", NO_ARG), told["from"], told["at"])
    limits = told.get("limits")
    return Task(*parts) if limits is None else TimedTask(*parts, TimeLimit(*limits))


def _held(told: Mapping[str, Any]) -> Held:
    return Held(_task(told["task"]), gather=told["gather"], sender=told["by"])


def _changes(before: _State, after: _State) -> dict[str, Any]:
    """What leads from one state to another: items added to lists, new values, MISSING for what is gone."""
    changes: dict[str, Any] = dict.fromkeys(before.values.keys() - after.values.keys(), MISSING)
    for name, value in after.values.items():
        old, new = before.packed.get(name), after.packed[name]
        if old == new:
            continue
        grows = type(old) is list and type(new) is list and new[: len(cast("list[bytes]", old))] == old
        changes[name] = Added(value[len(cast("list[bytes]", old)) :]) if grows else value
    return changes


_TABLE: Final = "SELECT count(*) FROM sqlite_schema WHERE type = 'table' AND name = 'checkpoints'"
_WRITES: Final = "CREATE TABLE IF NOT EXISTS writes (thread, namespace, checkpoint, task, kind, body)"
_ORPHAN: Final = (
    "SELECT checkpoint FROM writes WHERE NOT EXISTS (SELECT 1 FROM checkpoints WHERE thread = writes.thread "
    "AND namespace = writes.namespace AND id = writes.checkpoint) LIMIT 1"
)
_FIRST_THREAD: Final = "SELECT min(thread) FROM checkpoints"
_NEXT_THREAD: Final = "SELECT min(thread) FROM checkpoints WHERE thread > ?"
_NUMBERS: Final = "SELECT rowid FROM checkpoints WHERE thread = ? ORDER BY namespace, rowid"
_ROW: Final = (
    "SELECT namespace, branch, id, parent, step, source, run, created_at, body FROM checkpoints WHERE rowid = ?"
)
_BODY: Final = "SELECT body FROM checkpoints WHERE thread = ? AND namespace = ? AND id = ?"
_TOLD: Final = (
    "SELECT DISTINCT namespace, branch, id FROM checkpoints WHERE thread = ? AND EXISTS (SELECT 1 FROM writes "
    "WHERE thread = checkpoints.thread AND namespace = checkpoints.namespace AND checkpoint = checkpoints.id)"
)
_FORGET: Final = "DELETE FROM writes WHERE thread = ? AND namespace = ? AND checkpoint = ?"
_LANDED: Final = (
    "SELECT DISTINCT task FROM writes WHERE thread = ? AND namespace = ? AND checkpoint = ? AND kind = 'result'"
)
_KNOWN: Final = (
    "SELECT task, kind, body FROM writes WHERE thread = ? AND namespace = ? AND checkpoint = ? ORDER BY rowid"
)
