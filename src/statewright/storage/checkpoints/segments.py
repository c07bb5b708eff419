"""Compaction: the oldest records of a line become a segment, a single row for up to 128 checkpoints.

*The problem.* A superstep is saved as a record with its changes. A state is rebuilt from all records before it, so
reading gets slower with every superstep, and a row for each wastes pages. Writing whole states instead would store a
conversation of n messages n times.

*The approach.* A field that grows (a list that is appended to or merged) has its gains in rows of its own (`grown`), so
its content is stored once and read without the other changes. All other fields of a segment share a blob of changes. A
segment gets a *base*, the state of these other fields before it, once the changes since the last base are as large as
that base, so bases never exceed the changes that they replace, and the changes to be read for a state are bounded.

*Consequences.* Compaction runs in the transaction of the commit that makes it due, on packed data: extension types are
copied as bytes (`_PackedExtension`), because decoding would require the classes of users in processes that only write.
A field may be found to grow after earlier segments were written; its value before is then stored as a first gain (SET).
The head is never compacted, since results are still added to it, and a segment ends where a fork jumps into the line.

*Rejected.* Snapshots at fixed distances: each would copy the whole conversation. A row for each field and checkpoint:
many more rows, and no compression across checkpoints. Compaction in a background thread: it needs the write lock
anyway, and would compete with the runs for it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final, NamedTuple

import ormsgpack

from statewright.serde.codecs import CODECS
from statewright.storage.checkpoints.folding import ADD, GONE, MERGE, SET
from statewright.storage.checkpoints.history import HistoryReader
from statewright.storage.checkpoints.removal import keep_log
from statewright.storage.database import Connection, Database

LONGEST: Final = 128
"""Checkpoints in a segment."""
LARGEST: Final = 1 << 20
"""Bytes of changes above which a segment is complete."""
RECENT: Final = LONGEST + 32
"""Records of a line at which some are compacted."""
SMALL: Final = 4096
"""Bytes of changes that need no base."""
MOST_WITHOUT_BASE: Final = 16
"""Segments without a base, however small they are."""

_ADDED = CODECS["statewright.channels.delta.Added"].tag
_MERGED = CODECS["statewright.channels.delta.Merged"].tag
_MISSING = CODECS["statewright.channels.channel._Missing"].tag


class Row(NamedTuple):
    """A stored record, decrypted."""

    row_id: int
    key: bytes
    run: str
    control: bytes
    changes: bytes | None


class _PackedExtension:
    """A MessagePack extension as bytes, which can be copied without its class."""

    __slots__ = ("data", "tag")

    def __init__(self, tag: int, data: bytes) -> None:
        self.tag = tag
        self.data = data


def _as_extension(value: Any) -> ormsgpack.Ext:
    if type(value) is _PackedExtension:
        return ormsgpack.Ext(value.tag, value.data)
    raise TypeError


def _unpack(data: bytes) -> Any:
    return ormsgpack.unpackb(data, ext_hook=_PackedExtension, option=ormsgpack.OPT_NON_STR_KEYS)


def _pack(value: Any) -> bytes:
    options = ormsgpack.OPT_NON_STR_KEYS | ormsgpack.OPT_PASSTHROUGH_TUPLE
    return ormsgpack.packb(value, _as_extension, options)


class SegmentWriter:
    """Compacts records, within a transaction."""

    def __init__(self, connection: Connection, database: Database) -> None:
        self._connection = connection
        self._database = database
        self._encryptor = database.encryptor
        self._ids = database.row_ids
        self._sql = database.statements("segments")
        self._reader = HistoryReader(connection, database)

    def compact(self, line: int) -> int:
        """Compact the oldest records of a line, and return their number."""
        rows = self._oldest_records(line)
        if not rows:
            return 0
        changes: list[dict[str, Any]] = [{} if row.changes is None else _unpack(row.changes) for row in rows]
        parent = self._reader.parent_of(rows[0].row_id)
        before = self._reader.growing_at(parent)
        base = self._base(line, parent, before)
        keep_log(self._connection, self._database, line, self._ids.number(rows[-1].row_id))
        # Deleted first, so that the segment reuses their pages and the file does not grow.
        self._connection.execute(self._sql["delete"], (rows[0].row_id, rows[-1].row_id))
        growing = before | self._store_growth(rows, changes, parent, before)
        self._store(rows, changes, base, growing)
        return len(rows)

    def _oldest_records(self, line: int) -> list[Row]:
        """Return the oldest consecutive records without a jump between them, never the head."""
        rows = [
            Row(*row) for row in self._connection.execute(self._sql["oldest"], (*self._ids.bounds(line), LONGEST + 1))
        ]
        del rows[min(len(rows) - 1, LONGEST) :]
        if not rows:
            return []
        jump = self._connection.execute(self._sql["next_jump"], (rows[0].row_id + 1, rows[-1].row_id)).fetchone()
        chosen: list[Row] = []
        size = 0
        for row in rows:
            size += len(row.changes or b"")
            if (jump is not None and row.row_id >= jump[0]) or (chosen and size > LARGEST):
                break
            changes = self._encryptor.decrypt(row.changes) if row.changes is not None else None
            chosen.append(row._replace(control=self._encryptor.decrypt(row.control), changes=changes))
        return chosen

    # -- growing fields

    def _store_growth(
        self, rows: Sequence[Row], changes: Sequence[dict[str, Any]], parent: int | None, before: frozenset[str]
    ) -> frozenset[str]:
        """Move the gains of growing fields from the changes to rows of their own, and return the fields."""
        line, last = self._ids.line(rows[0].row_id), self._ids.number(rows[-1].row_id)
        fields = {
            field
            for changed_fields in changes
            for field, change in changed_fields.items()
            if field in before or (type(change) is _PackedExtension and change.tag in (_ADDED, _MERGED))
        }
        for field in sorted(fields):
            growth = [
                (self._ids.number(row.row_id), *_gain(changed_fields.pop(field)))
                for row, changed_fields in zip(rows, changes, strict=True)
                if field in changed_fields
            ]
            if self._needs_previous_value(line, field, growth, parent, before):
                growth = [*self._previous_value(rows[0].row_id, parent, field), *growth]
            is_set = any(kind == SET for _, kind, _, _ in growth)
            body = _pack([[number, kind, gained] for number, kind, gained, _ in growth])
            items = sum(count for _, _, _, count in growth)
            stored = self._encryptor.encrypt(body, compress=True)
            self._connection.execute(self._sql["insert_grown"], (line, field, last, is_set, items, stored))
        return frozenset(fields)

    def _needs_previous_value(
        self, line: int, field: str, growth: Sequence[Any], parent: int | None, before: frozenset[str]
    ) -> bool:
        """Return whether the value before must be stored: it is not in earlier rows, or there are too many of these."""
        if parent is None or growth[0][1] == SET:
            return False
        if field not in before:
            return True
        if all(kind == ADD for _, kind, _, _ in growth):
            return False
        (items,) = self._connection.execute(self._sql["items"], {"line": line, "field": field}).fetchone()
        if not items or items <= LONGEST:
            return False
        value = self._reader.state_at(parent).get(field)
        return isinstance(value, list) and items > 2 * len(value) + LONGEST  # pyright: ignore[reportUnknownArgumentType]

    def _previous_value(self, row_id: int, parent: int | None, field: str) -> list[Any]:
        """Return the value of a field before a checkpoint, as a gain that sets it."""
        values = self._reader.state_at(parent) if parent is not None else {}
        if field not in values:
            return []
        value = values[field]
        count = len(value) if isinstance(value, list) else 1  # pyright: ignore[reportUnknownArgumentType]
        return [(self._ids.number(row_id), SET, ormsgpack.Fragment(self._database.serde.encode(value, field)), count)]

    # -- other fields

    def _base(self, line: int, parent: int | None, growing: frozenset[str]) -> bytes | None:
        """Return the packed state before the segment, if too many changes would have to be read without it."""
        bounds = dict(zip(("first", "last"), self._ids.bounds(line), strict=True))
        size, count, base_size = self._connection.execute(self._sql["since_base"], bounds).fetchone()
        too_many = count >= MOST_WITHOUT_BASE and base_size <= SMALL
        if parent is None or not (size >= max(SMALL, base_size) or too_many):
            return None
        values = {name: value for name, value in self._reader.state_at(parent).items() if name not in growing}
        return self._database.serde.encode([values, sorted(growing)])

    def _store(
        self, rows: Sequence[Row], changes: Sequence[dict[str, Any]], base: bytes | None, growing: frozenset[str]
    ) -> None:
        runs = list(dict.fromkeys(row.run for row in rows))
        controls = [[runs.index(row.run), ormsgpack.Fragment(row.control)] for row in rows]
        encryptor = self._encryptor
        self._connection.execute(
            self._sql["insert"],
            (
                rows[-1].row_id,
                self._ids.number(rows[0].row_id),
                b"".join(row.key for row in rows),
                encryptor.encrypt(_pack(sorted(growing))) if growing else None,
                encryptor.encrypt(base, compress=True) if base is not None else None,
                encryptor.encrypt(_pack(changes), compress=True) if any(changes) else None,
                encryptor.encrypt(_pack([runs, controls]), compress=True),
            ),
        )


def _gain(change: Any) -> tuple[int, Any, int]:
    """Return a change of a growing field as its kind, its value and its number of items."""
    if type(change) is _PackedExtension and change.tag in (_ADDED, _MERGED):
        kind = ADD if change.tag == _ADDED else MERGE
        return kind, ormsgpack.Fragment(change.data), _length(change.data)
    if type(change) is _PackedExtension and change.tag == _MISSING:
        return GONE, None, 0
    return SET, change, len(change) if isinstance(change, list) else 1  # pyright: ignore[reportUnknownArgumentType]


def _length(packed: bytes) -> int:
    """Return the length of a packed list (MessagePack specification, array format family)."""
    if packed[0] == 0xDC:
        return int.from_bytes(packed[1:3], "big")
    return int.from_bytes(packed[1:5], "big") if packed[0] == 0xDD else packed[0] & 0x0F
