"""Locating a database, and finding threads and checkpoints in it."""

from __future__ import annotations

import sqlite3
from pathlib import Path
from typing import Any

import pytest

from statewright.cli.console.failure import UsageError
from statewright.cli.console.options import DEFAULT_DATABASE, DatabaseOptions
from statewright.cli.db.database import (
    check_is_database,
    check_thread,
    find_checkpoint,
    locate_database,
    open_or_create_saver,
    read_key,
    require_database,
)
from statewright.errors import CheckpointNotFound
from statewright.storage.sqlite import SqliteSaver


def test_the_option_overrides_the_environment_and_the_default(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert locate_database(None) == DEFAULT_DATABASE
    monkeypatch.setenv("STATEWRIGHT_DATABASE", "sqlite:///env.db")
    assert locate_database(None) == Path("env.db")
    assert locate_database("option.db") == Path("option.db")
    assert DatabaseOptions(database="option.db").args == ("--database", "option.db")
    assert locate_database("memory:") is None
    monkeypatch.setenv("STATEWRIGHT_DATABASE", "memory:")
    assert locate_database(None) is None
    with pytest.raises(UsageError, match="memory:"):
        require_database(None)
    with pytest.raises(UsageError, match="memory:"):
        locate_database(":memory:")


def test_the_error_for_a_missing_database_says_how_to_create_one(folder: Path) -> None:
    with pytest.raises(UsageError, match=r"statewright run FILE.py.*STATEWRIGHT_DATABASE"):
        require_database(None)


def test_foreign_files_are_refused_and_not_changed(folder: Path) -> None:
    connection = sqlite3.connect("theirs.db")
    connection.execute("CREATE TABLE theirs (x)")
    connection.close()
    before = Path("theirs.db").read_bytes()
    for attempt in (check_is_database, lambda path: open_or_create_saver(path, None)):
        with pytest.raises(UsageError, match="not a Statewright database"):
            attempt(Path("theirs.db"))
    assert Path("theirs.db").read_bytes() == before
    with pytest.raises(UsageError, match="is not a file"):
        check_is_database(folder)


def test_the_default_folder_is_ignored_by_version_control(folder: Path) -> None:
    open_or_create_saver(DEFAULT_DATABASE, None).close()
    assert (folder / ".statewright/.gitignore").read_text(encoding="utf-8") == "*\n"
    open_or_create_saver(Path("deep/er/runs.db"), None).close()
    assert [path.name for path in (folder / "deep/er").iterdir()] == ["runs.db"]


def test_a_folder_that_cannot_be_created_is_reported(folder: Path) -> None:
    Path("file").touch()
    with pytest.raises(UsageError, match="cannot be created"):
        open_or_create_saver(Path("file/runs.db"), None)


@pytest.mark.parametrize("size", [16, 24, 32])
def test_keys_are_bytes_or_hexadecimal_digits(folder: Path, size: int) -> None:
    key = bytes(range(100, 100 + size))
    for content in (key, key.hex().encode(), key.hex().encode() + b"\n", key + b"\n"):
        Path("key").write_bytes(content)
        assert read_key(Path("key")) == key
    assert read_key(None) is None


def test_the_message_about_an_invalid_key_does_not_contain_it(folder: Path) -> None:
    Path("key").write_text("my secret", encoding="utf-8")
    with pytest.raises(UsageError, match="contains 9 bytes") as raised:
        read_key(Path("key"))
    assert "secret" not in str(raised.value)
    with pytest.raises(UsageError, match="cannot be read"):
        read_key(Path("none"))


def test_finding_threads_and_checkpoints(statewright: Any, flow: Path) -> None:
    statewright("run", "flow.py:asking", "--thread", "orders", "-i", "n=1")
    with SqliteSaver(DEFAULT_DATABASE) as saver:
        check_thread(saver, "orders")
        head = find_checkpoint(saver, "orders", "main")
        assert find_checkpoint(saver, "orders", "main", checkpoint=head.id) == head
        assert find_checkpoint(saver, "orders", "main", step=0) == head
        wrong: list[tuple[dict[str, Any], str]] = [
            ({"thread_id": "order", "branch": "main"}, "Did you mean 'orders'"),
            ({"thread_id": "orders", "branch": "mian"}, "Did you mean 'main'"),
            ({"thread_id": "orders", "branch": "main", "step": 7}, "no step 7. Its steps are 0 to 0"),
            ({"thread_id": "orders", "branch": "main", "checkpoint": "0" * 32}, "no checkpoint '0000"),
        ]
        for arguments, message in wrong:
            with pytest.raises(CheckpointNotFound, match=message):
                find_checkpoint(saver, **arguments)
        with pytest.raises(UsageError, match="--checkpoint and --step"):
            find_checkpoint(saver, "orders", "main", checkpoint=head.id, step=0)
