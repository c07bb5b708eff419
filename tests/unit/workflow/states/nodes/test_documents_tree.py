"""`generate_documents_tree`."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from statewright.errors import InvalidConfig, WorkflowError
from statewright.workflow.states.nodes import NodeLimits, NodeResources


@dataclass(frozen=True)
class Folder:
    """A data source."""

    folder: Path
    glob: str = "**"


KIND = "generate_documents_tree"


@pytest.fixture
def paths(tree: Path, run: Callable[..., Any]) -> Callable[..., list[str]]:
    """Return a function that lists the sources of the documents of a config."""
    sources = {"docs": Folder(tree, "*.md"), "code": Folder(tree / "code")}
    resources = NodeResources(state_id="own", datasources=sources)

    def list_sources(**config: Any) -> list[str]:
        return [document["source"] for document in run(KIND, config, None, resources).output["documents_tree"]]

    return list_sources


def test_2_10_data_sources_are_listed_in_the_order_of_the_config(paths: Callable[..., list[str]]) -> None:
    assert paths(datasource_id="docs") == ["docs/a.md", "docs/b.md"]
    assert paths(datasource_ids=["code", "docs", "code"]) == [
        "code/deep/y.py",
        "code/x.py",
        "docs/a.md",
        "docs/b.md",
    ]


def test_2_10_a_pattern_selects_documents(paths: Callable[..., list[str]]) -> None:
    assert paths(datasource_ids=["docs", "code"], documents_filtering_pattern="deep/*") == ["code/deep/y.py"]
    assert paths(datasource_ids=["docs", "code"], documents_filtering_pattern=r"^[ax]\.") == ["docs/a.md", "code/x.py"]


def test_2_10_a_filter_selects_documents(paths: Callable[..., list[str]]) -> None:
    assert paths(datasource_ids=["docs", "code"], documents_filter="*.py\n!deep/") == ["code/x.py"]
    assert paths(datasource_ids=["docs", "code"], documents_filter=["a.md", "x.py"]) == ["docs/a.md", "code/x.py"]


def test_2_10_a_pattern_and_a_filter_exclude_each_other(faults_of: Any) -> None:
    config = {"datasource_id": "d", "documents_filtering_pattern": "*.md", "documents_filter": "*.py"}
    assert faults_of(KIND, config) == [(("config", "documents_filter"), True)]


def test_2_10_content_is_included_on_request(tree: Path, run: Callable[..., Any]) -> None:
    resources = NodeResources(state_id="own", datasources={"docs": Folder(tree, "a.md")})
    plain = run(KIND, {"datasource_id": "docs"}, None, resources).output["documents_tree"]
    full = run(KIND, {"datasource_id": "docs", "include_content": True}, None, resources).output["documents_tree"]
    assert "content" not in plain[0]
    assert full[0]["content"] == "text of a.md"


def test_2_10_the_output_key_names_the_list(tree: Path, run: Callable[..., Any]) -> None:
    resources = NodeResources(state_id="own", datasources={"docs": Folder(tree, "none")})
    assert run(KIND, {"datasource_id": "docs", "output_key": "files"}, None, resources).output == {"files": []}


def test_2_10_unsupported_keys_are_warnings(faults_of: Any) -> None:
    assert faults_of(KIND, {"datasource_id": "d", "max_depth": 2, "include_metadata": True}) == [
        (("config", "max_depth"), False),
        (("config", "include_metadata"), False),
    ]


@pytest.mark.parametrize(
    ("config", "path"),
    [
        ({}, "datasource_ids"),
        ({"datasource_ids": [1]}, "datasource_ids"),
        ({"datasource_id": "d", "include_content": "yes"}, "include_content"),
        ({"datasource_id": "d", "documents_filtering_pattern": "("}, "documents_filtering_pattern"),
        ({"datasource_id": "d", "documents_filter": "x" * 2000}, "documents_filter"),
    ],
)
def test_errors_are_found_before_the_run(config: Any, path: str, faults_of: Any, run: Callable[..., Any]) -> None:
    assert faults_of(KIND, config) == [(("config", path), True)]
    with pytest.raises(WorkflowError, match=path):
        run(KIND, config)


def test_the_error_for_a_missing_data_source_contains_a_snippet(run: Callable[..., Any]) -> None:
    with pytest.raises(InvalidConfig, match=r"\[datasources.docs\]"):
        run(KIND, {"datasource_id": "docs"})


def test_the_limits_apply_to_all_data_sources_together(tree: Path, run: Callable[..., Any]) -> None:
    sources = {"docs": Folder(tree, "*.md"), "code": Folder(tree / "code")}
    resources = NodeResources(state_id="own", datasources=sources, limits=NodeLimits(documents=3))
    with pytest.raises(InvalidConfig, match="more than 3 documents"):
        run(KIND, {"datasource_ids": ["docs", "code"]}, None, resources)
