"""Documents of data sources."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from statewright.errors import InvalidConfig
from statewright.workflow.states.nodes.documents_tree import DocumentLister
from statewright.workflow.states.nodes.resources import NodeLimits


def listed(folder: Path, glob: str = "**/*", *, content: bool = False, **limits: int) -> list[dict[str, Any]]:
    reader = DocumentLister(NodeLimits(**limits), lambda path: True, content)
    return reader.list_documents("docs", SimpleNamespace(folder=folder, glob=glob))


def paths(documents: list[dict[str, Any]]) -> list[str]:
    return [one["file_path"] for one in documents]


def test_documents_come_in_the_order_of_their_paths_without_what_is_hidden(tree: Path) -> None:
    assert paths(listed(tree)) == ["a.md", "b.md", "code/deep/y.py", "code/x.py"]


def test_a_document_says_where_it_is(tree: Path) -> None:
    assert listed(tree, "code/*.py") == [
        {"datasource_id": "docs", "file_path": "code/x.py", "file_name": "x.py", "source": "docs/code/x.py"}
    ]


def test_content_is_text_or_null(tree: Path) -> None:
    (tree / "a.md").write_bytes(b"caf\xe9")
    (tree / "b.md").write_bytes(b"\0\1")
    assert [one["content"] for one in listed(tree, "*.md", content=True)] == ["caf\ufffd", None]


def test_long_content_is_cut(tree: Path) -> None:
    (found,) = listed(tree, "a.md", content=True, document_bytes=4)
    assert (found["content"], found["is_cut"]) == ("text", True)


def test_links_are_not_followed(tree: Path, tmp_path_factory: pytest.TempPathFactory) -> None:
    outside = tmp_path_factory.mktemp("outside")
    (outside / "secret.md").write_text("secret", encoding="utf-8")
    (tree / "link.md").symlink_to(outside / "secret.md")
    (tree / "folder").symlink_to(outside)
    assert paths(listed(tree, "**/*.md")) == ["a.md", "b.md"]


def test_a_name_that_is_no_text_is_left_out(tree: Path) -> None:
    try:
        Path(bytes(tree).decode(), b"bad\xff.md".decode(errors="surrogateescape")).write_text("x", encoding="utf-8")
    except OSError:
        pytest.skip("the file system takes only names that are text")
    assert paths(listed(tree, "*.md")) == ["a.md", "b.md"]


@pytest.mark.parametrize(
    ("limits", "what"),
    [({"documents": 3}, "documents"), ({"files": 3}, "files"), ({"content_bytes": 20}, "bytes of content")],
)
def test_limits_are_kept(tree: Path, limits: dict[str, int], what: str) -> None:
    with pytest.raises(InvalidConfig, match=what):
        listed(tree, content=True, **limits)


def test_a_folder_that_is_not_there_is_named(tree: Path) -> None:
    with pytest.raises(InvalidConfig, match=r"nowhere.* of data source 'docs' does not exist"):
        listed(tree / "nowhere")
