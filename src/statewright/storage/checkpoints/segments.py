"""Compaction: the oldest records of a line are merged into a segment, which is one row for up to 128 checkpoints.

*The problem.* Each superstep is saved as a record that contains its changes. A state is computed from all earlier
records, so without compaction, reading would get slower with every superstep, and the many small rows would waste
pages. If each record contained the whole state instead, a conversation of n messages would be stored n times.

*The approach.* The changes of a growing field (a list to which items are added or merged) are called its *gains*. In a
segment, they are stored in rows of their own, in the table `grown`, so that the content of the field is stored only
once and can be read without other changes. The changes of all other fields are stored together in the segment. Some
segments also contain a *base*: the state of these other fields before the segment. A segment gets a base once the
changes since the last base are as large as that base. Bases therefore never take more space than the changes that they
replace, and the number of changes that have to be read for a state is limited.

*Consequences.* Compaction happens in the transaction of the commit that makes it necessary. It does not decode values:
extension types are copied as bytes (`_PackedExtension`), because decoding them would need users' classes even in
processes that only write. If a field starts to grow after earlier segments were written, its previous value is stored
as its first gain (SET). The head is never compacted, because results are still added to it. A segment must not contain
a fork (a checkpoint with a row in `jumps`) after its first checkpoint.

*Rejected.* Snapshots at regular intervals: each would copy the whole conversation. A row for each field and checkpoint:
there would be many more rows, and no compression across checkpoints. Compaction on a background thread: it would need
the write lock as well, and would compete with runs for it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final, NamedTuple

import ormsgpack

from statewright.checkpoint.forms import REPORTED
from statewright.serde.codecs import CODECS
from statewright.storage.checkpoints.folding import ADD, GONE, MERGE, SET
from statewright.storage.checkpoints.history import HistoryReader
from statewright.storage.checkpoints.removal import keep_log
from statewright.storage.database import Connection, Database

LONGEST: Final = 128
"""The maximum number of checkpoints in a segment."""
LARGEST: Final = 1 << 20
"""The maximum size in bytes of the changes in a segment, unless it has only one checkpoint."""
RECENT: Final = LONGEST + 32
"""The number of records in a line at which the oldest are compacted."""
SMALL: Final = 4096
"""The size in bytes of changes for which no base is needed."""
MOST_WITHOUT_BASE: Final = 16
"""The number of consecutive segments without a base after which a segment gets one even if the changes are small."""
_NEVER_GROWING: Final = frozenset({REPORTED})
"""Fields that are short lists. They only have rows in `grown` if an earlier version has written some to the same line;
see `history.STORED_REPORTED`."""

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
    """A MessagePack extension that is not decoded, so that it can be copied without the class of its value."""

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
    """Compacts records in a transaction."""

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
        grown_before = self._reader.growing_at(parent)
        base = self._encode_base(line, parent, grown_before)
        keep_log(self._connection, self._database, line, self._ids.number(rows[-1].row_id))
        # The records are deleted before the segment is written, so that it reuses their pages.
        self._connection.execute(self._sql["delete"], (rows[0].row_id, rows[-1].row_id))
        growing = grown_before | self._store_gains(rows, changes, parent, grown_before)
        self._store_segment(rows, changes, base, growing)
        return len(rows)

    def _oldest_records(self, line: int) -> list[Row]:
        """Return the records to compact: the oldest records of a line, up to the next fork, and never the head."""
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

    def _store_gains(
        self, rows: Sequence[Row], changes: Sequence[dict[str, Any]], parent: int | None, grown_before: frozenset[str]
    ) -> frozenset[str]:
        """Remove the gains of growing fields from `changes`, store them in rows of their own, and return the fields.

        `grown_before` are the fields that were growing fields before the segment.
        """
        line, last = self._ids.line(rows[0].row_id), self._ids.number(rows[-1].row_id)
        fields = {
            field
            for changed_fields in changes
            for field, change in changed_fields.items()
            if field in grown_before or (_is_gain(change) and field not in _NEVER_GROWING)
        }
        for field in sorted(fields):
            gains = [
                (self._ids.number(row.row_id), *_gain(changed_fields.pop(field)))
                for row, changed_fields in zip(rows, changes, strict=True)
                if field in changed_fields
            ]
            if self._needs_previous_value(line, field, gains, parent, grown_before):
                gains = [*self._previous_value(rows[0].row_id, parent, field), *gains]
            replaces_value = any(kind == SET for _, kind, _, _ in gains)
            body = _pack([[number, kind, content] for number, kind, content, _ in gains])
            item_count = sum(count for _, _, _, count in gains)
            stored = self._encryptor.encrypt(body, compress=True)
            name = self._reader.name_in_grown(line, field)
            self._connection.execute(self._sql["insert_grown"], (line, name, last, replaces_value, item_count, stored))
        return frozenset(fields)

    def _needs_previous_value(
        self, line: int, field: str, gains: Sequence[Any], parent: int | None, grown_before: frozenset[str]
    ) -> bool:
        """Return whether the value of a growing field before the segment must be stored as its first gain.

        That is so if earlier rows of gains do not contain the value, or if they contain far more items than the value.
        """
        if parent is None or gains[0][1] == SET:
            return False
        if field not in grown_before:
            return True
        if all(kind == ADD for _, kind, _, _ in gains):
            return False
        name = self._reader.name_in_grown(line, field)
        (item_count,) = self._connection.execute(self._sql["items"], {"line": line, "field": name}).fetchone()
        if not item_count or item_count <= LONGEST:
            return False
        value = self._reader.state_at(parent).get(field)
        return isinstance(value, list) and item_count > 2 * len(value) + LONGEST  # pyright: ignore[reportUnknownArgumentType]

    def _previous_value(self, row_id: int, parent: int | None, field: str) -> list[Any]:
        """Return a list with a gain that sets a field to its value at the parent; empty if the field has no value.

        `row_id` is the first checkpoint of the segment. As in `_gain`, the number of items is added to the gain.
        """
        values = self._reader.state_at(parent) if parent is not None else {}
        if field not in values:
            return []
        value = values[field]
        count = len(value) if isinstance(value, list) else 1  # pyright: ignore[reportUnknownArgumentType]
        return [(self._ids.number(row_id), SET, ormsgpack.Fragment(self._database.serde.encode(value, field)), count)]

    # -- other fields

    def _encode_base(self, line: int, parent: int | None, growing: frozenset[str]) -> bytes | None:
        """Return the encoded base of a new segment; None if it does not need one."""
        bounds = dict(zip(("first", "last"), self._ids.bounds(line), strict=True))
        size, segment_count, base_size = self._connection.execute(self._sql["since_base"], bounds).fetchone()
        has_too_many_segments = segment_count >= MOST_WITHOUT_BASE and base_size <= SMALL
        if parent is None or not (size >= max(SMALL, base_size) or has_too_many_segments):
            return None
        values = {name: value for name, value in self._reader.state_at(parent).items() if name not in growing}
        return self._database.serde.encode([values, sorted(growing)])

    def _store_segment(
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


def _is_gain(change: Any) -> bool:
    return type(change) is _PackedExtension and change.tag in (_ADDED, _MERGED)


def _gain(change: Any) -> tuple[int, Any, int]:
    """Return a change of a growing field as the kind of the gain, its items or value, and the number of items."""
    if _is_gain(change):
        kind = ADD if change.tag == _ADDED else MERGE
        return kind, ormsgpack.Fragment(change.data), _length(change.data)
    if type(change) is _PackedExtension and change.tag == _MISSING:
        return GONE, None, 0
    return SET, change, len(change) if isinstance(change, list) else 1  # pyright: ignore[reportUnknownArgumentType]


def _length(packed: bytes) -> int:
    """Return the length of a packed list (see "array format family" in the MessagePack specification)."""
    if packed[0] == 0xDC:
        return int.from_bytes(packed[1:3], "big")
    return int.from_bytes(packed[1:5], "big") if packed[0] == 0xDD else packed[0] & 0x0F
