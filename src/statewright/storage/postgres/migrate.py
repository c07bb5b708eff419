"""Creation of the schema, and its migration to the current version.

The version of the schema is stored in the table `statewright_schema`. Each migration step is a transaction. If several
processes start at the same time, one of them migrates the schema and the others wait for it. After a step, the previous
version of Statewright should still be able to use the schema, because its workers may be running during a deployment.
Older workers refuse a schema whose version is newer than theirs.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from statewright.errors import DamagedDatabase, NewerFormat, WrongEncryptionKey
from statewright.storage.damage import report_damage
from statewright.storage.database import Statement
from statewright.storage.encryption import Encryptor
from statewright.storage.postgres.connection import Session
from statewright.storage.scripts import split_script

_PACKAGE: Final = "statewright.storage.postgres"
_SCRIPTS: Final = ("tables", "functions", "ledger_tables", "claims", "items_tables", "cache_tables")
"""The scripts that create version 1, in order."""
_KNOWN_TEXT: Final = b"statewright"
"""A text that is stored encrypted, so that a wrong key can be recognized."""
_EXISTS: Final = "SELECT to_regclass('statewright_schema') IS NOT NULL"
_IS_NEW_SCHEMA: Final = "SELECT to_regnamespace(?) IS NULL"
_LOCK: Final = "SELECT pg_advisory_xact_lock(hashtextextended('statewright schema', 0))"
"""Waits for other migrations in the database. `Session.lock` depends on a table that is created here."""
_READ: Final = "SELECT version, key FROM statewright_schema"


def prepare_schema(session: Session, location: str, schema: str | None, encryptor: Encryptor) -> None:
    """Create the tables of a new schema, or migrate an older schema. The transactions of the session use the schema.

    Raises NewerFormat if a newer version of Statewright has created or migrated the schema, and WrongEncryptionKey if
    `encryptor` has another key than the database.
    """
    session.begin()
    version, key = _read(session)
    session.commit()
    if version < VERSION:
        version, key = _migrate(session, schema, encryptor)
    if version > VERSION:
        raise NewerFormat(location, version, VERSION)
    with report_damage("its key"):
        _check_key(key, location, encryptor)


def has_schema(session: Session) -> bool:
    """Return whether the schema of the session has tables of Statewright."""
    session.begin()
    exists = _exists(session)
    session.commit()
    return exists


def read_version(session: Session) -> int:
    """Return the version of the schema of the session, 0 if it has no tables of Statewright."""
    session.begin()
    version, _ = _read(session)
    session.commit()
    return version


def _exists(session: Session) -> bool:
    return session.execute(_EXISTS).fetchone()[0]


def _read(session: Session) -> tuple[int, bytes]:
    """Return the version of the schema and the encrypted known text. The version of an empty schema is 0."""
    if not _exists(session):
        return 0, b""
    row = session.execute(_READ).fetchone()
    if row is None:
        raise DamagedDatabase("its table statewright_schema is empty, perhaps because a copy is still being restored")
    return row


def _migrate(session: Session, schema: str | None, encryptor: Encryptor) -> tuple[int, bytes]:
    """Apply the missing steps, unless another process has already done so. Return what `_read` returns afterwards."""
    while True:
        session.begin()
        session.execute(_LOCK)
        # `IF NOT EXISTS` would need permission to create schemas even if this one exists.
        if schema is not None and session.execute(_IS_NEW_SCHEMA, (schema,)).fetchone()[0]:
            session.execute(f'CREATE SCHEMA "{schema}"')
        version, key = _read(session)
        if version >= VERSION:
            session.commit()
            return version, key
        STEPS[version](session, encryptor)
        session.send(Statement("UPDATE statewright_schema SET version = ?", (version + 1,)))
        session.commit()


def _create(session: Session, encryptor: Encryptor) -> None:
    """Create all tables and functions."""
    session.execute("CREATE TABLE statewright_schema (version BIGINT NOT NULL, key BYTEA NOT NULL)")
    session.send(Statement("INSERT INTO statewright_schema VALUES (0, ?)", (encryptor.encrypt(_KNOWN_TEXT),)))
    _run_scripts(*_SCRIPTS)(session, encryptor)


def _run_scripts(*names: str) -> Callable[[Session, Encryptor], None]:
    """Return a step that executes the statements of scripts."""

    def step(session: Session, encryptor: Encryptor) -> None:
        for name in names:
            for statement in split_script(_PACKAGE, name):
                session.send(Statement(statement, ()))

    return step


STEPS: Final[tuple[Callable[[Session, Encryptor], None], ...]] = (
    _create,
    _run_scripts("version_2"),  # the table of writers, and what the search by pgvector needs
    _run_scripts("version_3"),  # the function that deletes completed calls
    _run_scripts("claims"),
    _run_scripts("version_5", "claims"),  # claims of held runs, and random ids of writers
    _run_scripts("claims"),  # claims that search once if all due runs can be claimed
    _run_scripts("version_7"),  # sessions of the web page, and the progress of runs
    _run_scripts("version_8"),  # the queues of runs that wait
)
"""The functions that migrate the schema from each version, beginning with 0, to the next version."""
VERSION: Final = len(STEPS)
"""The version of the schema that this version of Statewright uses."""


def _check_key(stored: bytes, location: str, encryptor: Encryptor) -> None:
    if encryptor.encrypts and stored == _KNOWN_TEXT:
        raise WrongEncryptionKey(f"The database {location} is not encrypted, and a key was given. Open it without one.")
    if encryptor.decrypt(stored) != _KNOWN_TEXT:
        raise WrongEncryptionKey(
            f"The key for the database {location} is wrong. Pass the key that it was created with."
        )
