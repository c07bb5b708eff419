"""Locations of databases: paths of SQLite files, and URLs.

The URL of a Postgres database is that of libpq, with three parameters more: `schema`, the schema of the tables,
`prepare=false`, for poolers without prepared statements, and `replica`, the host and port of a replica. They are taken
out before libpq sees the URL. An error never quotes the URL, unless it is known where its password ends.
"""

from __future__ import annotations

import os
import re
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, TypeAlias
from urllib.parse import quote, unquote

from statewright.errors import InvalidConfig
from statewright.redaction import Redactor, is_secret_name

_SQLITE: Final = "sqlite:///"
_POSTGRES: Final = ("postgresql://", "postgres://")
_URL: Final = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*://|file:|sqlite:")
_POSTGRES_ADDRESS: Final = re.compile(
    r"postgres[a-z0-9+]*:|(?=\w+\s*=).*\b(?:host|hostaddr|dbname|user|password)\s*=", re.IGNORECASE | re.DOTALL
)
"""Matches text that was meant as the address of a Postgres server, not as a path: like a URL, or a libpq connection
string."""
_BAD_PERCENT: Final = re.compile(r"%(?![0-9A-Fa-f]{2})")
_OWN: Final = ("schema", "prepare", "replica")
_ADDRESS: Final = re.compile(r"(?:[A-Za-z0-9._-]+|\[[0-9A-Fa-f:.]+\])(?::[0-9]+)?")
_FLAGS: Final = {"true": True, "false": False}


@dataclass(frozen=True, slots=True)
class PostgresUrl:
    """The location of a Postgres database. As text it is a URL without a password, for messages and commands."""

    url: str = field(repr=False)
    """The URL for libpq, which may contain a password."""
    schema: str | None
    """The schema of the tables; None for the default of the user."""
    prepare: bool
    """False if no prepared statements may be used."""
    replica_url: str | None = field(repr=False)
    """The URL of the replica for libpq; None if there is none."""
    public_url: str = field(compare=False)
    has_password: bool = field(compare=False)

    def __str__(self) -> str:
        return self.public_url


Location: TypeAlias = Path | PostgresUrl


def parse_location(location: str | os.PathLike[str]) -> Location:
    """Return the path of a SQLite file, or the URL of a Postgres database.

    Raises InvalidConfig for a location that is neither: a URL with quotes around it must not become the name of a file,
    which would then contain its password.
    """
    if isinstance(location, str) and is_postgres_url(location):
        return parse_postgres_url(location)
    return path_of(location)


# -- SQLite


def path_of(location: str | os.PathLike[str]) -> Path:
    """Return the path for a path or a URL such as `sqlite:///runs.db`; `~` is the home of the user.

    Raises InvalidConfig for a location that is not a file.
    """
    text = os.fspath(location)
    bare = text.strip(" \t\r\n'\"")
    if _POSTGRES_ADDRESS.match(bare):
        raise InvalidConfig(_POSTGRES_REFUSAL if is_postgres_url(text) else _MISWRITTEN_REFUSAL)
    if text.startswith(_SQLITE):
        text = text.removeprefix(_SQLITE)
    elif isinstance(location, str) and _URL.match(text):
        raise InvalidConfig(_refusal(text))
    elif isinstance(location, str) and "://" in text:  # not quoted, because it is not known where its password is
        raise InvalidConfig(
            "The location of the database contains '://', but does not begin with 'sqlite:///' or 'postgresql://'. "
            "Write the URL without quotes or spaces around it, or the path of a file."
        )
    if text in ("", ":memory:"):
        raise InvalidConfig("A SQLite database needs a file. For threads in memory use InMemorySaver.")
    try:
        return Path(text).expanduser()
    except RuntimeError as error:
        raise InvalidConfig(f"The path {text!r} cannot be expanded: {error}. Write the path in full.") from error


_POSTGRES_REFUSAL: Final = (
    "The URL of a Postgres database does not name a SQLite file. Give a path such as 'runs.db', or "
    "'sqlite:///runs.db'; or use PostgresDatabase and its views, or `open_database`."
)
_MISWRITTEN_REFUSAL: Final = (
    "The location of the database looks like an address of a Postgres database, but is not a valid URL. Write one such "
    "as postgresql://user@host/name, in lower case, with two slashes and without quotes or spaces around it. For "
    "a SQLite file, give a path such as 'runs.db', or 'sqlite:///runs.db'."
)


