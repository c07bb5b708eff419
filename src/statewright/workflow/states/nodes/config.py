"""Validation of the `config` of custom nodes.

A reader collects all faults, so that they are reported together. Each kind has one function that reads its config: the
check of the file uses the faults, and the node the values. Keys that the function does not read are warnings.
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
    """How to correct it."""
    is_error: bool = True
    """False for a warning: accepted, but probably a mistake."""

    def problem(self, definition: CustomNode, node_path: Path = ()) -> Problem:
        """Return the fault as a problem of the node, which is at `node_path` in the file."""
        return problem_at(definition.at, self.message, self.suggestion, path=(*node_path, *self.path))


class ConfigReader:
    """Reads one map of a config, and collects errors and warnings in `faults`.

    The methods `text`, `flag`, `items` and `texts` return the value of a key. A value of another type is a fault, and
    the default is returned instead.
    """

    def __init__(
        self, config: Mapping[str, Any], path: Path = ("config",), faults: list[ConfigFault] | None = None
    ) -> None:
        self._config = config
        self._path = path
        self._read: set[str] = set()
        self.faults: list[ConfigFault] = [] if faults is None else faults

    def has_key(self, key: str) -> bool:
        """Return whether the key is present, even if its value is null."""
        self._read.add(key)
        return key in self._config

    def anything(self, key: str, default: Any = None) -> Any:
        """Return the value of a key of any type."""
        self._read.add(key)
        return self._config.get(key, default)

    def text(self, key: str, default: str | None = None) -> str | None:
        return self._typed(key, str, "a text", default)

    def path(self, key: str, example: str = "names with dots, such as user.name") -> str | None:
        """Return a path into JSON data, as text."""
        path = self.text(key)
        if path is not None and parse_path(path) is None:
            self.fault(key, f"{shorten(path)!r} is not a path.", f"Write {example}.")
        return path

    def flag(self, key: str, default: bool = False) -> bool:
        return bool(self._typed(key, bool, "true or false", default))

    def items(self, key: str) -> list[Any]:
        return self._typed(key, cast("type[list[Any]]", list), "a list", None) or []

    def texts(self, key: str) -> tuple[str, ...]:
        """Return one text or a list of texts as a tuple."""
        value = self.anything(key)
        items = cast("list[Any]", value if isinstance(value, list) else [] if value is None else [value])
        if not all(isinstance(item, str) for item in items):
            self.fault(key, f"{key} is {_describe(value)}.", "Write a text, or a list of texts.")
            return ()
        return tuple(items)

    def map(self, key: str) -> dict[str, Any] | None:
        """Return a map, which may also be written as JSON text."""
        value = self.anything(key)
        if isinstance(value, str) and value.strip():
            value = _parse_json(value)
        if isinstance(value, dict):
            return cast("dict[str, Any]", value)
        if value is not None and value != "":
            self.fault(key, f"{key} is {_describe(self.anything(key))}.", "Write a map.")
        return None

    def choice(self, key: str, choices: Iterable[str], default: str) -> str:
        """Return one of several words."""
        value = self.text(key, default) or default
        words = tuple(choices)
        if value in words:
            return value
        self.fault(key, f"{key} is {_describe(value)}.", suggestion(value, words, noun="Known"))
        return default

    def required(self, key: str, value: _T | None, expected: str) -> _T | None:
        """Return the value that was read from a key, and report the key if it is missing."""
        if value is None and self._config.get(key) is None:
            self.fault(key, f"{key} is missing.", f"Write {expected}.")
        return value

    def expression(self, key: str, *, must_have_value: bool = False) -> Expression | None:
        """Return a parsed expression. Unsupported constructs are warnings, or errors with `must_have_value`."""
        text = self.text(key)
        if text is None:
            return None
        try:
            expression = parse_expression(text)
        except ExpressionError as error:
            self.fault(key, str(error), "Write names in expressions without braces: count > 10.")
            return None
        for sentence in expression.unsupported:
            self.fault(key, sentence, "Remove it: with it, the expression has no value.", is_error=must_have_value)
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
        """Return a reader of a nested map that shares the list of faults."""
        return ConfigReader(config, (*self._path, *steps), self.faults)

    def fault(self, key: str | None, message: str, advice: str, *, is_error: bool = True) -> None:
        """Report an error or warning about a key, or about the whole map."""
        path = self._path if key is None else (*self._path, key)
        self.faults.append(ConfigFault(path, message, advice, is_error))

    def finish(self) -> None:
        """Warn about the keys that were not read."""
        for key in self._config:
            if key not in self._read:
                advice = suggestion(shorten(str(key)), self._read, noun="Known keys")
                message = f"{shorten(str(key))!r} is not a known key, and has no effect."
                self.fault(str(key), message, advice, is_error=False)

    def _typed(self, key: str, value_type: type[_T], expected: str, default: _T | None) -> _T | None:
        value = self.anything(key)
        if value is None:
            return default
        if isinstance(value, value_type):
            return value
        self.fault(key, f"{key} is {_describe(value)}.", f"Write {expected}.")
        return default


def read_empty_config(definition: CustomNode) -> tuple[None, list[ConfigFault]]:
    """Read the config of a kind without settings: every key is a fault."""
    reader = ConfigReader(definition.config)
    reader.finish()
    return None, reader.faults


def raise_errors(definition: CustomNode, faults: Iterable[ConfigFault]) -> None:
    """Raise WorkflowError if any of the faults are errors; warnings are ignored."""
    errors = [fault.problem(definition) for fault in faults if fault.is_error]
    if errors:
        raise WorkflowError(errors, source=f"Custom node {definition.id!r}")


def _parse_json(text: str) -> Any:
    """Parse a text; return it unchanged if it is not JSON."""
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return text


def _describe(value: Any) -> str:
    if isinstance(value, str):
        return repr(shorten(value))
    return f"a {_NOUNS.get(cast(Any, type(value)), 'value')}: {shorten(str(value))}"


_NOUNS: Final[Mapping[type, str]] = {dict: "map", list: "list", bool: "boolean", int: "number", float: "number"}
"""Names of types in messages."""
