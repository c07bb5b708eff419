"""The types of mappings, each of which computes one field of the output.

A mapping receives the data with the fields computed before it, and returns a JSON value or raises StatewrightError.
Values are data: a template or script within one is never run.
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
"""JSON values by name, for mappings. It must not be modified."""


class FieldValue(Protocol):
    """Computes the value of one field."""

    def value(self, data: Data, report: Report | None = None) -> Any:
        """Return the value; `report` is called with undefined placeholders. Raises StatewrightError."""
        ...


@dataclass(frozen=True, slots=True)
class Extract:
    """A part of the data; the default if it is missing or null."""

    path: str
    default: Any = None

    def value(self, data: Data, report: Report | None = None) -> Any:
        value = get_at(data, self.path)
        return self.default if value is None else value


@dataclass(frozen=True, slots=True)
class ConditionMapping:
    """One of two values. A condition that cannot be evaluated is false."""

    condition: Expression
    then_value: Any = True
    else_value: Any = False

    def value(self, data: Data, report: Report | None = None) -> Any:
        try:
            return self.then_value if self.condition.evaluate(data) else self.else_value
        except ExpressionError:
            return self.else_value


@dataclass(frozen=True, slots=True)
class TemplateMapping:
    """A rendered template."""

    template: Template

    def value(self, data: Data, report: Report | None = None) -> str:
        return self.template.render(data, report=report)


@dataclass(frozen=True, slots=True)
class Constant:
    """A constant."""

    constant: Any

    def value(self, data: Data, report: Report | None = None) -> Any:
        return self.constant


@dataclass(frozen=True, slots=True)
class Script:
    """The value of an expression."""

    script: Expression

    def value(self, data: Data, report: Report | None = None) -> Any:
        return self.script.evaluate(data)


@dataclass(frozen=True, slots=True)
class ArrayMap:
    """A field of each item of a list, without nulls; a condition over `item` may filter the items."""

    path: str
    field: str | None = None
    """The path of the field; None for the items themselves."""
    condition: Expression | None = None
    default: Any = None
    """Used if the list is missing or null."""

    def value(self, data: Data, report: Report | None = None) -> Any:
        items = get_at(data, self.path)
        if items is None:
            return [] if self.default is None else self.default
        if not isinstance(items, list):
            raise ExpressionError(f"{shorten(self.path)!r} is not a list, but {shorten(str(items))!r}.")
        selected = (item for item in cast("list[Any]", items) if self._is_selected(item))
        values = (item if self.field is None else get_at(item, self.field) for item in selected)
        return [value for value in values if value is not None]

    def _is_selected(self, item: Any) -> bool:
        if self.condition is None:
            return True
        try:
            return bool(self.condition.evaluate({"item": item}))
        except ExpressionError:
            return False


def get_at(value: Any, path: str) -> Any:
    """Return the value at a path; None if there is none. A key that equals the whole path comes first."""
    if isinstance(value, dict) and path in value:
        return cast("dict[str, Any]", value)[path]
    steps = parse_path(path)
    part = follow_path(value, steps) if steps is not None else MISSING
    return None if part is MISSING else part


# -- reading mappings from a config


def _read_extract(reader: ConfigReader) -> FieldValue | None:
    path = _read_path(reader)
    return Extract(path, reader.anything("default")) if path is not None else None


def _read_condition(reader: ConfigReader) -> FieldValue | None:
    condition = reader.required("condition", reader.expression("condition"), "a test, such as count > 10")
    then_value, else_value = reader.anything("then_value", True), reader.anything("else_value", False)
    return ConditionMapping(condition, then_value, else_value) if condition is not None else None


def _read_template(reader: ConfigReader) -> FieldValue | None:
    template = reader.required("template", reader.template("template"), "a text with {{names}}")
    return TemplateMapping(template) if template is not None else None


def _read_constant(reader: ConfigReader) -> FieldValue | None:
    if not reader.has_key("value"):
        reader.fault("value", "value is missing.", "Write the value, which may be null.")
    return Constant(reader.anything("value"))


def _read_script(reader: ConfigReader) -> FieldValue | None:
    script = reader.required("script", reader.expression("script", must_have_value=True), "an expression")
    return Script(script) if script is not None else None


def _read_array_map(reader: ConfigReader) -> FieldValue | None:
    path, field = _read_path(reader), reader.path("item_field")
    condition, default = reader.expression("filter_condition"), reader.anything("default")
    return ArrayMap(path, field, condition, default) if path is not None else None


def _read_path(reader: ConfigReader) -> str | None:
    return reader.required("source_path", reader.path("source_path"), "names with dots, such as user.name")


READERS: Final[Mapping[str, Callable[[ConfigReader], FieldValue | None]]] = {
    "extract": _read_extract,
    "condition": _read_condition,
    "template": _read_template,
    "constant": _read_constant,
    "script": _read_script,
    "array_map": _read_array_map,
}
"""Readers of mappings by type. They report faults, and return None for an invalid mapping."""
