"""Documents of data sources."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from statewright.errors import InvalidConfig
from statewright.workflow.states.nodes.documents_tree import DocumentLister
from statewright.workflow.states.nodes.resources import NodeLimits


def list_documents(folder: Path, glob: str = "**/*", *, content: bool = False, **limits: int) -> list[dict[str, Any]]:
    reader = DocumentLister(NodeLimits(**limits), lambda path: True, content)
    return reader.list_documents("docs", SimpleNamespace(folder=folder, glob=glob))


def paths(documents: list[dict[str, Any]]) -> list[str]:
    return [document["file_path"] for document in documents]


def test_documents_are_sorted_by_path_without_hidden_files(tree: Path) -> None:
    assert paths(list_documents(tree)) == ["a.md", "b.md", "code/deep/y.py", "code/x.py"]


def test_a_document_has_its_source_and_path(tree: Path) -> None:
    assert list_documents(tree, "code/*.py") == [
        {"datasource_id": "docs", "file_path": "code/x.py", "file_name": "x.py", "source": "docs/code/x.py"}
    ]


def test_content_is_text_or_null(tree: Path) -> None:
    (tree / "a.md").write_bytes(b"caf\xe9")
    (tree / "b.md").write_bytes(b"\0\1")
    assert [document["content"] for document in list_documents(tree, "*.md", content=True)] == ["caf\ufffd", None]


def test_long_content_is_truncated(tree: Path) -> None:
    (document,) = list_documents(tree, "a.md", content=True, document_bytes=4)
    assert (document["content"], document["is_cut"]) == ("text", True)


def test_links_are_not_followed(tree: Path, tmp_path_factory: pytest.TempPathFactory) -> None:
    outside = tmp_path_factory.mktemp("outside")
    (outside / "secret.md").write_text("secret", encoding="utf-8")
    (tree / "link.md").symlink_to(outside / "secret.md")
    (tree / "folder").symlink_to(outside)
    assert paths(list_documents(tree, "**/*.md")) == ["a.md", "b.md"]


def test_file_names_that_are_not_valid_text_are_omitted(tree: Path) -> None:
    try:
        Path(bytes(tree).decode(), b"bad\xff.md".decode(errors="surrogateescape")).write_text("x", encoding="utf-8")
    except OSError:
        pytest.skip("the file system takes only names that are text")
    assert paths(list_documents(tree, "*.md")) == ["a.md", "b.md"]


@pytest.mark.parametrize(
    ("limits", "noun"),
    [({"documents": 3}, "documents"), ({"files": 3}, "files"), ({"content_bytes": 20}, "bytes of content")],
)
def test_limits_are_enforced(tree: Path, limits: dict[str, int], noun: str) -> None:
    with pytest.raises(InvalidConfig, match=noun):
        list_documents(tree, content=True, **limits)


def test_a_missing_folder_is_an_error(tree: Path) -> None:
    with pytest.raises(InvalidConfig, match=r"nowhere.* of data source 'docs' does not exist"):
        list_documents(tree / "nowhere")
