"""Semantic search by pgvector gives the answers of the search in the process, which replaces it where it must."""

from __future__ import annotations

import logging
import random
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from tests.postgres_server import empty_database, execute, shared_server

from statewright.errors import InvalidConfig
from statewright.storage.postgres import PostgresDatabase, PostgresStore
from statewright.storage.sqlite import SqliteStore
from statewright.store import Index

LOGGER = "statewright.storage.postgres.vectors"


def embed(dims: int) -> Any:
    """Return a function that embeds a text as a vector that depends on the text only."""

    def embed_texts(texts: Sequence[str]) -> list[list[float]]:
        return [[random.Random(f"{text} {n}").gauss() for n in range(dims)] for text in texts]

    return embed_texts


def index_of(dims: int, **options: Any) -> Index:
    return Index(dims=dims, embed=embed(dims), fields=("text", "parts[*]"), **options)


def new_database(name: str, *, roles: Sequence[str] = ()) -> str:
    """Create a database without the extension, and users. Return its address for the superuser."""
    server = shared_server()
    execute(
        server.url,
        "SET client_min_messages TO warning",
        f"DROP DATABASE IF EXISTS {name}",
        f"CREATE DATABASE {name}",
        *(statement for role in roles for statement in (f"DROP ROLE IF EXISTS {role}", f"CREATE ROLE {role} LOGIN")),
    )
    return server.url_of(name)


def fill(*stores: Any, count: int = 150) -> None:
    """Put the same items into stores: of several namespaces, some of several parts, some equal, some put twice."""
    generator = random.Random(1)
    for n in range(count):
        parts = [f"part {generator.randrange(50)}" for _ in range(n % 3)]
        value = {"text": f"text {generator.randrange(count // 2)}", "parts": parts, "even": n % 2 == 0}
        key = f"k{generator.randrange(n + 1) if n % 10 == 0 else n}"
        for store in stores:
            store.put(("users", f"u{n % 4}", "notes"), key, value)
    for store in stores:
        store.delete(("users", "u1", "notes"), "k5")


def answers(store: Any) -> list[Any]:
    """Search in several ways, and return the namespaces, keys and scores."""
    searches: list[dict[str, Any]] = [
        {"prefix": ()},
        {"prefix": ("users", "u2")},
        {"prefix": ("users", "*", "notes"), "limit": 30},
        {"prefix": ("*", "u3"), "limit": 5, "offset": 7},
        {"prefix": ("users",), "filter": {"even": True}, "limit": 40},
        {"prefix": ("users",), "limit": 1000},
        {"prefix": ("nobody",)},
    ]
    return [
        [(item.namespace, item.key, item.score) for item in store.search(**search, query=query)]
        for search in searches
        for query in ("text 3", "part 7")
    ]


@pytest.mark.parametrize(("dims", "method"), [(8, "exact"), (8, "hnsw"), (2001, "exact"), (2001, "hnsw")])
@pytest.mark.sampled(2)
def test_the_answers_are_those_of_a_store_in_a_file(dims: int, method: Any, tmp_path: Path) -> None:
    count = 150 if dims < 100 else 24
    file = SqliteStore(tmp_path / "store.db", index=index_of(dims))
    store = PostgresStore(empty_database(), index=index_of(dims, method=method))
    fill(file, store, count=count)
    assert store._vector_search is not None
    assert answers(store) == answers(file)


@pytest.mark.parametrize("dims", [8, 2001])
def test_an_hnsw_index_is_used_and_finds_the_nearest_item_of_a_namespace(dims: int) -> None:
    # The table is too small for the planner to prefer the index.
    first = empty_database()
    url = f"{first._conninfo.text} options='-c enable_seqscan=off -c enable_sort=off -c enable_bitmapscan=off'"
    with PostgresDatabase(url, schema=first.schema) as database:
        store = PostgresStore(database, index=index_of(dims, method="hnsw"))
        fill(store, count=40)
        store.put(("alone",), "k", {"text": "alone"})
        table = f"{database.schema}.embeddings_{dims}_hnsw"
        items = store.search(("alone",), query="text 1")
        assert [item.key for item in items] == ["k"]
        assert store.search(("users",), query="text 3")[0].score == 1
    sql = f"SELECT pg_stat_get_numscans('{table}'::regclass)"
    assert execute(first._conninfo.text, "SELECT pg_stat_force_next_flush()", sql)[0][0] > 0


