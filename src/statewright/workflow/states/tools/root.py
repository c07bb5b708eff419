"""Confined access to one folder, for the file tools.

A path is resolved and must stay inside. It is then opened from the folder down, component by component and without
following links, so a link created after the check has no effect.

Closed in any folder: `.git`, whose hooks and settings are executed; `.env` files, which hold secrets; and
statewright.toml, which defines the permissions of tools.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator, Sequence
from pathlib import Path, PurePosixPath, PureWindowsPath
from typing import BinaryIO, Final

from statewright.errors import ToolError

_CLOSED: Final = frozenset([".git", ".env", "statewright.toml"])
_HAS_DIR_FD: Final = os.open in os.supports_dir_fd and hasattr(os, "O_NOFOLLOW")
_FOLDER: Final = os.O_RDONLY | getattr(os, "O_DIRECTORY", 0) | getattr(os, "O_NOFOLLOW", 0)
# Non-blocking, as a named pipe would block the open.
_PLAIN: Final = getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0)


class Root:
    """Opens files within one folder."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder.resolve()

    def resolve(self, path: str) -> PurePosixPath:
        """Resolve a path to one relative to the folder, without links. Raises ToolError for a path outside."""
        written = PurePosixPath(path.replace("\\", "/"))
        if not path or "\0" in path or written.is_absolute() or PureWindowsPath(path).drive or ".." in written.parts:
            raise ToolError(
                f"{path[:200]!r} is not a path in the folder of the tools. Write folder/file, without '..'."
            )
        try:
            real = self._folder.joinpath(written).resolve()
            relative = PurePosixPath(real.relative_to(self._folder).as_posix())
        except (OSError, ValueError, RuntimeError):
            raise ToolError(f"{path[:200]!r} is outside the folder of the tools. Write a path within it.") from None
        if any(map(is_closed, relative.parts)) or any(map(is_closed, written.parts)):
            raise ToolError(f"{path[:200]!r} is closed to tools.")
        return relative

    def open_to_read(self, path: str) -> BinaryIO:
        """Open a file for reading. Raises ToolError if it does not exist, or is not a regular file."""
        return _plain_file(self._descriptor(path, os.O_RDONLY), path, "rb")

    def open_to_write(self, path: str) -> BinaryIO:
        """Open a file for writing, and truncate it; create it and its parent folders if necessary."""
        descriptor = self._descriptor(path, os.O_WRONLY | os.O_CREAT)
        file = _plain_file(descriptor, path, "wb")
        os.ftruncate(descriptor, 0)
        return file

    def walk(self, path: str) -> Iterator[str]:
        """Yield all files below a folder, sorted, relative to the root; links are skipped."""
        start = self.resolve(path)
        top = self._folder / start
        if not top.is_dir():
            raise ToolError(f"Folder {path[:200]!r} does not exist.")
        for folder, inner, files in os.walk(top):
            inner[:] = sorted(name for name in inner if not is_closed(name))
            for name in sorted(files):
                file = Path(folder, name)
                if not is_closed(name) and not file.is_symlink():
                    yield file.relative_to(self._folder).as_posix()

    def _descriptor(self, path: str, flags: int) -> int:
        parts = self.resolve(path).parts
        if not parts:
            raise ToolError(f"{path[:200]!r} is a folder, not a file.")
        try:
            return _open_below(self._folder, parts, flags)
        except FileNotFoundError:
            raise ToolError(f"File {path[:200]!r} does not exist.") from None
        except (IsADirectoryError, NotADirectoryError):
            raise ToolError(f"{path[:200]!r} is a folder, or lies below a file.") from None
        except OSError as error:
            raise ToolError(f"{path[:200]!r} cannot be opened: {error.strerror}.") from None


def is_closed(name: str) -> bool:
    """Return whether tools must not access files of this name."""
    name = name.lower()
    return name in _CLOSED or name.startswith(".env.")


def _open_below(folder: Path, parts: Sequence[str], flags: int) -> int:
    if not _HAS_DIR_FD:  # Windows
        folder.joinpath(*parts).parent.mkdir(parents=True, exist_ok=True)
        return os.open(folder.joinpath(*parts), flags | _PLAIN)
    at = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        for part in parts[:-1]:
            inner = _step_into(at, part, makes=bool(flags & os.O_CREAT))
            os.close(at)
            at = inner
        return os.open(parts[-1], flags | _PLAIN, 0o666, dir_fd=at)
    finally:
        os.close(at)


def _step_into(at: int, part: str, *, makes: bool) -> int:
    try:
        return os.open(part, _FOLDER, dir_fd=at)
    except FileNotFoundError:
        if not makes:
            raise
        os.mkdir(part, dir_fd=at)
        return os.open(part, _FOLDER, dir_fd=at)


def _plain_file(descriptor: int, path: str, mode: str) -> BinaryIO:
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        os.close(descriptor)
        raise ToolError(f"{path[:200]!r} is not a regular file.")
    return os.fdopen(descriptor, mode)  # pyright: ignore[reportReturnType]  # both modes are binary
