"""The built-in tools for files: text in one folder."""

from __future__ import annotations

from fnmatch import fnmatchcase
from typing import Any, Final

from statewright.errors import ToolError
from statewright.workflow.states.tools.root import Root
from statewright.workflow.states.tools.settings import ToolSettings

LISTED: Final = 5_000
"""Files that a list names."""
FOUND: Final = 200
"""Lines that a search finds."""
SEARCHED: Final = 20_000
"""Files that a search opens."""
_LINE: Final = 300
"""Characters of a line that a search shows."""


class Files:
    """The files of one folder."""

    def __init__(self, settings: ToolSettings) -> None:
        assert settings.root is not None
        self._root = Root(settings.root)
        self._limit = settings.file_limit

    def read_file(self, path: str) -> str:
        """Read a text file.

        Args:
            path: The file, seen from the folder of the tools.
        """
        return self._text(path)

    def write_file(self, path: str, content: str) -> str:
        """Write a text file; what it held before is lost.

        Args:
            path: The file, seen from the folder of the tools. Folders above it are made.
            content: All that it is to hold.
        """
        return self._write(path, content)

    def edit_file(self, path: str, old: str, new: str) -> str:
        """Replace a piece of a text file by another one.

        Args:
            path: The file, seen from the folder of the tools.
            old: The piece as it stands there, in one place only.
            new: What is to stand there.
        """
        text = self._text(path)
        count = text.count(old) if old else 0
        if count != 1:
            raise ToolError(
                f"The text to replace stands in {path[:200]!r} {count} times, not once. "
                + ("Copy it from the file as it is." if count == 0 else "Give more of what is around it.")
            )
        return self._write(path, text.replace(old, new))

    def list_files(self, path: str = ".", pattern: str = "**") -> list[str]:
        """List the files of a folder and of all folders in it.

        Args:
            path: The folder, seen from the folder of the tools.
            pattern: Which files, such as *.py or src/**/*.md; ** stands for folders of any depth.
        """
        found: list[str] = []
        for file in self._root.walk(path):
            if matches(file, pattern):
                found.append(file)
            if len(found) > LISTED:
                raise ToolError(f"There are more than {LISTED} files. Name a folder or a pattern.")
        return found

    def search_files(self, text: str, path: str = ".", pattern: str = "**") -> list[dict[str, Any]]:
        """Find the lines of files that hold a text, as it is written; it is no regular expression.

        Args:
            text: What to look for.
            path: The folder, seen from the folder of the tools.
            pattern: Which files, such as *.py or src/**/*.md.
        """
        if not text:
            raise ToolError("There is nothing to search for. Give a text.")
        found: list[dict[str, Any]] = []
        opened = 0
        for file in self._root.walk(path):
            if matches(file, pattern) and len(found) < FOUND and opened < SEARCHED:
                opened += 1
                found.extend(self._lines_with(text, file))
        return found[:FOUND]

    def _lines_with(self, text: str, file: str) -> list[dict[str, Any]]:
        try:
            lines = self._text(file).splitlines()
        except ToolError:  # no text, or too much of it
            return []
        return [
            {"path": file, "line": number, "text": line.strip()[:_LINE]}
            for number, line in enumerate(lines, 1)
            if text in line
        ]

    def _text(self, path: str) -> str:
        with self._root.open_to_read(path) as file:
            content = file.read(self._limit + 1)
        if len(content) > self._limit:
            raise ToolError(f"{path[:200]!r} has more than {self._limit} bytes, which is too much for a tool.")
        try:
            text = content.decode()
        except UnicodeDecodeError:
            text = "\0"
        if "\0" in text:
            raise ToolError(f"{path[:200]!r} is no text in UTF-8. Tools read text only.")
        return text

    def _write(self, path: str, content: str) -> str:
        data = content.encode(errors="replace")
        if len(data) > self._limit:
            raise ToolError(f"{len(data)} bytes are too much for {path[:200]!r}: at most {self._limit} are written.")
        with self._root.open_to_write(path) as file:
            file.write(data)
        return f"{path} has {len(data)} bytes now."


def matches(file: str, pattern: str) -> bool:
    """Whether a path is of a pattern. One without a slash is about the name alone."""
    wanted = pattern.removeprefix("./").split("/")
    if len(wanted) == 1 and wanted[0] != "**":
        wanted = ["**", *wanted]
    return _fits(file.split("/"), wanted)


def _fits(parts: list[str], wanted: list[str]) -> bool:
    """Step by step through the pattern, with all counts of parts that it may have taken so far: never slow."""
    taken = {0}
    for one in wanted:
        if one == "**":
            taken = set(range(min(taken), len(parts) + 1)) if taken else taken
        else:
            taken = {count + 1 for count in taken if count < len(parts) and fnmatchcase(parts[count], one)}
    return len(parts) in taken
