"""Access to files that is confined to one folder, for the file tools.

A path is resolved, and must lead into the folder. Because a link may be created after this check, the file is then
opened from the folder down, component by component and without following links.

Some names are protected in every folder: `.git`, which contains hooks and settings that git executes; `.env` files,
which contain secrets; and statewright.toml, which defines the permissions of tools.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator, Sequence
from pathlib import Path, PurePosixPath, PureWindowsPath
from typing import BinaryIO, Final

from statewright.errors import ToolError

_PROTECTED: Final = frozenset([".git", ".env", "statewright.toml"])
_HAS_DIR_FD: Final = os.open in os.supports_dir_fd and hasattr(os, "O_NOFOLLOW")
_FOLDER_FLAGS: Final = os.O_RDONLY | getattr(os, "O_DIRECTORY", 0) | getattr(os, "O_NOFOLLOW", 0)
# Non-blocking, because opening a named pipe would block.
_REGULAR_FLAGS: Final = getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0)


class Root:
    """Opens files within one folder."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder.resolve()

    def resolve(self, path: str) -> PurePosixPath:
        """Resolve links, and return the path relative to the folder.

        Raises ToolError for a path that leads out of the folder, or that contains a protected name.
        """
        requested = PurePosixPath(path.replace("\\", "/"))
        if (
            not path
            or "\0" in path
            or requested.is_absolute()
            or PureWindowsPath(path).drive
            or ".." in requested.parts
        ):
            raise ToolError(
                f"{path[:200]!r} is not a path in the folder of the tools. Pass a relative path without '..'."
            )
        try:
            resolved = self._folder.joinpath(requested).resolve()
            relative = PurePosixPath(resolved.relative_to(self._folder).as_posix())
        except (OSError, ValueError, RuntimeError):
            raise ToolError(f"{path[:200]!r} is outside the folder of the tools. Pass a path within it.") from None
        if any(map(is_protected, relative.parts)) or any(map(is_protected, requested.parts)):
            raise ToolError(f"{path[:200]!r} is protected, and tools cannot access it.")
        return relative

    def open_to_read(self, path: str) -> BinaryIO:
        """Open a file for reading. Raises ToolError if it does not exist, or is not a regular file."""
        return _open_regular(self._open(path, os.O_RDONLY), path, "rb")

    def open_to_write(self, path: str) -> BinaryIO:
        """Open a file for writing, and truncate it. Create the file and its parent folders if necessary."""
        descriptor = self._open(path, os.O_WRONLY | os.O_CREAT)
        file = _open_regular(descriptor, path, "wb")
        # O_TRUNC would take effect before the check for a regular file.
        os.ftruncate(descriptor, 0)
        return file

    def walk(self, path: str) -> Iterator[str]:
        """Yield the paths of all files below a folder, relative to the root, in a fixed order. Links are skipped."""
        start = self.resolve(path)
        top = self._folder / start
        if not top.is_dir():
            raise ToolError(f"Folder {path[:200]!r} does not exist.")
        for folder, subfolders, files in os.walk(top):
            subfolders[:] = sorted(name for name in subfolders if not is_protected(name))
            for name in sorted(files):
                file = Path(folder, name)
                if not is_protected(name) and not file.is_symlink():
                    yield file.relative_to(self._folder).as_posix()

    def _open(self, path: str, flags: int) -> int:
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


def is_protected(name: str) -> bool:
    """Return whether tools must not access files and folders with this name."""
    name = name.lower()
    return name in _PROTECTED or name.startswith(".env.")


def _open_below(folder: Path, parts: Sequence[str], flags: int) -> int:
    if not _HAS_DIR_FD:  # Windows
        folder.joinpath(*parts).parent.mkdir(parents=True, exist_ok=True)
        return os.open(folder.joinpath(*parts), flags | _REGULAR_FLAGS)
    parent = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        for part in parts[:-1]:
            child = _open_folder(parent, part, create=bool(flags & os.O_CREAT))
            os.close(parent)
            parent = child
        return os.open(parts[-1], flags | _REGULAR_FLAGS, 0o666, dir_fd=parent)
    finally:
        os.close(parent)


def _open_folder(parent: int, name: str, *, create: bool) -> int:
    try:
        return os.open(name, _FOLDER_FLAGS, dir_fd=parent)
    except FileNotFoundError:
        if not create:
            raise
        os.mkdir(name, dir_fd=parent)
        return os.open(name, _FOLDER_FLAGS, dir_fd=parent)


def _open_regular(descriptor: int, path: str, mode: str) -> BinaryIO:
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        os.close(descriptor)
        raise ToolError(f"{path[:200]!r} is not a regular file.")
    return os.fdopen(descriptor, mode)  # pyright: ignore[reportReturnType]  # both modes are binary
