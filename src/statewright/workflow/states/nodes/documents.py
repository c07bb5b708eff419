"""Documents of data sources: files below a folder, in an order that does not change."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from statewright.errors import InvalidConfig
from statewright.workflow.states.nodes.patterns import Matcher, glob_matcher
from statewright.workflow.states.nodes.resources import DataSource, NodeLimits


@dataclass(slots=True)
class DocumentReader:
    """Lists documents for one state, and counts what it has read against the limits."""

    limits: NodeLimits
    wants: Matcher
    """Whether the path of a document is wanted."""
    with_content: bool
    seen: int = 0
    listed: int = 0
    read: int = 0

    def documents(self, datasource_id: str, source: DataSource) -> list[dict[str, Any]]:
        """The wanted documents of a data source, by their paths. Raises InvalidConfig where a limit is passed."""
        if not source.folder.is_dir():
            raise InvalidConfig(
                f"The folder {str(source.folder)!r} of data source {datasource_id!r} is not there. Make it, or set "
                f"another one in statewright.toml."
            )
        counts = glob_matcher(source.glob)
        wanted = sorted(path for path in self._paths(source.folder) if counts(path) and self.wants(path))
        self.listed += len(wanted)
        self._check("documents", self.listed, self.limits.documents)
        return [self._document(datasource_id, source.folder, path) for path in wanted]

    def _paths(self, folder: Path) -> Iterator[str]:
        """All files below a folder as they are written with slashes. What is hidden, or a link, is left out."""
        for above, folders, names in os.walk(folder):
            folders[:] = sorted(name for name in folders if not name.startswith("."))
            for name in names:
                path = Path(above, name)
                if name.startswith(".") or not _is_plain_file(path):
                    continue
                self.seen += 1
                self._check("files", self.seen, self.limits.files)
                yield path.relative_to(folder).as_posix()

    def _document(self, datasource_id: str, folder: Path, path: str) -> dict[str, Any]:
        document: dict[str, Any] = {
            "datasource_id": datasource_id,
            "file_path": path,
            "file_name": path.rpartition("/")[2],
            "source": f"{datasource_id}/{path}",
        }
        return {**document, **self._content(folder / path)} if self.with_content else document

    def _content(self, path: Path) -> dict[str, Any]:
        """The text of a file, cut where it is too long; null for what is no text."""
        most = self.limits.document_bytes
        with path.open("rb") as file:
            data = file.read(most + 1)
        self.read += min(len(data), most)
        self._check("bytes of content", self.read, self.limits.content_bytes)
        content = None if b"\0" in data else data[:most].decode("utf-8", errors="replace")
        return {"content": content, "is_cut": True} if len(data) > most else {"content": content}

    def _check(self, what: str, found: int, most: int) -> None:
        if found > most:
            raise InvalidConfig(
                f"A tree of documents would have more than {most} {what}. Narrow the glob of the data source or "
                f"documents_filtering_pattern, or raise the limit."
            )


def _is_plain_file(path: Path) -> bool:
    """Whether it is a file, no link, and of a name that can be stored: that is text in UTF-8."""
    try:
        str(path).encode()
    except UnicodeEncodeError:
        return False
    return path.is_file() and not path.is_symlink()