def test_without_permission_vectors_are_compared_in_the_process_until_the_extension_is_there(
    caplog: pytest.LogCaptureFixture, tmp_path: Path
) -> None:
    own = new_database("without_vectors", roles=("modest",))
    execute(own, "CREATE SCHEMA work AUTHORIZATION modest")
    url = own.replace("postgres@", "modest@")
    file = SqliteStore(tmp_path / "store.db", index=index_of(8))
    with PostgresDatabase(url, schema="work") as database:
        with caplog.at_level(logging.INFO, LOGGER):
            store = PostgresStore(database, index=index_of(8))
        assert store._vector_search is None
        assert ["permission denied" in record.getMessage() for record in caplog.records] == [True]
        fill(file, store)
        expected = answers(file)
        assert answers(store) == expected

        execute(own, "CREATE EXTENSION vector")
        with_vectors = PostgresStore(database, index=index_of(8))
        assert with_vectors._vector_search is not None
        store.put(("users", "u9"), "late", {"text": "text 3"})  # by a process that does not use the extension
        file.put(("users", "u9"), "late", {"text": "text 3"})
        assert answers(with_vectors) == answers(store) == answers(file)
        third = PostgresStore(database, index=index_of(8))  # embeds what the other has put
        while execute(own, "SELECT count(*) FROM work.vectors WHERE NOT embedded")[0][0]:
            database.write(lambda connection: None)
        assert answers(third) == answers(file)


def test_schemas_of_one_database_do_not_share_vectors(tmp_path: Path) -> None:
    url = new_database("shared_by_schemas")
    with PostgresDatabase(url) as public, PostgresDatabase(url, schema="other") as other:
        ours = PostgresStore(public, index=index_of(8, method="hnsw"))
        ours.put(("users", "u2"), "ours", {"text": "text 3"})
        file = SqliteStore(tmp_path / "store.db", index=index_of(8))
        theirs = PostgresStore(other, index=index_of(8, method="hnsw"))
        fill(file, theirs, count=40)
        assert ours._vector_search is not None is not theirs._vector_search
        assert answers(theirs) == answers(file)
        assert [item.key for item in ours.search((), query="text 3")] == ["ours"]
    indexes = execute(url, "SELECT schemaname FROM pg_indexes WHERE indexname = 'embeddings_8_hnsw' ORDER BY 1")
    assert indexes == [("other",), ("public",)]


def test_the_extension_is_used_in_whatever_schema_it_is(tmp_path: Path) -> None:
    url = new_database("extension_elsewhere")
    execute(url, "CREATE SCHEMA extensions", "CREATE EXTENSION vector SCHEMA extensions")
    file = SqliteStore(tmp_path / "store.db", index=index_of(8))
    with PostgresDatabase(url, schema="work") as database:
        store = PostgresStore(database, index=index_of(8, method="hnsw"))
        assert store._vector_search is not None
        fill(file, store, count=40)
        assert answers(store) == answers(file)


def test_items_that_were_restored_without_their_embeddings_are_found() -> None:
    url = new_database("restored")
    with PostgresDatabase(url, schema="work") as database:
        PostgresStore(database, index=index_of(8)).put(("a",), "k", {"text": "x"})
    execute(url, "DROP TABLE work.embeddings_8")  # what a restore omits if the extension does not exist yet
    with PostgresDatabase(url, schema="work") as database:
        store = PostgresStore(database, index=index_of(8))
        assert store._vector_search is not None
        assert [item.key for item in store.search(("a",), query="x")] == ["k"]


