"""Every command that takes a database takes the URL of a Postgres database, and never shows its password."""

from __future__ import annotations

import json
import shlex
import subprocess
import sys
from pathlib import Path

import pytest
from tests.postgres_server import execute, new_schema_url, shared_server, shared_url
from tests.unit.cli.conftest import Command, CommandResult

from statewright.cli.serve.server import ServerLocation, open_service
from statewright.project import Project
from statewright.service import Catalog, ServiceSettings
from statewright.storage.locations import parse_postgres_url
from statewright.storage.open import has_tables, open_database, schema_versions
from statewright.storage.postgres import migrate

PASSWORD = "geheim"
ANSWER = ("resume", "t", "flow.py:asking", "--answer", "7")


def with_password(url: str) -> str:
    """Return a URL with a password, which the server of the tests does not check."""
    return url.replace("postgres@", f"postgres:{PASSWORD}@", 1)


@pytest.fixture
def url() -> str:
    return with_password(new_schema_url("of_commands"))


@pytest.fixture
def call(statewright: Command, flow: Path, url: str, monkeypatch: pytest.MonkeyPatch) -> Command:
    """Return a function that calls a command on the server, and checks that it does not print the password."""
    monkeypatch.setenv("STATEWRIGHT_DATABASE", url)

    def checked_call(*args: object) -> CommandResult:
        result = statewright(*args)
        assert PASSWORD not in result.out + result.err
        return result

    return checked_call


@pytest.fixture
def thread(call: Command, url: str) -> str:
    """The id of a thread on the server that waits for an answer."""
    assert call("run", "flow.py:asking", "--thread", "t", "-i", "n=1", "--database", url).code == 3
    return "t"


def names(call: Command) -> list[str]:
    return sorted(entry["thread"] for entry in json.loads(call("threads", "ls", "--json").out))


# -- commands that work on both


def test_a_run_is_saved_inspected_and_resumed(call: Command, thread: str) -> None:
    assert "waiting" in call("threads", "ls").out
    assert "how many?" in call("threads", "show", thread).out
    resumed = call(*ANSWER, "--json")
    assert (resumed.code, json.loads(resumed.out)) == (0, {"n": 7})
    history = json.loads(call("threads", "history", thread, "--json").out)
    assert [entry["step"] for entry in history] == [1, 0]
    assert "+" in call("threads", "diff", thread, history[1]["checkpoint"], history[0]["checkpoint"]).out


def test_a_suggested_command_names_the_database_without_its_password(
    call: Command, url: str, thread: str, statewright: Command
) -> None:
    shown = str(parse_postgres_url(url))
    waiting = call("run", "flow.py:asking", "--thread", "u", "-i", "n=1", "--database", url)
    assert f"--database '{shown}'" in waiting.out + waiting.err
    assert statewright(*ANSWER, "--database", shown).code == 0


def test_threads_are_forked_copied_pruned_released_and_deleted(call: Command, thread: str) -> None:
    assert call(*ANSWER).code == 0
    assert call("threads", "fork", thread, "--branch", "other", "--step", "0").code == 0
    assert call("threads", "copy", thread, "u").code == 0
    assert call("threads", "release", thread).code == 0
    assert "Deleted" in call("threads", "prune", "--keep", "1").out
    assert names(call) == ["t", "u"]
    assert call("threads", "rm", "u").code == 0
    assert names(call) == ["t"]


def test_a_thread_moves_between_a_file_and_a_server(call: Command, thread: str, url: str) -> None:
    assert call("threads", "export", thread, "t.thread").code == 0
    assert call("threads", "import", "t.thread", "--as", "u", "--database", "runs.db").code == 0
    assert call("resume", "u", "flow.py:asking", "--answer", "7", "--database", "runs.db").code == 0
    assert call("threads", "export", "u", "u.thread", "--database", "runs.db").code == 0
    assert call("threads", "import", "u.thread").code == 0
    assert names(call) == ["t", "u"]
    assert json.loads(call("threads", "show", "u", "--json").out)["values"] == {"n": 7}
    (before,) = json.loads(call("threads", "ls", "--json", "--database", "runs.db").out)
    after = {entry["thread"]: entry for entry in json.loads(call("threads", "ls", "--json").out)}["u"]
    assert after["changed_at"] == before["changed_at"]


