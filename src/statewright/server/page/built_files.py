"""The files of the built page, read once and compressed.

Only files that a scan of the folder has found can be served, so that no address leads out of it. The folder is scanned
again when it was built again, which is seen from the time of `index.html`, the last file that a build writes.
"""

from __future__ import annotations

import gzip
import threading
from collections.abc import Mapping
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from typing import Final

BUILT: Final = Path(__file__).parent / "built"
"""The folder of the built page."""
INDEX: Final = "index.html"
ASSETS: Final = "assets/"
"""Files below this folder have a hash of their content in their names, and never change."""
_MEDIA_TYPES: Final[Mapping[str, str]] = {
    ".html": "text/html; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".css": "text/css; charset=utf-8",
    ".json": "application/json",
    ".webmanifest": "application/manifest+json",
    ".svg": "image/svg+xml",
    ".png": "image/png",
    ".ico": "image/x-icon",
    ".woff2": "font/woff2",
    ".txt": "text/plain; charset=utf-8",
}
"""The media types of the files that are served, by suffix. Others, such as source maps, are left out."""
_COMPRESSED: Final = frozenset({".html", ".js", ".css", ".json", ".svg", ".webmanifest", ".txt"})


def is_built() -> bool:
    """Return whether this installation has the built page."""
    return (BUILT / INDEX).is_file()


@dataclass(frozen=True, slots=True)
class BuiltFile:
    """A file of the page."""

    content: bytes
    compressed: bytes | None
    """The content in gzip; None if that is not smaller."""
    media_type: str
    etag: str
    is_immutable: bool
    """True if the name changes with the content."""


class BuiltFiles:
    """The files of a folder. Thread-safe."""

    def __init__(self, folder: Path = BUILT) -> None:
        self._folder = folder
        self._files: Mapping[str, BuiltFile] = {}
        self._time: int | None = None
        """The time of the index from which the files were read; None if there was none."""
        self._lock = threading.Lock()

    def all(self) -> Mapping[str, BuiltFile]:
        """Return the files by their paths in the folder, with slashes. Empty if the page was not built."""
        time = self._time_of_index()
        if time != self._time:
            with self._lock:
                self._files = _read_files(self._folder) if time is not None else {}
                self._time = time
        return self._files

    def _time_of_index(self) -> int | None:
        try:
            return (self._folder / INDEX).stat().st_mtime_ns
        except OSError:
            return None


def _read_files(folder: Path) -> Mapping[str, BuiltFile]:
    paths = (path for path in folder.rglob("*") if path.suffix in _MEDIA_TYPES and path.is_file())
    return {path.relative_to(folder).as_posix(): _read_file(folder, path) for path in paths}


def _read_file(folder: Path, path: Path) -> BuiltFile:
    content = path.read_bytes()
    compressed = gzip.compress(content, 9, mtime=0) if path.suffix in _COMPRESSED else content
    return BuiltFile(
        content=content,
        compressed=compressed if len(compressed) < len(content) else None,
        media_type=_MEDIA_TYPES[path.suffix],
        etag=f'"{sha256(content).hexdigest()[:32]}"',
        is_immutable=path.relative_to(folder).as_posix().startswith(ASSETS),
    )
