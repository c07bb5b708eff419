"""Validation of the `config` of custom nodes.

A reader collects all faults, so that they are reported together. Each kind of node has one function that reads its
config and returns settings and faults. The check of a file uses the faults, and the node uses the settings. A key that
the function does not read leads to a warning.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import Any, Final, NamedTuple, TypeVar, cast

from statewright.errors import ExpressionError, Problem, WorkflowError, suggestion
from statewright.workflow.states.expressions import Expression, parse_expression
from statewright.workflow.states.expressions.paths import parse_path
from statewright.workflow.states.language.model import CustomNode
from statewright.workflow.states.language.yaml.nodes import Path, problem_at, shorten
from statewright.workflow.states.templates import Template, parse_template

_T = TypeVar("_T")


class ConfigFault(NamedTuple):
    """An error or warning about a custom node."""

    path: Path
    """The path within the node: `("config", "mappings", 2, "type")`."""
    message: str
    """The mistake."""
    suggestion: str
    """The correction."""
    is_error: bool = True
    """False for a warning about something that is accepted, but probably a mistake."""

    def problem(self, definition: CustomNode, node_path: Path = ()) -> Problem:
        """Return the fault as a problem of the file. `node_path` is the path of the node in the file."""
        return problem_at(definition.at, self.message, self.suggestion, path=(*node_path, *self.path))


class ConfigReader:
    """Reads one map of a config, and collects errors and warnings in `faults`.

    A method such as `text` returns the value of a key, or the default if the key is absent or null. If the value has
    another type, the method adds a fault and returns the default.
    """

    def __init__(
        self, config: Mapping[str, Any], path: Path = ("config",), faults: list[ConfigFault] | None = None
    ) -> None:
        self._config = config
        self._path = path
        self._read_keys: set[str] = set()
        self.faults: list[ConfigFault] = [] if faults is None else faults

    def has_key(self, key: str) -> bool:
        """Return whether the key is present, even if its value is null."""
        self._read_keys.add(key)
        return key in self._config

    def anything(self, key: str, default: Any = None) -> Any:
        """Return the value of a key, whatever its type."""
        self._read_keys.add(key)
        return self._config.get(key, default)

    def text(self, key: str, default: str | None = None) -> str | None:
        return self._read_typed(key, str, "a string", default)

    def path(self, key: str, example: str = "names with dots, such as user.name") -> str | None:
        """Return a path into JSON data, as text."""
        path = self.text(key)
        if path is not None and parse_path(path) is None:
            self.fault(key, f"{shorten(path)!r} is not a path.", f"Write {example}.")
        return path

    def flag(self, key: str, default: bool = False) -> bool:
        return bool(self._read_typed(key, bool, "true or false", default))

    def items(self, key: str) -> list[Any]:
        return self._read_typed(key, cast("type[list[Any]]", list), "a list", None) or []

    def texts(self, key: str) -> tuple[str, ...]:
        """Return a tuple of strings. The value is a string or a list of strings."""
        value = self.anything(key)
        items = cast("list[Any]", value if isinstance(value, list) else [] if value is None else [value])
        if not all(isinstance(item, str) for item in items):
            self.fault(key, f"{key} is {_describe(value)}.", "Write a string, or a list of strings.")
            return ()
        return tuple(items)

    def map(self, key: str) -> dict[str, Any] | None:
        """Return a map, which may also be written as JSON text; None if the key is absent."""
        value = self.anything(key)
        if isinstance(value, str) and value.strip():
            value = _parse_json(value)
        if isinstance(value, dict):
            return cast("dict[str, Any]", value)
        if value is not None and value != "":
            self.fault(key, f"{key} is {_describe(self.anything(key))}.", "Write a map.")
        return None

    def choice(self, key: str, choices: Iterable[str], default: str) -> str:
        """Return the value of a key, which must be one of `choices`."""
        value = self.text(key, default) or default
        words = tuple(choices)
        if value in words:
            return value
        self.fault(key, f"{key} is {_describe(value)}.", suggestion(value, words, noun="Known"))
        return default

    def required(self, key: str, value: _T | None, expected: str) -> _T | None:
        """Return a value that was read from a key. Add a fault if the key is missing; `expected` says what to write."""
        if value is None and self._config.get(key) is None:
            self.fault(key, f"{key} is missing.", f"Write {expected}.")
        return value

    def expression(self, key: str, *, must_have_value: bool = False) -> Expression | None:
        """Return a parsed expression.

        An expression with an unsupported construct has no value. This is a warning, or an error with `must_have_value`.
        """
        text = self.text(key)
        if text is None:
            return None
        try:
            expression = parse_expression(text)
        except ExpressionError as error:
            self.fault(key, str(error), "Write names in expressions without braces: count > 10.")
            return None
        for sentence in expression.unsupported:
            advice = "Remove it, because an expression that contains it has no value."
            self.fault(key, sentence, advice, is_error=must_have_value)
        return expression

    def template(self, key: str, default: str | None = None) -> Template | None:
        text = self.text(key, default)
        if text is None:
            return None
        try:
            template = parse_template(text)
        except ExpressionError as error:
            self.fault(key, str(error), "Make it shorter.")
            return None
        for problem in template.errors:
            self.fault(key, f"{key}, line {problem.line}: {problem.message}", problem.suggestion)
        for problem in template.warnings:
            message = f"{key}, line {problem.line}: {problem.message} The placeholder is left unchanged."
            self.fault(key, message, problem.suggestion, is_error=False)
        return template

    def inner(self, config: Mapping[str, Any], *steps: str | int) -> ConfigReader:
        """Return a reader of a nested map, which is at `steps` from this map. Both share the list of faults."""
        return ConfigReader(config, (*self._path, *steps), self.faults)

    def fault(self, key: str | None, message: str, advice: str, *, is_error: bool = True) -> None:
        """Add an error or warning about a key, or about the whole map if the key is None."""
        path = self._path if key is None else (*self._path, key)
        self.faults.append(ConfigFault(path, message, advice, is_error))

    def finish(self) -> None:
        """Add a warning for each key that was not read."""
        for key in self._config:
            if key not in self._read_keys:
                advice = suggestion(shorten(str(key)), self._read_keys, noun="Known keys")
                message = f"{shorten(str(key))!r} is not a known key, and has no effect."
                self.fault(str(key), message, advice, is_error=False)

    def _read_typed(self, key: str, value_type: type[_T], expected: str, default: _T | None) -> _T | None:
        value = self.anything(key)
        if value is None:
            return default
        if isinstance(value, value_type):
            return value
        self.fault(key, f"{key} is {_describe(value)}.", f"Write {expected}.")
        return default


def read_empty_config(definition: CustomNode) -> tuple[None, list[ConfigFault]]:
    """Read the config of a kind without settings, for which every key leads to a warning."""
    reader = ConfigReader(definition.config)
    reader.finish()
    return None, reader.faults


def raise_errors(definition: CustomNode, faults: Iterable[ConfigFault]) -> None:
    """Raise WorkflowError if any of the faults are errors; warnings are ignored."""
    errors = [fault.problem(definition) for fault in faults if fault.is_error]
    if errors:
        raise WorkflowError(errors, source=f"Custom node {definition.id!r}")


def _parse_json(text: str) -> Any:
    """Parse JSON text; return any other text unchanged."""
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return text


def _describe(value: Any) -> str:
    if isinstance(value, str):
        return repr(shorten(value))
    return f"a {_TYPE_NAMES.get(cast(Any, type(value)), 'value')}: {shorten(str(value))}"


_TYPE_NAMES: Final[Mapping[type, str]] = {dict: "map", list: "list", bool: "boolean", int: "number", float: "number"}
"""The names of types in messages."""
