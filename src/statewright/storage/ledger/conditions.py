"""Conditions on records as SQL: text with placeholders, and their values."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any, Final

from statewright.errors import InvalidConfig, suggestion
from statewright.runs import Among, Condition, Order, Record, Where
from statewright.storage.ledger.tables import Table, Tables
from statewright.text import ascii_lower

Sql = tuple[str, list[Any]]
"""A part of a statement, and the values for its placeholders."""
_OPERATORS: Final = ("=", "!=", "<", "<=", ">", ">=")
_MAX_PLACEHOLDERS: Final = 1024
"""Values of `in` with a placeholder each. More are passed together, as a JSON list."""


def conditions(tables: Tables, kind: type[Record], where: Where) -> Sql:
    """Return conditions in SQL, joined by AND."""
    if not where:
        return "TRUE", []
    table = tables[kind]
    texts: list[str] = []
    values: list[Any] = []
    for condition in where:
        text, parameters = _condition(tables, table, condition)
        texts.append(text)
        values += parameters
    return " AND ".join(texts), values


def _condition(tables: Tables, table: Table[Any], condition: Condition) -> Sql:
    name, operator, value = condition
    if operator == "any":
        return _any(tables, table, value)
    table.check_column(name, searched=True)
    if operator == "in":
        if isinstance(value, Among):
            return _among(tables, table, name, value)
        return _in(tables, table, name, value)
    if operator == "contains":
        return _contains(table, name, value)
    if operator not in _OPERATORS:
        raise InvalidConfig(
            f"Unknown operator {operator!r} on {table.name}.{name}. "
            + suggestion(operator, [*_OPERATORS, "in", "contains", "any"], noun="Operators")
        )
    if value is None:
        return {"=": f'"{name}" IS NULL', "!=": f'"{name}" IS NOT NULL'}.get(operator, "FALSE"), []
    if operator in ("=", "!=") and _is_unstorable(value):
        return "FALSE" if operator == "=" else "TRUE", []
    text = f'("{name}" <> ? OR "{name}" IS NULL)' if operator == "!=" else f'"{name}" {operator} ?'
    return text, [table.encoded(name, value)]


def _any(tables: Tables, table: Table[Any], alternatives: Sequence[Where]) -> Sql:
    """Return the condition that at least one of several lists of conditions is met."""
    texts: list[str] = []
    values: list[Any] = []
    for where in alternatives:
        text, parameters = conditions(tables, table.kind, where)
        texts.append(f"({text})")
        values += parameters
    return f"({' OR '.join(texts) or 'FALSE'})", values


def _contains(table: Table[Any], name: str, value: str) -> Sql:
    """Return the condition that a text contains another one. Both databases know `lower` for ASCII letters at least."""
    if table.columns[name].kind not in ("text", "status"):
        raise InvalidConfig(f"{table.name}.{name} is not a text, so it contains no other text.")
    if _is_unstorable(value):
        return "FALSE", []
    pattern = ascii_lower(value).replace("\\", "\\\\").replace("%", "\\%").replace("_", "\\_")
    return f"lower(\"{name}\") LIKE ? ESCAPE '\\'", [f"%{pattern}%"]


def _in(tables: Tables, table: Table[Any], name: str, candidates: Sequence[Any]) -> Sql:
    values = [table.encoded(name, value) for value in candidates if value is not None and not _is_unstorable(value)]
    text, parameters = ("FALSE", values) if not values else _in_list(tables, table, name, values)
    if any(value is None for value in candidates):
        text = f'({text} OR "{name}" IS NULL)'
    return text, parameters


def _is_unstorable(value: Any) -> bool:
    """Return whether no record can have a value, because of a null character."""
    return isinstance(value, str) and "\0" in value


def _in_list(tables: Tables, table: Table[Any], name: str, values: list[Any]) -> Sql:
    """Return the condition with a list padded to a power of two, so that few statements need to be prepared."""
    if tables.has_arrays:
        return f'"{name}" = ANY (?)', [values]
    if len(values) <= _MAX_PLACEHOLDERS:
        length = 1 << (len(values) - 1).bit_length()
        values = values + values[-1:] * (length - len(values))
        return f'"{name}" IN ({", ".join("?" * length)})', values
    return f'"{name}" IN ({tables.sql["values_of_list"]})', [json.dumps(values)]


def _among(tables: Tables, table: Table[Any], name: str, among: Among) -> Sql:
    source = tables[among.record]
    source.check_column(among.column, searched=True)
    condition, values = conditions(tables, among.record, among.where)
    text = f'"{name}" IN (SELECT "{among.column}" FROM "{source.name}" WHERE {condition})'
    if not (table.columns[name].optional and source.columns[among.column].optional):
        return text, values
    # SQL does not find NULL by IN.
    has_null = f'EXISTS (SELECT 1 FROM "{source.name}" WHERE {condition} AND "{among.column}" IS NULL)'
    return f'({text} OR ("{name}" IS NULL AND {has_null}))', values + values


def order_by(table: Table[Any], order: Order | None) -> str:
    """Return the columns of an ORDER BY clause, with the id as the last one."""
    if order is None:
        return '"id"'
    table.check_column(order.column, searched=True)
    direction = "DESC NULLS LAST" if order.descending else "ASC NULLS FIRST"  # which databases do not agree on
    return f'"{order.column}" {direction}, "id"'
