"""The types of mappings, each of which computes one field of the output.

A mapping receives the data, including the fields computed before, and returns a JSON value or raises StatewrightError.
Values are data: templates or scripts inside them are never evaluated.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final, Protocol, cast

from statewright.errors import ExpressionError
from statewright.workflow.states.expressions import Expression
from statewright.workflow.states.expressions.paths import MISSING, follow_path, parse_path
from statewright.workflow.states.language.yaml.nodes import shorten
from statewright.workflow.states.nodes.config import ConfigReader
from statewright.workflow.states.templates import Template
from statewright.workflow.states.templates.template import Report

Data = dict[str, Any]
"""JSON values by name. They must not be modified."""


class FieldMapping(Protocol):
    """Computes the value of one field."""

    def compute(self, data: Data, report: Report | None = None) -> Any:
        """Return the value; `report` is called with undefined placeholders. Raises StatewrightError."""
        ...


@dataclass(frozen=True, slots=True)
class ExtractMapping:
    """A part of the data; the default if it is missing or null."""

    path: str
    default: Any = None

    def compute(self, data: Data, report: Report | None = None) -> Any:
        value = find_value(data, self.path)
        return self.default if value is None else value


@dataclass(frozen=True, slots=True)
class ConditionMapping:
    """One of two values, depending on a condition. A condition that cannot be evaluated is false."""

    condition: Expression
    then_value: Any = True
    else_value: Any = False

    def compute(self, data: Data, report: Report | None = None) -> Any:
        try:
            return self.then_value if self.condition.evaluate(data) else self.else_value
        except ExpressionError:
            return self.else_value


@dataclass(frozen=True, slots=True)
class TemplateMapping:
    """A rendered template."""

    template: Template

    def compute(self, data: Data, report: Report | None = None) -> str:
        return self.template.render(data, report=report)


@dataclass(frozen=True, slots=True)
class ConstantMapping:
    """A constant value."""

    constant: Any

    def compute(self, data: Data, report: Report | None = None) -> Any:
        return self.constant


@dataclass(frozen=True, slots=True)
class ScriptMapping:
    """The value of an expression."""

    script: Expression

    def compute(self, data: Data, report: Report | None = None) -> Any:
        return self.script.evaluate(data)


@dataclass(frozen=True, slots=True)
class ArrayMapping:
    """A field of each item of a list, without nulls. A condition on `item` may filter the items."""

    path: str
    field: str | None = None
    """The path of the field within an item; None for the items themselves."""
    condition: Expression | None = None
    default: Any = None
    """Used if the list is missing or null."""

    def compute(self, data: Data, report: Report | None = None) -> Any:
        items = find_value(data, self.path)
        if items is None:
            return [] if self.default is None else self.default
        if not isinstance(items, list):
            raise ExpressionError(f"{shorten(self.path)!r} must be a list, but is {shorten(str(items))!r}.")
        selected = (item for item in cast("list[Any]", items) if self._is_selected(item))
        values = (item if self.field is None else find_value(item, self.field) for item in selected)
        return [value for value in values if value is not None]

    def _is_selected(self, item: Any) -> bool:
        if self.condition is None:
            return True
        try:
            return bool(self.condition.evaluate({"item": item}))
        except ExpressionError:
            return False


def find_value(value: Any, path: str) -> Any:
    """Return the value at a path; None if there is none. A key that equals the whole path takes precedence."""
    if isinstance(value, dict) and path in value:
        return cast("dict[str, Any]", value)[path]
    steps = parse_path(path)
    part = follow_path(value, steps) if steps is not None else MISSING
    return None if part is MISSING else part


# -- reading mappings from a config


def _read_extract(reader: ConfigReader) -> FieldMapping | None:
    path = _read_path(reader)
    return ExtractMapping(path, reader.anything("default")) if path is not None else None


def _read_condition(reader: ConfigReader) -> FieldMapping | None:
    condition = reader.required("condition", reader.expression("condition"), "a test, such as count > 10")
    then_value, else_value = reader.anything("then_value", True), reader.anything("else_value", False)
    return ConditionMapping(condition, then_value, else_value) if condition is not None else None


def _read_template(reader: ConfigReader) -> FieldMapping | None:
    template = reader.required("template", reader.template("template"), "a text with {{names}}")
    return TemplateMapping(template) if template is not None else None


def _read_constant(reader: ConfigReader) -> FieldMapping | None:
    if not reader.has_key("value"):
        reader.fault("value", "value is missing.", "Write the value, which may be null.")
    return ConstantMapping(reader.anything("value"))


def _read_script(reader: ConfigReader) -> FieldMapping | None:
    script = reader.required("script", reader.expression("script", must_have_value=True), "an expression")
    return ScriptMapping(script) if script is not None else None


def _read_array_map(reader: ConfigReader) -> FieldMapping | None:
    path, field = _read_path(reader), reader.path("item_field")
    condition, default = reader.expression("filter_condition"), reader.anything("default")
    return ArrayMapping(path, field, condition, default) if path is not None else None


def _read_path(reader: ConfigReader) -> str | None:
    return reader.required("source_path", reader.path("source_path"), "names with dots, such as user.name")


READERS: Final[Mapping[str, Callable[[ConfigReader], FieldMapping | None]]] = {
    "extract": _read_extract,
    "condition": _read_condition,
    "template": _read_template,
    "constant": _read_constant,
    "script": _read_script,
    "array_map": _read_array_map,
}
"""Readers of mappings, by `type`. They report faults, and return None for an invalid mapping."""
