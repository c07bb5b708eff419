"""`generate_documents_tree`: lists the documents of data sources, for example as items of an iteration."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from statewright.errors import ExpressionError, InvalidConfig
from statewright.workflow.states.handlers import Call, Outcome
from statewright.workflow.states.language.model import CustomNode
from statewright.workflow.states.nodes.config import ConfigFault, ConfigReader
from statewright.workflow.states.nodes.patterns import Matcher, compile_filter, compile_glob, compile_pattern
from statewright.workflow.states.nodes.resources import DataSource, NodeLimits, NodeResources


@dataclass(slots=True)
class DocumentLister:
    """Lists documents for one execution of a state. The limits apply to all data sources together."""

    limits: NodeLimits
    is_included: Matcher
    """Returns whether the path of a document is included."""
    includes_content: bool
    files_seen: int = 0
    documents_listed: int = 0
    bytes_read: int = 0

    def list_documents(self, datasource_id: str, source: DataSource) -> list[dict[str, Any]]:
        """Return the included documents of a data source, sorted by path.

        Raises InvalidConfig if the folder of the data source does not exist, or a limit is exceeded.
        """
        if not source.folder.is_dir():
            raise InvalidConfig(
                f"The folder {str(source.folder)!r} of data source {datasource_id!r} does not exist. Create it, or set "
                f"another folder in statewright.toml."
            )
        matches_glob = compile_glob(source.glob)
        paths = sorted(
            path for path in self._iter_paths(source.folder) if matches_glob(path) and self.is_included(path)
        )
        self.documents_listed += len(paths)
        self._check_limit("documents", self.documents_listed, self.limits.documents)
        return [self._describe_document(datasource_id, source.folder, path) for path in paths]

    def _iter_paths(self, folder: Path) -> Iterator[str]:
        """Yield the paths of all files below a folder, relative to it, with slashes. Skip hidden files and links."""
        for parent, folders, names in os.walk(folder):
            folders[:] = sorted(name for name in folders if not name.startswith("."))
            for name in names:
                path = Path(parent, name)
                if name.startswith(".") or not _is_plain_file(path):
                    continue
                self.files_seen += 1
                self._check_limit("files", self.files_seen, self.limits.files)
                yield path.relative_to(folder).as_posix()

    def _describe_document(self, datasource_id: str, folder: Path, path: str) -> dict[str, Any]:
        document: dict[str, Any] = {
            "datasource_id": datasource_id,
            "file_path": path,
            "file_name": path.rpartition("/")[2],
            "source": f"{datasource_id}/{path}",
        }
        return {**document, **self._read_content(folder / path)} if self.includes_content else document

    def _read_content(self, path: Path) -> dict[str, Any]:
        """Return a map with the `content` of a file, which is None for a binary file.

        If the content is too long, it is truncated, and `is_cut` is True.
        """
        limit = self.limits.document_bytes
        with path.open("rb") as file:
            data = file.read(limit + 1)
        self.bytes_read += min(len(data), limit)
        self._check_limit("bytes of content", self.bytes_read, self.limits.content_bytes)
        content = None if b"\0" in data else data[:limit].decode("utf-8", errors="replace")
        return {"content": content, "is_cut": True} if len(data) > limit else {"content": content}

    def _check_limit(self, unit: str, count: int, limit: int) -> None:
        if count > limit:
            raise InvalidConfig(
                f"The tree of documents would have more than {limit} {unit}. Narrow the glob of the data source or "
                f"documents_filtering_pattern, or raise the limit."
            )


def _is_plain_file(path: Path) -> bool:
    """Return whether a path is a regular file, not a link, and whether the path can be encoded as UTF-8."""
    try:
        str(path).encode()
    except UnicodeEncodeError:
        return False
    return path.is_file() and not path.is_symlink()


# -- the node

OUTPUT_KEY: Final = "documents_tree"
_PATTERN: Final = "documents_filtering_pattern"
_FILTER: Final = "documents_filter"


def _accept_all(path: str) -> bool:
    return True


@dataclass(frozen=True, slots=True)
class DocumentsTreeConfig:
    """Settings of a node."""

    datasource_ids: tuple[str, ...] = ()
    is_included: Matcher = _accept_all
    includes_content: bool = False
    output_key: str = OUTPUT_KEY


class DocumentsTree:
    """Lists the documents of data sources, without a model."""

    def __init__(self, config: DocumentsTreeConfig, resources: NodeResources) -> None:
        self._config = config
        self._resources = resources

    async def perform(self, call: Call) -> Outcome:
        return Outcome({self._config.output_key: await asyncio.to_thread(self._list_documents)})

    def _list_documents(self) -> list[dict[str, Any]]:
        config, find_source = self._config, self._resources.datasource
        lister = DocumentLister(self._resources.limits, config.is_included, config.includes_content)
        return [item for name in config.datasource_ids for item in lister.list_documents(name, find_source(name))]


def read_config(definition: CustomNode) -> tuple[DocumentsTreeConfig, list[ConfigFault]]:
    """Return the config of a node, and the faults in it."""
    reader = ConfigReader(definition.config)
    ids = tuple(dict.fromkeys((*reader.texts("datasource_id"), *reader.texts("datasource_ids"))))
    if not ids and not reader.faults:
        reader.fault("datasource_ids", "There is no data source.", "Name at least one in datasource_ids.")
    config = DocumentsTreeConfig(
        datasource_ids=ids,
        is_included=_read_filters(reader),
        includes_content=reader.flag("include_content"),
        output_key=reader.text("output_key") or OUTPUT_KEY,
    )
    reader.finish()
    return config, reader.faults


def _read_filters(reader: ConfigReader) -> Matcher:
    """Read the pattern or the filter of documents. If neither is set, all documents are included."""
    pattern = reader.text(_PATTERN)
    lines = [line for text in reader.texts(_FILTER) for line in text.splitlines()]
    if pattern and lines:
        reader.fault(_FILTER, f"{_PATTERN} and {_FILTER} cannot be combined.", "Remove one of them.")
        return _accept_all
    try:
        return compile_pattern(pattern) if pattern else compile_filter(lines) if lines else _accept_all
    except ExpressionError as error:
        reader.fault(_PATTERN if pattern else _FILTER, str(error), "Correct the pattern.")
        return _accept_all
