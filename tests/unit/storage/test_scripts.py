"""Statements of all dialects, and those of one database."""

from __future__ import annotations

from pathlib import Path

import pytest

from statewright.storage.row_ids import RowIds
from statewright.storage.scripts import SHARED, script, statements

STORAGE = Path(__file__).parents[3] / "src/statewright/storage"
ROW_IDS = RowIds(number_bits=20)
ADAPTERS = {name: f"{SHARED}.{name}" for name in ("postgres", "sqlite")}
SHARED_FILES = sorted(file.stem for file in STORAGE.glob("sql/*.sql"))


@pytest.mark.parametrize("name", SHARED_FILES)
def test_a_group_has_the_same_statements_for_each_database(name: str) -> None:
    """But for those that only one of them needs: Postgres claims and counts runs with statements of its own."""
    groups = {adapter: set(statements(package, name, ROW_IDS)) for adapter, package in ADAPTERS.items()}
    held = {"next_held_workspace", "next_held_key", "next_group_in_workspace", "next_group_with_key"}
    held |= {"held_in_workspace", "held_with_key"}
    assert groups["sqlite"] - groups["postgres"] <= {"values_of_list", *held}
    assert groups["postgres"] - groups["sqlite"] <= {"claim_runs", "next_due", "due_sizes"}


@pytest.mark.parametrize("adapter", ADAPTERS)
@pytest.mark.parametrize("name", SHARED_FILES)
def test_no_statement_is_written_twice(name: str, adapter: str) -> None:
    """A statement of a database replaces the one for all, which would then be out of use."""
    if not (STORAGE / adapter / f"sql/{name}.sql").exists():
        return
    own = {
        line for line in script(ADAPTERS[adapter], name).splitlines() if line.startswith("-- ") and " " not in line[3:]
    }
    shared = set(script(SHARED, name).splitlines())
    assert own
    assert not own & shared


@pytest.mark.parametrize("name", SHARED_FILES)
def test_each_shared_file_begins_with_a_comment_and_is_used(name: str) -> None:
    assert script(SHARED, name).startswith("-- ")
    assert any(f'statements("{name}")' in file.read_text("utf-8") for file in STORAGE.rglob("*.py"))


def test_the_division_of_row_ids_is_filled_in() -> None:
    texts = [
        text
        for package in ADAPTERS.values()
        for name in SHARED_FILES
        for text in statements(package, name, ROW_IDS).values()
    ]
    assert any("<< 20" in text for text in texts)
    assert any(str(2**20 - 1) in text for text in texts)
    assert not any("NUMBER" in text for text in texts)


def test_an_unknown_group_is_an_error() -> None:
    with pytest.raises(FileNotFoundError, match="'absent'"):
        statements(ADAPTERS["sqlite"], "absent", ROW_IDS)
