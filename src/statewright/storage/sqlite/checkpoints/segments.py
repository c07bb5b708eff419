"""Old checkpoints of a line laid together in a segment: few rows to read, and nothing stored twice.

What fields that grow have gained is stored apart, so that a state is made without reading what else happened. A
segment gets a base, the state of all other fields before it, when the changes since the last base have become as
large as that base: so bases never cost more than what they stand for.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence
from typing import Any, Final, NamedTuple

import ormsgpack

from statewright.serde.codecs import CODECS
from statewright.serde.serde import Serde
from statewright.storage.encryption import Encryptor
from statewright.storage.sqlite.checkpoints.history import ADD, GONE, MERGE, SET, HistoryReader
from statewright.storage.sqlite.checkpoints.removal import keep_log
from statewright.storage.sqlite.checkpoints.row_ids import LAST_NUMBER, number_of, place_of
from statewright.storage.sqlite.statements import statements

LONGEST: Final = 128
"""How many checkpoints lie in one segment."""
LARGEST: Final = 1 << 20
"""Bytes of changes above which a segment takes no more."""
RECENT: Final = LONGEST + 32
"""How many records a line has before some are laid together."""
SMALL: Final = 4096
"""Bytes of changes that are read without a base."""
MOST_WITHOUT_BASE: Final = 16
"""How many segments are read without a base, however small they are."""

_ADDED = CODECS["statewright.channels.delta.Added"].tag
_MERGED = CODECS["statewright.channels.delta.Merged"].tag
_MISSING = CODECS["statewright.channels.channel._Missing"].tag


class Row(NamedTuple):
    """A record, as it is stored but unsealed."""

    place: int
    key: bytes
    run: str
    control: bytes
    changes: bytes | None


class _Stored:
    """An extension as it is stored: nobody needs to know what it means to lay it elsewhere."""

    __slots__ = ("data", "tag")

    def __init__(self, tag: int, data: bytes) -> None:
        self.tag = tag
        self.data = data


def _restored(value: Any) -> ormsgpack.Ext:
    if type(value) is _Stored:
        return ormsgpack.Ext(value.tag, value.data)
    raise TypeError


def _unpacked(data: bytes) -> Any:
    return ormsgpack.unpackb(data, ext_hook=_Stored, option=ormsgpack.OPT_NON_STR_KEYS)


def _packed(value: Any) -> bytes:
    options = ormsgpack.OPT_NON_STR_KEYS | ormsgpack.OPT_PASSTHROUGH_TUPLE
    return ormsgpack.packb(value, _restored, options)


class Folder:
    """Lays checkpoints together, within a transaction."""

    def __init__(self, connection: sqlite3.Connection, serde: Serde, seal: Encryptor) -> None:
        self._connection = connection
        self._serde = serde
        self._seal = seal
        self._reader = HistoryReader(connection, serde, seal)

    def fold(self, line: int) -> int:
        """Lay the oldest records of a line together; how many those were."""
        rows = self._chosen(line)
        if not rows:
            return 0
        changes: list[dict[str, Any]] = [{} if row.changes is None else _unpacked(row.changes) for row in rows]
        parent = self._reader.parent_of(rows[0].place)
        before = self._reader.apart_at(parent)
        base = self._base(line, parent, before)
        keep_log(self._connection, self._serde, self._seal, line, number_of(rows[-1].place))
        # First: what is stored now takes the room that this leaves, and the file does not grow.
        self._connection.execute(_DELETE, (rows[0].place, rows[-1].place))
        apart = before | self._store_growth(rows, changes, parent, before)
        self._store(rows, changes, base, apart)
        return len(rows)

    def _chosen(self, line: int) -> list[Row]:
        """The oldest records that follow each other without a jump; never the head."""
        bounds = place_of(line, 0), place_of(line, LAST_NUMBER)
        found = [Row(*row) for row in self._connection.execute(_OLDEST, (*bounds, LONGEST + 1))]
        del found[min(len(found) - 1, LONGEST) :]
        if not found:
            return []
        jump = self._connection.execute(_NEXT_JUMP, (found[0].place + 1, found[-1].place)).fetchone()
        chosen: list[Row] = []
        size = 0
        for row in found:
            size += len(row.changes or b"")
            if (jump is not None and row.place >= jump[0]) or (chosen and size > LARGEST):
                break
            opened = self._seal.decrypt(row.changes) if row.changes is not None else None
            chosen.append(row._replace(control=self._seal.decrypt(row.control), changes=opened))
        return chosen

    # -- what grows

    def _store_growth(
        self, rows: Sequence[Row], changes: Sequence[dict[str, Any]], parent: int | None, before: frozenset[str]
    ) -> frozenset[str]:
        """Store apart what growing fields gained, and take it out of the changes; the fields."""
        line, last = rows[0].place >> 32, number_of(rows[-1].place)
        gains = {
            field
            for one in changes
            for field, change in one.items()
            if field in before or (type(change) is _Stored and change.tag in (_ADDED, _MERGED))
        }
        for field in sorted(gains):
            growth = [
                (number_of(row.place), *_said(one.pop(field)))
                for row, one in zip(rows, changes, strict=True)
                if field in one
            ]
            if self._should_be_whole(line, field, growth, parent, before):
                growth = [*self._as_it_was(rows[0].place, parent, field), *growth]
            whole = any(kind == SET for _, kind, _, _ in growth)
            body = _packed([[number, kind, gained] for number, kind, gained, _ in growth])
            items = sum(count for _, _, _, count in growth)
            stored = self._seal.encrypt(body, compress=True)
            self._connection.execute(_INSERT_GROWN, (line, field, last, whole, items, stored))
        return frozenset(gains)

    def _should_be_whole(
        self, line: int, field: str, growth: Sequence[Any], parent: int | None, before: frozenset[str]
    ) -> bool:
        """Whether the value before has to be stored: as nobody looks for it elsewhere, or finds too much there."""
        if parent is None or growth[0][1] == SET:
            return False
        if field not in before:
            return True
        if all(kind == ADD for _, kind, _, _ in growth):
            return False
        (items,) = self._connection.execute(_ITEMS, {"line": line, "field": field}).fetchone()
        if not items or items <= LONGEST:
            return False
        value = self._reader.state_at(parent).get(field)
        return isinstance(value, list) and items > 2 * len(value) + LONGEST  # pyright: ignore[reportUnknownArgumentType]

    def _as_it_was(self, place: int, parent: int | None, field: str) -> list[Any]:
        """The value of a field before a checkpoint, as if that had set it."""
        values = self._reader.state_at(parent) if parent is not None else {}
        if field not in values:
            return []
        value = values[field]
        count = len(value) if isinstance(value, list) else 1  # pyright: ignore[reportUnknownArgumentType]
        return [(number_of(place), SET, ormsgpack.Fragment(self._serde.encode(value, field)), count)]

    # -- everything else

    def _base(self, line: int, parent: int | None, growing: frozenset[str]) -> bytes | None:
        """The state before the segment, if too much would have to be read without it."""
        bounds = {"first": place_of(line, 0), "last": place_of(line, LAST_NUMBER)}
        size, count, known = self._connection.execute(_SINCE_BASE, bounds).fetchone()
        too_many = count >= MOST_WITHOUT_BASE and known <= SMALL
        if parent is None or not (size >= max(SMALL, known) or too_many):
            return None
        values = {name: one for name, one in self._reader.state_at(parent).items() if name not in growing}
        return self._serde.encode([values, sorted(growing)])

    def _store(
        self, rows: Sequence[Row], changes: Sequence[dict[str, Any]], base: bytes | None, apart: frozenset[str]
    ) -> None:
        runs = list(dict.fromkeys(row.run for row in rows))
        each = [[runs.index(row.run), ormsgpack.Fragment(row.control)] for row in rows]
        seal = self._seal
        self._connection.execute(
            _INSERT,
            (
                rows[-1].place,
                number_of(rows[0].place),
                b"".join(row.key for row in rows),
                seal.encrypt(_packed(sorted(apart))) if apart else None,
                seal.encrypt(base, compress=True) if base is not None else None,
                seal.encrypt(_packed(changes), compress=True) if any(changes) else None,
                seal.encrypt(_packed([runs, each]), compress=True),
            ),
        )


def _said(change: Any) -> tuple[int, Any, int]:
    """What a change of a growing field says, and how many items it holds."""
    if type(change) is _Stored and change.tag in (_ADDED, _MERGED):
        kind = ADD if change.tag == _ADDED else MERGE
        return kind, ormsgpack.Fragment(change.data), _length(change.data)
    if type(change) is _Stored and change.tag == _MISSING:
        return GONE, None, 0
    return SET, change, len(change) if isinstance(change, list) else 1  # pyright: ignore[reportUnknownArgumentType]


def _length(packed: bytes) -> int:
    """How many items a packed list holds (MessagePack specification, array format family)."""
    if packed[0] == 0xDC:
        return int.from_bytes(packed[1:3], "big")
    return int.from_bytes(packed[1:5], "big") if packed[0] == 0xDD else packed[0] & 0x0F


_SQL: Final = statements("segments")
_OLDEST: Final = _SQL["oldest"]
_NEXT_JUMP: Final = _SQL["next_jump"]
_DELETE: Final = _SQL["delete"]
_INSERT: Final = _SQL["insert"]
_INSERT_GROWN: Final = _SQL["insert_grown"]
_ITEMS: Final = _SQL["items"]
_SINCE_BASE: Final = _SQL["since_base"]