def test_users_without_permission_on_the_embeddings_of_others_compare_vectors_in_the_process(
    caplog: pytest.LogCaptureFixture,
) -> None:
    url = new_database("with_grants", roles=("keeper", "user_of_all", "viewer_of_all"))
    execute(url, "CREATE EXTENSION vector", "CREATE SCHEMA work AUTHORIZATION keeper")
    urls = {name: url.replace("postgres@", f"{name}@") for name in ("keeper", "user_of_all", "viewer_of_all")}
    with PostgresDatabase(urls["keeper"], schema="work") as database:
        execute(
            urls["keeper"],
            "GRANT USAGE ON SCHEMA work TO user_of_all, viewer_of_all",
            "GRANT SELECT, INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA work TO user_of_all",
            "GRANT SELECT ON ALL TABLES IN SCHEMA work TO viewer_of_all",
        )
        owned = PostgresStore(database, index=index_of(8))
        owned.put(("a",), "k", {"text": "x"})
    for statements, is_used in (
        ([], False),
        (["GRANT SELECT ON work.embeddings_8 TO user_of_all"], False),
        (["GRANT INSERT ON work.embeddings_8 TO user_of_all"], True),
    ):
        execute(urls["keeper"], *statements or ["SELECT 1"])
        with (
            caplog.at_level(logging.INFO, LOGGER),
            PostgresDatabase(urls["user_of_all"], schema="work") as database,
        ):
            store = PostgresStore(database, index=index_of(8))
            assert (store._vector_search is not None) == is_used
            store.put(("a",), "k", {"text": "x"})
            store.put(("a",), "other", {"text": "y"})
            assert {item.key for item in store.search(("a",), query="x")} == {"k", "other"}
    assert ["no permission on the table work.embeddings_8" in record.getMessage() for record in caplog.records] == [
        True,
        True,
    ]
    for statement in ("SELECT 1", "GRANT SELECT ON work.embeddings_8 TO viewer_of_all"):
        execute(urls["keeper"], statement)
        with PostgresDatabase(urls["viewer_of_all"], schema="work") as database:
            viewer = PostgresStore(database, index=index_of(8))
            assert (viewer._vector_search is not None) == (statement != "SELECT 1")
            assert viewer.search(("a",), query="x")[0].key == "k"


def test_vectors_of_an_encrypted_database_are_not_given_to_the_server(
    caplog: pytest.LogCaptureFixture, tmp_path: Path
) -> None:
    file = SqliteStore(tmp_path / "store.db", index=index_of(8))
    with caplog.at_level(logging.INFO, LOGGER):
        store = PostgresStore(empty_database(key=bytes(32)), index=index_of(8))
    assert store._vector_search is None
    assert "encrypted" in caplog.text
    fill(file, store)
    assert answers(store) == answers(file)


def test_more_dimensions_than_the_extension_has_are_refused_or_compared_in_the_process(
    caplog: pytest.LogCaptureFixture,
) -> None:
    database = empty_database()
    with pytest.raises(InvalidConfig, match="at most 4000"):
        PostgresStore(database, index=index_of(4001, method="hnsw"))
    store = PostgresStore(database, index=index_of(4001))
    assert store._vector_search is not None
    store.put(("a",), "k", {"text": "x"})
    assert store.search(("a",), query="x")[0].score == 1
    with caplog.at_level(logging.INFO, LOGGER):
        large = PostgresStore(database, index=index_of(16001))
    assert large._vector_search is None
    assert "at most 16000" in caplog.text
    with pytest.raises(InvalidConfig, match="vectors of 16001 numbers"):
        large.search(("a",), query="x")


def test_items_of_other_dimensions_are_refused() -> None:
    database = empty_database()
    PostgresStore(database, index=index_of(8)).put(("a",), "k", {"text": "x"})
    store = PostgresStore(database, index=index_of(9))
    with pytest.raises(InvalidConfig, match="were put with vectors of 8"):
        store.search(("a",), query="x")
    assert store.search(("b",), query="x") == []


def test_removed_and_expired_items_leave_no_vectors() -> None:
    database = empty_database()
    store = PostgresStore(database, index=index_of(8))
    for key in ("deleted", "replaced", "expired"):
        store.put(("a",), key, {"text": "x"}, ttl=0.001 if key == "expired" else None)
    store.delete(("a",), "deleted")
    store.put(("a",), "replaced", {"text": "y"})
    while not store.sweep():
        pass
    assert database.query(lambda connection: connection.execute("SELECT count(*) FROM embeddings_8").fetchone()) == (1,)