def test_unfinished_threads_are_checked_against_a_graph(call: Command, thread: str, url: str) -> None:
    assert "1 can continue, 0 cannot" in call("check", "flow.py:asking", "--against", url).out


def test_keys_and_workspaces_are_managed(call: Command) -> None:
    assert call("workspaces", "create", "acme").code == 0
    assert call("keys", "create", "me", "--workspace", "acme").out.startswith("stw_")
    assert call("keys", "create", "other", "--workspace", "acme").code == 0
    key, _ = json.loads(call("keys", "ls", "--workspace", "acme", "--json").out)
    assert call("keys", "revoke", key["id"], "--workspace", "acme").code == 0
    assert "acme" in call("workspaces", "ls").out
    assert call("workspaces", "spending", "--json").code == 0
    refused = call("threads", "ls", "--workspace", "acne")
    assert (refused.code, "acme" in refused.err) == (2, True)


def test_the_database_of_a_project_may_be_a_server(
    call: Command, url: str, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("STATEWRIGHT_DATABASE")
    (folder / "statewright.toml").write_text(f'[serve]\ndatabase = "{url}"\n', encoding="utf-8")
    assert call("keys", "create", "me").code == 0
    assert "me" in call("keys", "ls", "--database", url).out


@pytest.mark.parametrize(("parameter", "has_bell"), [("", True), ("&prepare=false", False)])
def test_a_service_has_the_bell_of_its_server_unless_there_is_a_pooler(
    folder: Path, url: str, parameter: str, has_bell: bool
) -> None:
    location = ServerLocation(host="127.0.0.1", port=0, database=parse_postgres_url(url + parameter))
    with open_service(Project(folder), Catalog(), location, ServiceSettings()) as service:
        assert (service.context.bell is not None) == has_bell


def test_the_server_is_checked(call: Command, thread: str, url: str) -> None:
    checked = call("db", "check", "--full")
    assert (checked.code, checked.out) == (0, f"ok: {parse_postgres_url(url)}, 1 thread, 1 checkpoint read\n")
    schema = parse_postgres_url(url).schema
    execute(shared_url(), f"UPDATE {schema}.records SET changes = '\\x93'")
    damaged = call("db", "check")
    assert (damaged.code, "thread 't', branch 'main'" in damaged.err) == (1, True)
    assert "pg_restore" in damaged.err


def test_a_schema_is_created_checked_and_migrated(call: Command, url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    shown = parse_postgres_url(url)
    missing = call("db", "migrate", "--check")
    assert (missing.code, "no tables of Statewright" in missing.err, has_tables(shown)) == (1, True, False)
    with monkeypatch.context() as earlier:
        earlier.setattr(migrate, "VERSION", 1)
        assert call("db", "migrate").out == f"Created the tables of {shown} (format 1).\n"
    old = call("db", "migrate", "--check")
    assert (old.code, f"has format 1, and this version of Statewright uses format {migrate.VERSION}" in old.err) == (
        1,
        True,
    )
    assert schema_versions(shown) == (1, migrate.VERSION)
    assert call("db", "migrate").out == f"Migrated {shown} from format 1 to format {migrate.VERSION}.\n"
    for option in ((), ("--check",)):
        assert call("db", "migrate", *option).out == f"{shown} is up to date (format {migrate.VERSION}).\n"
    execute(shared_url(), f"UPDATE {shown.schema}.statewright_schema SET version = 99")
    newer = call("db", "migrate", "--check")
    assert (newer.code, "SW-newer-format" in newer.err) == (1, True)


def test_an_encrypted_server_needs_the_key(call: Command, folder: Path) -> None:
    (folder / "key").write_bytes(bytes(32))
    (folder / "other").write_bytes(b"k" * 32)
    run = ("run", "flow.py:graph", "--thread", "t", "-i", "n=1")
    assert call(*run, "--key-file", "key").code == 0
    for options in ((), ("--key-file", "other")):
        refused = call("threads", "ls", *options)
        assert (refused.code, refused.err.count("\n"), "SW-wrong-encryption-key" in refused.err) == (2, 1, True)


# -- commands for files only


@pytest.mark.parametrize(
    ("command", "advice"),
    [
        (("db", "backup", "copy.db"), "pg_dump"),
        (("db", "restore", "flow.db"), "pg_restore"),
        (("db", "vacuum"), "autovacuum"),
    ],
)
def test_a_command_for_files_says_what_to_do_on_a_server(
    call: Command, folder: Path, thread: str, command: tuple[str, ...], advice: str
) -> None:
    open_database(folder / "flow.db").close()
    refused = call(*command)
    assert (refused.code, advice in refused.err, refused.err.count("\n")) == (2, True, 1)
    assert not (folder / "copy.db").exists()


# -- errors


@pytest.mark.parametrize(
    "command",
    [
        ("threads", "ls"),
        ("db", "check"),
        ("keys", "ls"),
        ("workers", "ls"),
        ("resume", "t", "flow.py:asking"),
        ("db", "migrate", "--check"),
    ],
)
def test_a_schema_without_tables_is_refused_and_not_filled(call: Command, url: str, command: tuple[str, ...]) -> None:
    refused = call(*command, "--database", url)
    assert refused.code == 1
    assert "has no tables of Statewright in its schema 'of_commands'. Create them with: " in refused.err
    assert f"statewright db migrate --database {shlex.quote(str(parse_postgres_url(url)))}\n" in refused.err
    assert not has_tables(parse_postgres_url(url))


@pytest.mark.parametrize(
    ("location", "code", "message"),
    [
        ("postgresql://anna:geheim@/db?host=/nowhere", 1, "No such file"),
        ("postgresql://anna:geheim@127.0.0.1:1/db", 1, "Connection refused"),
        ("postgresql://postgres:geheim@/nodb?host={folder}", 1, 'database "nodb" does not exist'),
        ("postgresql://nobody:geheim@/postgres?host={folder}", 1, 'role "nobody" does not exist'),
        ("postgresql://anna:ge/heim@host/db", 2, "write '@' as %40 and '/' as %2F"),
        ("postgresql://anna:geheim@host/db?schema=A", 2, "lowercase"),
        ("postgresql://anna:geheim@host/db?nonsense=1", 2, "nonsense"),
        ("postgres+psycopg://anna:geheim@host/db", 2, "postgresql://user@host/name"),
    ],
)
@pytest.mark.parametrize(
    "command", [("threads", "ls"), ("run", "flow.py:graph", "-i", "n=1"), ("keys", "create", "me")]
)
def test_a_server_that_cannot_be_used_is_reported_on_one_line(
    call: Command, location: str, code: int, message: str, command: tuple[str, ...]
) -> None:
    refused = call(*command, "--database", location.format(folder=shared_server().folder))
    assert (refused.code, refused.err.count("\n"), refused.out) == (code, 1, "")
    assert message in refused.err
    assert "heim" not in refused.err


@pytest.mark.parametrize("user", ["postgres", "nobody"])
def test_an_error_of_a_connection_names_the_user_and_a_read_speaks_of_no_write(call: Command, user: str) -> None:
    location = f"postgresql://{user}:geheim@/nodb?host={shared_server().folder}"
    refused = call("workers", "ls", "--database", location)
    assert (refused.code, f"The database postgresql://{user}@" in refused.err) == (1, True)
    assert "geheim" not in refused.err
    assert "Nothing was written" not in refused.err


def test_the_schema_of_a_newer_version_is_reported(call: Command, thread: str, url: str) -> None:
    execute(shared_url(), f"UPDATE {parse_postgres_url(url).schema}.statewright_schema SET version = 99")
    refused = call("threads", "ls")
    assert (refused.code, refused.err.count("\n"), "SW-newer-format" in refused.err) == (1, 1, True)


def test_a_missing_library_is_reported_with_the_extra_to_install(folder: Path) -> None:
    code = "import sys; sys.modules['psycopg'] = None; from statewright.cli.main import main; main()"
    command = [sys.executable, "-c", code, "threads", "ls", "--database", "postgresql://anna:geheim@host/db"]
    ended = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (ended.returncode, ended.stderr.count("\n")) == (2, 1)
    assert "pip install 'statewright[postgres]'" in ended.stderr
    assert PASSWORD not in ended.stderr
