"""The built-in file tools, for text files in one folder. Models see their docstrings."""

from __future__ import annotations

from collections.abc import Iterator
from fnmatch import fnmatchcase
from itertools import islice
from pathlib import Path
from typing import Any, Final

from statewright.errors import ToolError
from statewright.workflow.states.tools.root import Root

LIST_LIMIT: Final = 5_000
"""The maximum number of files in a list."""
MATCH_LIMIT: Final = 200
"""The maximum number of lines that a search returns."""
SEARCH_LIMIT: Final = 20_000
"""The maximum number of files that a search opens."""
_LINE_LIMIT: Final = 300
"""The maximum number of characters of a line in a search result."""


class Files:
    """The files of one folder."""

    def __init__(self, root: Path, *, limit: int) -> None:
        """`limit` is the maximum size of a file in bytes."""
        self._root = Root(root)
        self._limit = limit

    def read_file(self, path: str) -> str:
        """Read a text file.

        Args:
            path: The file, relative to the folder of the tools.
        """
        with self._root.open_to_read(path) as file:
            content = file.read(self._limit + 1)
        if len(content) > self._limit:
            raise ToolError(f"{path[:200]!r} has more than {self._limit} bytes, the limit of the file tools.")
        try:
            text = content.decode()
        except UnicodeDecodeError:
            text = "\0"  # rejected like a binary file with null bytes
        if "\0" in text:
            raise ToolError(f"{path[:200]!r} is not UTF-8 text. Tools can read only text.")
        return text

    def write_file(self, path: str, content: str) -> str:
        """Write a text file, replacing its previous content.

        Args:
            path: The file, relative to the folder of the tools. Its parent folders are created.
            content: The whole content of the file.
        """
        data = content.encode(errors="replace")
        if len(data) > self._limit:
            raise ToolError(
                f"The content of {path[:200]!r} has {len(data)} bytes; at most {self._limit} can be written."
            )
        with self._root.open_to_write(path) as file:
            file.write(data)
        return f"{path} now has {len(data)} bytes."

    def edit_file(self, path: str, old: str, new: str) -> str:
        """Replace a passage of a text file.

        Args:
            path: The file, relative to the folder of the tools.
            old: The passage, exactly as in the file, where it must occur once.
            new: The text to put in its place.
        """
        text = self.read_file(path)
        count = text.count(old) if old else 0
        if count != 1:
            raise ToolError(
                f"The text to replace occurs {count} times in {path[:200]!r}, not once. "
                + ("Copy it exactly from the file." if count == 0 else "Include more of the surrounding text.")
            )
        return self.write_file(path, text.replace(old, new))

    def list_files(self, path: str = ".", pattern: str = "**") -> list[str]:
        """List the files in a folder and its subfolders.

        Args:
            path: The folder, relative to the folder of the tools.
            pattern: A pattern of paths, such as *.py or src/**/*.md; ** matches folders of any depth.
        """
        files = list(islice(self._iter_matches(path, pattern), LIST_LIMIT + 1))
        if len(files) > LIST_LIMIT:
            raise ToolError(f"There are more than {LIST_LIMIT} files. Pass a subfolder or a pattern.")
        return files

    def search_files(self, text: str, path: str = ".", pattern: str = "**") -> list[dict[str, Any]]:
        """Find the lines of files that contain a literal text, which is not a regular expression.

        Args:
            text: The text to find.
            path: The folder, relative to the folder of the tools.
            pattern: A pattern of paths, such as *.py or src/**/*.md.
        """
        if not text:
            raise ToolError("The text to find is empty. Pass a text.")
        lines: list[dict[str, Any]] = []
        for file in islice(self._iter_matches(path, pattern), SEARCH_LIMIT):
            lines += self._find_lines(text, file)
            if len(lines) >= MATCH_LIMIT:
                break
        return lines[:MATCH_LIMIT]

    def _iter_matches(self, path: str, pattern: str) -> Iterator[str]:
        return (file for file in self._root.walk(path) if matches(file, pattern))

    def _find_lines(self, text: str, file: str) -> list[dict[str, Any]]:
        try:
            lines = self.read_file(file).splitlines()
        except ToolError:  # not text, or too large
            return []
        return [
            {"path": file, "line": number, "text": line.strip()[:_LINE_LIMIT]}
            for number, line in enumerate(lines, 1)
            if text in line
        ]


def matches(file: str, pattern: str) -> bool:
    """Return whether a path matches a pattern. A pattern without a slash is matched against the file name only."""
    patterns = pattern.removeprefix("./").split("/")
    if len(patterns) == 1 and patterns[0] != "**":
        patterns = ["**", *patterns]
    parts = file.split("/")
    # The numbers of parts that the patterns so far may match. Tracking all of them avoids backtracking, which could
    # take exponential time.
    counts = {0}
    for part_pattern in patterns:
        if part_pattern == "**":
            counts = set(range(min(counts), len(parts) + 1)) if counts else counts
        else:
            counts = {n + 1 for n in counts if n < len(parts) and fnmatchcase(parts[n], part_pattern)}
    return len(parts) in counts
