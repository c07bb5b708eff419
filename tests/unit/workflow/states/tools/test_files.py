"""The tools for files."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.work import spend_at_most

from statewright.errors import ToolError
from statewright.workflow.states.tools.files import MATCH_LIMIT, Files, matches


@pytest.fixture
def files(tmp_path: Path) -> Files:
    (tmp_path / "src/deep").mkdir(parents=True)
    (tmp_path / "a.md").write_text("one\ntwo\n")
    (tmp_path / "src/b.py").write_text("two = 2\n")
    (tmp_path / "src/deep/c.py").write_text("three = 3\n")
    (tmp_path / "image").write_bytes(b"two\0\x89")
    return Files(tmp_path, limit=100)


def test_text_is_read_unchanged(files: Files, tmp_path: Path) -> None:
    (tmp_path / "windows.txt").write_bytes("é\r\n".encode())
    assert files.read_file("windows.txt") == "é\r\n"


def test_files_other_than_text_are_rejected(files: Files, tmp_path: Path) -> None:
    (tmp_path / "latin").write_bytes(b"\xe9")
    for path in ("image", "latin"):
        with pytest.raises(ToolError, match="is not UTF-8 text"):
            files.read_file(path)


def test_sizes_are_limited(files: Files, tmp_path: Path) -> None:
    (tmp_path / "big").write_text("x" * 101)
    with pytest.raises(ToolError, match="more than 100 bytes"):
        files.read_file("big")
    with pytest.raises(ToolError, match="has 101 bytes"):
        files.write_file("new", "x" * 101)
    assert not (tmp_path / "new").exists()


def test_text_is_written(files: Files, tmp_path: Path) -> None:
    assert files.write_file("new/d.md", "é") == "new/d.md now has 2 bytes."
    assert (tmp_path / "new/d.md").read_bytes() == "é".encode()


def test_text_that_occurs_once_is_replaced(files: Files, tmp_path: Path) -> None:
    files.edit_file("a.md", "two", "2")
    assert (tmp_path / "a.md").read_text() == "one\n2\n"
    for old, count in (("nowhere", 0), ("\n", 2), ("", 0)):
        with pytest.raises(ToolError, match=f"occurs {count} times"):
            files.edit_file("a.md", old, "x")


def test_files_are_listed(files: Files) -> None:
    assert files.list_files() == ["a.md", "image", "src/b.py", "src/deep/c.py"]
    assert files.list_files("src", "*.py") == ["src/b.py", "src/deep/c.py"]
    assert files.list_files(pattern="src/*.py") == ["src/b.py"]


def test_matching_lines_are_found(files: Files, tmp_path: Path) -> None:
    assert files.search_files("two") == [
        {"path": "a.md", "line": 2, "text": "two"},
        {"path": "src/b.py", "line": 1, "text": "two = 2"},
    ]
    assert files.search_files("two", pattern="*.py") == [{"path": "src/b.py", "line": 1, "text": "two = 2"}]
    with pytest.raises(ToolError, match="text to find is empty"):
        files.search_files("")
    for number in range(10):
        (tmp_path / f"{number}.txt").write_text("two\n" * 25)
    assert len(files.search_files("two")) == MATCH_LIMIT


@pytest.mark.parametrize(
    ("pattern", "expected"),
    [
        ("**", True), ("*.py", True), ("c.py", True), ("src/**", True), ("src/**/c.py", True), ("**/deep/*", True),
        ("./src/deep/*.py", True), ("src/*/c.p?", True), ("src/**/**/c.py", True), ("[abc].py", True),
        ("src/*.py", False), ("*.md", False), ("deep/*.py", False), ("src", False), ("src/deep/c.py/**/x", False),
    ],
)  # fmt: skip
def test_patterns_match_paths(pattern: str, expected: bool) -> None:
    assert matches("src/deep/c.py", pattern) is expected


def test_4_1_10_hostile_patterns_match_in_linear_time() -> None:
    with spend_at_most():
        assert not matches("/".join(["a" * 100] * 50), "/".join(["**", "*a" * 60 + "b"] * 50))