def _refusal(url: str) -> str:
    scheme = url.partition(":")[0]
    if scheme.lower() in ("sqlite", "file"):
        return (
            f"The URL {Redactor().text(url)!r} is not valid here. Write a path such as 'runs.db', or "
            f"'sqlite:///runs.db', where the path begins after three slashes, an absolute one with a fourth."
        )
    return (
        f"There is no storage for {scheme!r} URLs. Give a path such as 'runs.db', or a URL such as "
        f"'sqlite:///runs.db' or 'postgresql://user@host/name'."
    )


# -- Postgres


def is_postgres_url(location: str) -> bool:
    """Return whether a location is the URL of a Postgres database."""
    return location.startswith(_POSTGRES)


def parse_postgres_url(url: str) -> PostgresUrl:
    """Return the parts of the URL of a Postgres database.

    Raises InvalidConfig if it is not clear where the password ends, and for a wrong `schema`, `prepare` or `replica`.
    """
    scheme, _, rest = url.partition("://")
    before_path = rest.partition("/")[0]
    # As in libpq, the user and the password end at the first "@" before the path.
    user, at, _ = before_path.partition("@") if "@" in before_path else ("", "", "")
    address, question, query = rest[len(user) + len(at) :].partition("?")
    if "@" in address:
        raise InvalidConfig(
            "The URL of the database has an '@' after its host begins. In a user name, a password or the name of a "
            "database, write '@' as %40 and '/' as %2F."
        )
    if _BAD_PERCENT.search(url):
        raise InvalidConfig(
            "The URL of the database has a '%' that two hexadecimal digits do not follow. In a user name, a password "
            "or the name of a database, write '%' as %25."
        )
    parameters = [part.partition("=")[::2] for part in query.split("&")] if question else []
    own = {unquote(name): unquote(value) for name, value in parameters if unquote(name) in _OWN}
    others = [(name, value) for name, value in parameters if unquote(name) not in own]
    public = [(name, value) for name, value in others if not is_secret_name(unquote(name))]
    public_options = [(name, quote(value)) for name, value in own.items()]
    name = user.partition(":")[0]
    public_url = f"{scheme}://{name}{'@' if name else ''}{address}{_query([*public, *public_options])}"
    replica = _checked_replica(own.get("replica"))
    path = address[len(address.partition("/")[0]) :]
    elsewhere = [(name, value) for name, value in others if unquote(name) not in ("host", "hostaddr", "port")]
    return PostgresUrl(
        url=f"{scheme}://{user}{at}{address}{_query(others)}",
        replica_url=f"{scheme}://{user}{at}{replica}{path}{_query(elsewhere)}" if replica is not None else None,
        schema=checked_schema(own.get("schema")),
        prepare=_checked_flag("prepare", own.get("prepare", "true")),
        public_url=public_url,
        has_password=":" in user or public != others,
    )


def _query(parameters: list[tuple[str, str]]) -> str:
    return "?" + "&".join(f"{name}={value}" for name, value in parameters) if parameters else ""


def checked_schema(schema: str | None) -> str | None:
    """Return the name of a schema. Raises InvalidConfig for one that would need quoting."""
    if schema is not None and not re.fullmatch(r"[a-z_][a-z0-9_]{0,62}", schema):
        raise InvalidConfig(f"schema={schema!r} is not valid: use up to 63 lowercase letters, digits and underscores.")
    return schema


def _checked_replica(address: str | None) -> str | None:
    """Return the host and port of a replica, whose other parameters are those of the primary."""
    if address is not None and not _ADDRESS.fullmatch(address):  # not quoted, because it may contain a password
        raise InvalidConfig(
            "The parameter replica of the URL of the database is not a host, or a host and a port, such as "
            "replica.example.com:5432. For anything else, pass replica_url= to PostgresDatabase."
        )
    return address


def _checked_flag(name: str, value: str) -> bool:
    if value not in _FLAGS:
        raise InvalidConfig(f"The parameter {name} of the URL of the database is {value!r}. Use true or false.")
    return _FLAGS[value]
