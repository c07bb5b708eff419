"""The built-in file tools, for text files in one folder."""

from __future__ import annotations

from fnmatch import fnmatchcase
from typing import Any, Final

from statewright.errors import ToolError
from statewright.workflow.states.tools.root import Root
from statewright.workflow.states.tools.settings import ToolSettings

LISTED: Final = 5_000
"""Maximum files in a list."""
FOUND: Final = 200
"""Maximum lines that a search returns."""
SEARCHED: Final = 20_000
"""Maximum files that a search opens."""
_LINE: Final = 300
"""Maximum characters of a line in a search result."""


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
                f"The text to replace occurs {count} times in {path[:200]!r}, not once. "
                + ("Copy it from the file as it is." if count == 0 else "Include more of the surrounding text.")
            )
        return self._write(path, text.replace(old, new))

    def list_files(self, path: str = ".", pattern: str = "**") -> list[str]:
        """List the files of a folder and of all folders in it.

        Args:
            path: The folder, seen from the folder of the tools.
            pattern: Which files, such as *.py or src/**/*.md; ** stands for folders of any depth.
        """
        files: list[str] = []
        for file in self._root.walk(path):
            if matches(file, pattern):
                files.append(file)
            if len(files) > LISTED:
                raise ToolError(f"There are more than {LISTED} files. Name a folder or a pattern.")
        return files

    def search_files(self, text: str, path: str = ".", pattern: str = "**") -> list[dict[str, Any]]:
        """Find the lines of files that hold a text, as it is written; it is not a regular expression.

        Args:
            text: What to look for.
            path: The folder, seen from the folder of the tools.
            pattern: Which files, such as *.py or src/**/*.md.
        """
        if not text:
            raise ToolError("There is nothing to search for. Give a text.")
        lines: list[dict[str, Any]] = []
        opened = 0
        for file in self._root.walk(path):
            if matches(file, pattern) and len(lines) < FOUND and opened < SEARCHED:
                opened += 1
                lines.extend(self._lines_with(text, file))
        return lines[:FOUND]

    def _lines_with(self, text: str, file: str) -> list[dict[str, Any]]:
        try:
            lines = self._text(file).splitlines()
        except ToolError:  # not text, or too long
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
            raise ToolError(f"{path[:200]!r} is not UTF-8 text. Tools read text only.")
        return text

    def _write(self, path: str, content: str) -> str:
        data = content.encode(errors="replace")
        if len(data) > self._limit:
            raise ToolError(f"{len(data)} bytes are too much for {path[:200]!r}: at most {self._limit} are written.")
        with self._root.open_to_write(path) as file:
            file.write(data)
        return f"{path} has {len(data)} bytes now."


def matches(file: str, pattern: str) -> bool:
    """Return whether a path matches a pattern. A pattern without a slash matches the name only."""
    steps = pattern.removeprefix("./").split("/")
    if len(steps) == 1 and steps[0] != "**":
        steps = ["**", *steps]
    return _fits(file.split("/"), steps)


def _fits(parts: list[str], steps: list[str]) -> bool:
    """Match parts against a pattern, tracking all counts of consumed parts at once, so without backtracking."""
    taken = {0}
    for step in steps:
        if step == "**":
            taken = set(range(min(taken), len(parts) + 1)) if taken else taken
        else:
            taken = {count + 1 for count in taken if count < len(parts) and fnmatchcase(parts[count], step)}
    return len(parts) in taken
