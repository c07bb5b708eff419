"""Validation of the tables of a project file, with the line of each problem and warning."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, Final, TypeVar, cast

from pydantic import TypeAdapter, ValidationError

from statewright.data.problems import UNKNOWN_KEY, problems_from
from statewright.errors import Problem
from statewright.project.toml_positions import Keys, find_lines, format_path
from statewright.workflow.states.language.yaml.nodes import Mark

M = TypeVar("M")
_SECRET_SECTIONS: Final[tuple[Keys, ...]] = (("integrations",), ("mcp",), ("models",))
"""Sections that may contain secrets: messages never quote their values, not even in part."""


class Reader:
    """Validates the tables of a project file, and collects the problems and warnings."""

    def __init__(self, text: str, folder: Path) -> None:
        self.folder = folder
        self.problems: list[Problem] = []
        self.warnings: list[Problem] = []
        self._lines = find_lines(text)

    def add_problem(self, keys: Keys, message: str, suggestion: str = "") -> None:
        self.problems.append(Problem(format_path(keys), *self.find_position(keys), message, suggestion))

    def add_warning(self, keys: Keys, message: str, suggestion: str = "") -> None:
        self.warnings.append(Problem(format_path(keys), *self.find_position(keys), message, suggestion))

    def find_position(self, keys: Keys) -> Mark:
        """Return the position of the value at a path, or of its nearest parent that begins a line."""
        candidates = (keys[:count] for count in range(len(keys), 0, -1))
        line = next((self._lines[path] for path in candidates if path in self._lines), 0)
        return Mark(line, 1 if line else 0)

    def read(self, model: type[M], value: Any, keys: Keys, *, strict: bool = False) -> M | None:
        """Validate a table as a model. Invalid values are reported, and omitted from the result.

        Returns None if a required value is missing or invalid. Unknown keys are warnings, or problems if `strict`.
        """
        adapter = TypeAdapter(model)
        try:
            return adapter.validate_python(value, context=self.folder)
        except ValidationError as error:
            details = error.errors(include_url=False)
            problems = problems_from(
                error,
                model,
                within=keys,
                position_of=self.find_position,
                format_path=format_path,
                map_noun="a table",
                is_secret=lambda path: path[:1] in _SECRET_SECTIONS,
            )
            for problem, detail in zip(problems, details, strict=True):
                is_warning = detail["type"] in UNKNOWN_KEY and not strict
                (self.warnings if is_warning else self.problems).append(problem)
        invalid_keys = {detail["loc"][0] for detail in details if detail["loc"]}
        if not invalid_keys:
            return None
        valid_items = {key: item for key, item in cast("dict[str, Any]", value).items() if key not in invalid_keys}
        try:
            return adapter.validate_python(valid_items, context=self.folder)
        except ValidationError:  # a required key is missing or invalid, which has been reported
            return None

    def resolve_path(self, name: str, keys: Keys, *, exists: Callable[[Path], bool], description: str) -> Path:
        """Resolve a path relative to the project file. `description` says in messages what it is: `file` or `folder`.

        If it does not exist, that is only a warning, because the command that is running may not need it.
        """
        path = self.folder / name
        if "\0" in name:
            self.add_problem(keys, "It is not a valid path.")
        elif not exists(path):
            self.add_warning(
                keys, f"{description.capitalize()} {name!r} does not exist.", "Its path is relative to this file."
            )
        return path
