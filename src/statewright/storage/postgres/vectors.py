"""Semantic search by pgvector, the extension `vector`, where it is installed.

*The problem.* Without it, a search reads all vectors under its prefix into the process, and compares them there. That
is exact, but a hundred thousand vectors of 1536 numbers are 600 MB for each search.

*The approach.* A store with an index keeps a second copy of its vectors in a table for each number of dimensions, in
the type of the extension. The server returns the nearest items, and only their vectors are compared again in the
process, so that scores and order are the same as without the extension: the server calculates with float32, and its
distances differ in the last digits. Items whose score is too close to that of the farthest one returned might be out of
order, so more are fetched before they are yielded.

*The tables.* `vectors` remains authoritative, because not every process may use the extension. Rows that were written
without the extension are not `embedded`: they are compared in the process, until a store with the extension embeds
them.

*Approximate search.* An HNSW index answers without reading all vectors, and may miss some. It is created for
`Index(method="hnsw")`. Such indexes have at most 2000 dimensions, and 4000 if their numbers are stored in half
precision.

*Not used* for encrypted databases, whose vectors the server must not see, and for more than 16000 dimensions.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, Final, TypeVar

from statewright.errors import InvalidConfig, StorageError
from statewright.storage.database import Connection
from statewright.storage.postgres.database import PostgresDatabase
from statewright.store import Index
from statewright.store.vectors import Vector, score_items, unpack_vectors

T = TypeVar("T")
MAX_DIMS: Final = 16000
"""The maximum number of dimensions of a vector of the extension."""
MAX_HNSW_DIMS: Final = 2000
"""The maximum number of dimensions of an HNSW index of float32 numbers."""
MAX_HALF_DIMS: Final = 4000
"""The maximum number of dimensions of an HNSW index of float16 numbers."""
_MARGIN: Final = 1e-5
"""The maximum error of a distance that the server has calculated."""
_HNSW_VERSION: Final = (0, 8)
"""The first version whose index scans continue until enough rows meet the other conditions of a search."""
_NAMES: Final = re.compile("DIMS|TABLES|PGVECTOR")
"""Placeholders in the statements for parts that are not parameters."""
_FIRST_COUNT: Final = 64
_GROWTH: Final = 4
logger = logging.getLogger(__name__)


def open_vectors(database: PostgresDatabase, index: Index) -> PgVectors | None:
    """Return the search by pgvector, whose tables are created if necessary; None if the process compares vectors.

    Raises InvalidConfig if `index` needs an HNSW index with too many dimensions.
    """
    wants_hnsw = index.method == "hnsw"
    if wants_hnsw and index.dims > MAX_HALF_DIMS:
        raise InvalidConfig(
            f"Index(dims={index.dims}, method='hnsw'): an HNSW index of pgvector has at most {MAX_HALF_DIMS} "
            f"dimensions. Use method='exact', or an embedding model with fewer dimensions."
        )
    if database.encryptor.encrypts:
        return _fall_back("the database is encrypted")
    if index.dims > MAX_DIMS:
        return _fall_back(f"it stores at most {MAX_DIMS} dimensions, and the index has {index.dims}")
    vectors = PgVectors(database, index.dims, has_hnsw=wants_hnsw)
    try:
        reason = vectors.prepare()
    except StorageError as error:
        reason = f"its tables cannot be created: {error.__cause__ or error}"
    if reason is not None:
        return _fall_back(reason)
    vectors.embed_others()
    return vectors


def _fall_back(reason: str) -> None:
    logger.info("Vectors are compared in the process and not by pgvector, because %s.", reason)


class PgVectors:
    """Stores vectors with a number of dimensions in the type of pgvector, and finds the nearest."""

    def __init__(self, database: PostgresDatabase, dims: int, *, has_hnsw: bool) -> None:
        self._database = database
        self._dims = dims
        self._sql: Mapping[str, str] = database.statements("vectors")
        """The statements; `prepare` fills in the names of schemas and the number of dimensions."""
        self._table = ""
        """The table of the embeddings, with its schema."""
        self._has_hnsw = has_hnsw
        self._may_embed = False
        self._suffix = "" if dims <= MAX_HNSW_DIMS else "_half"

    # -- tables

    def prepare(self) -> str | None:
        """Create missing tables and indexes. Return the reason if the extension cannot be used. Raises StorageError."""
        extension, tables, is_creatable = self._database.query(self._schemas)
        if extension is None:
            if not is_creatable:
                return "the extension is not installed on the server, or the user may not use its schema"
            self._database.write(lambda connection: connection.execute(self._sql["create_extension"]))
            extension, tables, _ = self._database.query(self._schemas)
        names = {"DIMS": str(self._dims), "TABLES": tables, "PGVECTOR": extension}
        self._sql = {name: _NAMES.sub(lambda match: names[match[0]], sql) for name, sql in self._sql.items()}
        self._table = f"{tables}.embeddings_{self._dims}"
        if self._has_hnsw and self._database.query(_version) < _HNSW_VERSION:
            logger.info("Searches are exact, because the server has an old version of pgvector. HNSW needs 0.8.")
            self._has_hnsw = False
        has_table, has_index, *_ = self._database.query(self._state_of_table)
        if not has_table or (self._has_hnsw and not has_index):
            self._database.write(self._create)
        *_, is_permitted, self._may_embed = self._database.query(self._state_of_table)
        if not is_permitted:
            return f"the user has no permission on the table {self._table}"
        return None

    def _schemas(self, connection: Connection) -> Any:
        return connection.execute(self._sql["schemas"]).fetchone()

    def _state_of_table(self, connection: Connection) -> Any:
        return connection.execute(self._sql["state_of_table"], {"table": self._table}).fetchone()

    def _create(self, connection: Connection) -> None:
        connection.lock(f"embeddings {self._table}")
        has_table, has_index, *_ = self._state_of_table(connection)  # another process may have created them meanwhile
        if not has_table:
            connection.execute(self._sql["create_table"])
            connection.execute(self._sql["create_item_index"])
            connection.execute(self._sql["unmark"])
        if self._has_hnsw and not has_index:
            connection.execute(self._sql[f"create_hnsw{self._suffix}"])

    def embed_others(self) -> None:
        """Embed the vectors that were stored without the extension, in the background."""
        if self._may_embed and self._database.query(self._has_left):
            self._database.submit(self._embed_some)

    def _has_left(self, connection: Connection) -> bool:
        sql = self._sql["left"].removesuffix(" FOR UPDATE")
        return connection.execute(sql, {"dims": self._dims}).fetchone() is not None

    def _embed_some(self, connection: Connection) -> None:
        rows = connection.execute(self._sql["left"], {"dims": self._dims}).fetchall()
        for item, parts in rows:
            self.put(connection, item, unpack_vectors(self._database.decode(parts), self._dims))
        if rows:
            self._database.submit(self._embed_some)

    # -- items

    def put(self, connection: Connection, item: int, vectors: Iterable[Vector]) -> None:
        """Store the vectors of an item, which are in the table `vectors` already."""
        connection.execute(self._sql["put"], (item, [_text_of(vector) for vector in vectors]))
        connection.execute(self._sql["mark"], (item,))

    def others(self, connection: Connection, bounds: Mapping[str, Any]) -> list[Any]:
        """Return the rows of a range of namespaces that must be compared in the process."""
        return connection.execute(self._sql["others"], {**bounds, "dims": self._dims}).fetchall()

    def nearest(
        self,
        connection: Connection,
        query: Vector,
        bounds: Mapping[str, Any],
        pattern: str | None,
        decode: Callable[[bytes], bytes],
        others: Sequence[tuple[int, float]],
    ) -> Iterator[tuple[int, float]]:
        """Yield the numbers of items with their similarities to a query, most similar first.

        `bounds` and `pattern` select their namespaces. `others` are items that were compared in the process, which
        are merged into the order.
        """
        name = f"nearest_hnsw{self._suffix}" if self._has_hnsw else "nearest"
        parameters = {**bounds, "query": _text_of(query), "pattern": pattern}
        scores: dict[int, float] = dict(others)
        seen: set[int] = set()
        count = _FIRST_COUNT
        while True:
            if self._has_hnsw:
                connection.execute(self._sql["iterate"], {"count": count})
            else:
                connection.execute(self._sql["scan"])
            rows = connection.execute(self._sql[name], {**parameters, "count": count}).fetchall()
            new = list(dict.fromkeys(item for item, _ in rows if item not in scores))
            stored = connection.execute(self._sql["parts"], (new,)).fetchall()
            scores.update(score_items(query, ((item, decode(parts)) for item, parts in stored)))
            is_complete = len(rows) < count
            # No item that was not returned has a higher score.
            bound = -float("inf") if is_complete else _MARGIN - rows[-1][1]
            ranked = sorted(scores.items(), key=lambda entry: (-entry[1], -entry[0]))
            for item, score in ranked:
                if item not in seen and score > bound:
                    seen.add(item)
                    yield item, score
            if is_complete:
                return
            count *= _GROWTH


def _version(connection: Connection) -> tuple[int, ...]:
    """Return the version of the extension."""
    (text,) = connection.execute("SELECT extversion FROM pg_extension WHERE extname = 'vector'").fetchone()
    return tuple(int(part) for part in text.split(".") if part.isdecimal())


def _text_of(vector: Vector) -> str:
    return f"[{','.join(map(repr, map(float, vector)))}]"
