"""The root folder of tools, and protection of files outside it."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from statewright.errors import ToolError
from statewright.workflow.states.tools.root import Root, is_protected


@pytest.fixture
def root(tmp_path: Path) -> Root:
    (tmp_path / "secret.txt").write_text("outside")
    (tmp_path / "in/deep").mkdir(parents=True)
    (tmp_path / "in/a.txt").write_text("inside")
    return Root(tmp_path / "in")


def read(root: Root, path: str) -> bytes:
    with root.open_to_read(path) as file:
        return file.read()


@pytest.mark.parametrize("path", ["a.txt", "./a.txt", ".//a.txt"])
def test_paths_inside_the_root_can_be_read(root: Root, path: str) -> None:
    assert read(root, path) == b"inside"


@pytest.mark.parametrize(
    "path",
    [
        "",
        "..",
        "../secret.txt",
        "deep/../../secret.txt",
        "deep/../a.txt",
        "/etc/passwd",
        "C:\\x",
        "C:x",
        "a\0b",
        "..\\x",
    ],
)
def test_paths_outside_the_root_are_rejected(root: Root, path: str) -> None:
    for open_file in (root.open_to_read, root.open_to_write):
        with pytest.raises(ToolError, match="is not a path in the folder of the tools"):
            open_file(path)


def test_links_to_the_outside_are_rejected(root: Root, tmp_path: Path) -> None:
    (tmp_path / "in/out.txt").symlink_to(tmp_path / "secret.txt")
    (tmp_path / "in/up").symlink_to(tmp_path)
    (tmp_path / "in/dangling").symlink_to(tmp_path / "new.txt")
    (tmp_path / "in/round").symlink_to("round")
    for path in ("out.txt", "up/secret.txt", "dangling", "round"):
        for open_file in (root.open_to_read, root.open_to_write):
            with pytest.raises(ToolError):
                open_file(path)
    assert (tmp_path / "secret.txt").read_text() == "outside"
    assert not (tmp_path / "new.txt").exists()


def test_links_inside_the_root_are_followed(root: Root, tmp_path: Path) -> None:
    (tmp_path / "in/deep/link.txt").symlink_to("../a.txt")
    assert read(root, "deep/link.txt") == b"inside"


def test_a_link_that_appears_after_the_check_is_not_followed(root: Root, tmp_path: Path) -> None:
    resolve = root.resolve
    (tmp_path / "in/deep/b.txt").write_text("b")

    def resolve_and_swap(path: str):  # pyright: ignore
        resolved = resolve(path)
        (tmp_path / "in/deep").rename(tmp_path / "in/moved")
        (tmp_path / "in/deep").symlink_to(tmp_path)
        return resolved

    root.resolve = resolve_and_swap  # pyright: ignore
    with pytest.raises(ToolError, match="lies below a file"):
        root.open_to_read("deep/secret.txt")


@pytest.mark.parametrize("path", [".git/config", ".GIT/hooks/x", ".env", "deep/.env.local", "statewright.toml"])
def test_4_1_11_files_with_secrets_or_code_that_runs_are_protected(root: Root, path: str) -> None:
    for open_file in (root.open_to_read, root.open_to_write):
        with pytest.raises(ToolError, match="is protected"):
            open_file(path)


def test_a_link_to_a_protected_file_is_protected(root: Root, tmp_path: Path) -> None:
    (tmp_path / "in/.env").write_text("KEY=1")
    (tmp_path / "in/open.txt").symlink_to(".env")
    with pytest.raises(ToolError, match="is protected"):
        root.open_to_read("open.txt")
    assert not is_protected(".envrc")
    assert not is_protected(".github")


def test_paths_other_than_files_are_rejected(root: Root, tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "in/pipe")
    messages = {
        ".": "is a folder",
        "deep": "is a folder|not a regular file",
        "none.txt": "File 'none.txt' does not exist",
        "pipe": "not a regular file",
    }
    for path, sentence in messages.items():
        with pytest.raises(ToolError, match=sentence):
            root.open_to_read(path)
    with pytest.raises(ToolError, match="lies below a file"):
        root.open_to_read("a.txt/b.txt")
    with pytest.raises(ToolError):
        root.open_to_write("pipe")


def test_writing_creates_folders_and_truncates_files(root: Root, tmp_path: Path) -> None:
    with root.open_to_write("new/deeper/b.txt") as file:
        file.write(b"long content")
    with root.open_to_write("new/deeper/b.txt") as file:
        file.write(b"short")
    assert (tmp_path / "in/new/deeper/b.txt").read_text() == "short"


def test_walk_is_sorted_and_omits_links_and_protected_files(root: Root, tmp_path: Path) -> None:
    for path in ("b.txt", "deep/z.txt", ".git/config", ".env"):
        (tmp_path / "in" / path).parent.mkdir(exist_ok=True)
        (tmp_path / "in" / path).write_text("x")
    (tmp_path / "in/up").symlink_to(tmp_path)
    (tmp_path / "in/link.txt").symlink_to("a.txt")
    assert list(root.walk(".")) == ["a.txt", "b.txt", "deep/z.txt"]
    assert list(root.walk("deep")) == ["deep/z.txt"]
    for path in ("none", "a.txt"):
        with pytest.raises(ToolError, match=f"Folder '{path}' does not exist"):
            list(root.walk(path))
