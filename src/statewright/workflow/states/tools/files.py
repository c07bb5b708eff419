"""The built-in file tools, for text files in one folder. Their docstrings describe them to models."""

from __future__ import annotations

from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any, Final

from statewright.errors import ToolError
from statewright.workflow.states.tools.root import Root

LIST_LIMIT: Final = 5_000
"""Maximum files in a list."""
MATCH_LIMIT: Final = 200
"""Maximum lines that a search returns."""
SEARCH_LIMIT: Final = 20_000
"""Maximum files that a search opens."""
_LINE_LIMIT: Final = 300
"""Maximum characters of a line in a search result."""


class Files:
    """The files of one folder."""

    def __init__(self, root: Path, *, limit: int) -> None:
        """With `limit`, the maximum bytes of a file."""
        self._root = Root(root)
        self._limit = limit

    def read_file(self, path: str) -> str:
        """Read a text file.

        Args:
            path: The file, relative to the folder of the tools.
        """
        return self._text(path)

    def write_file(self, path: str, content: str) -> str:
        """Write a text file, replacing its previous content.

        Args:
            path: The file, relative to the folder of the tools. Its parent folders are created.
            content: The whole content of the file.
        """
        return self._write(path, content)

    def edit_file(self, path: str, old: str, new: str) -> str:
        """Replace a passage of a text file.

        Args:
            path: The file, relative to the folder of the tools.
            old: The passage, exactly as in the file, where it must occur once.
            new: The text to put in its place.
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
        """List the files in a folder and its subfolders.

        Args:
            path: The folder, relative to the folder of the tools.
            pattern: A pattern of paths, such as *.py or src/**/*.md; ** matches folders of any depth.
        """
        files: list[str] = []
        for file in self._root.walk(path):
            if matches(file, pattern):
                files.append(file)
            if len(files) > LIST_LIMIT:
                raise ToolError(f"There are more than {LIST_LIMIT} files. Name a folder or a pattern.")
        return files

    def search_files(self, text: str, path: str = ".", pattern: str = "**") -> list[dict[str, Any]]:
        """Find the lines of files that contain a literal text, which is not a regular expression.

        Args:
            text: The text to find.
            path: The folder, relative to the folder of the tools.
            pattern: A pattern of paths, such as *.py or src/**/*.md.
        """
        if not text:
            raise ToolError("There is nothing to search for. Pass a text.")
        lines: list[dict[str, Any]] = []
        opened = 0
        for file in self._root.walk(path):
            if matches(file, pattern) and len(lines) < MATCH_LIMIT and opened < SEARCH_LIMIT:
                opened += 1
                lines.extend(self._lines_with(text, file))
        return lines[:MATCH_LIMIT]

    def _lines_with(self, text: str, file: str) -> list[dict[str, Any]]:
        try:
            lines = self._text(file).splitlines()
        except ToolError:  # not text, or too long
            return []
        return [
            {"path": file, "line": number, "text": line.strip()[:_LINE_LIMIT]}
            for number, line in enumerate(lines, 1)
            if text in line
        ]

    def _text(self, path: str) -> str:
        with self._root.open_to_read(path) as file:
            content = file.read(self._limit + 1)
        if len(content) > self._limit:
            raise ToolError(f"{path[:200]!r} has more than {self._limit} bytes, the limit of the file tools.")
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
            raise ToolError(f"{len(data)} bytes are too much for {path[:200]!r}: at most {self._limit} can be written.")
        with self._root.open_to_write(path) as file:
            file.write(data)
        return f"{path} now has {len(data)} bytes."


def matches(file: str, pattern: str) -> bool:
    """Return whether a path matches a pattern. A pattern without a slash matches the name only."""
    steps = pattern.removeprefix("./").split("/")
    if len(steps) == 1 and steps[0] != "**":
        steps = ["**", *steps]
    return _matches_steps(file.split("/"), steps)


def _matches_steps(parts: list[str], steps: list[str]) -> bool:
    """Match the parts of a path against the steps of a pattern.

    All possible numbers of consumed parts are tracked at once, so nothing is tried twice, as with backtracking.
    """
    consumed = {0}
    for step in steps:
        if step == "**":
            consumed = set(range(min(consumed), len(parts) + 1)) if consumed else consumed
        else:
            consumed = {count + 1 for count in consumed if count < len(parts) and fnmatchcase(parts[count], step)}
    return len(parts) in consumed
