"""Conditions on records as SQL: text with placeholders, and their values."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any, Final

from statewright.errors import InvalidConfig, SerdeError, suggestion
from statewright.runs import Among, Condition, Order, Record, Where
from statewright.storage.sqlite.ledger.tables import Table, Tables

Text = tuple[str, list[Any]]
"""Part of a statement, and the values for its question marks."""
_COMPARED: Final = {"=": "=", "!=": "IS NOT", "<": "<", "<=": "<=", ">": ">", ">=": ">="}
_MOST: Final = 1024
"""Values of a sequence that are question marks each; more are one, as a list."""


def conditions(tables: Tables, kind: type[Record], where: Where) -> Text:
    """Return the SQL text of conditions, joined by AND."""
    if not where:
        return "1", []
    table = tables[kind]
    texts: list[str] = []
    values: list[Any] = []
    for one in where:
        text, more = _condition(tables, table, one)
        texts.append(text)
        values += more
    return " AND ".join(texts), values


def _condition(tables: Tables, table: Table[Any], condition: Condition) -> Text:
    name, operator, value = condition
    table.check_column(name, searched=True)
    if operator == "in":
        if isinstance(value, Among):
            return _among(tables, table, name, value)
        return _in(table, name, value)
    compared = _COMPARED.get(operator)
    if compared is None:
        raise InvalidConfig(
            f"Unknown operator {operator!r} on {table.name}.{name}. "
            + suggestion(operator, [*_COMPARED, "in"], noun="Operators")
        )
    if value is not None:
        return f'"{name}" {compared} ?', [table.encoded(name, value)]
    return {"=": f'"{name}" IS NULL', "!=": f'"{name}" IS NOT NULL'}.get(operator, "0"), []


def _in(table: Table[Any], name: str, wanted: Sequence[Any]) -> Text:
    values = [table.encoded(name, value) for value in wanted if value is not None]
    text, marks = ("0", values) if not values else _listed(table, name, values)
    if any(value is None for value in wanted):
        text = f'({text} OR "{name}" IS NULL)'
    return text, marks


def _listed(table: Table[Any], name: str, values: list[Any]) -> Text:
    """Return a list padded to one of a few lengths, so that there are few statements."""
    if len(values) <= _MOST:
        length = 1 << (len(values) - 1).bit_length()
        values = values + values[-1:] * (length - len(values))
        return f'"{name}" IN ({", ".join("?" * length)})', values
    if any(isinstance(value, str) and "\0" in value for value in values):  # SQLite would cut it there
        raise SerdeError(f"{table.name}.{name}", f"of more than {_MOST} values none may hold the sign of number 0")
    return f'"{name}" IN (SELECT value FROM json_each(?))', [json.dumps(values)]


def _among(tables: Tables, table: Table[Any], name: str, among: Among) -> Text:
    other = tables[among.record]
    other.check_column(among.column, searched=True)
    fitting, values = conditions(tables, among.record, among.where)
    text = f'"{name}" IN (SELECT "{among.column}" FROM "{other.name}" WHERE {fitting})'
    if not (table.columns[name].optional and other.columns[among.column].optional):
        return text, values
    none = f'EXISTS (SELECT 1 FROM "{other.name}" WHERE {fitting} AND "{among.column}" IS NULL)'
    return f'({text} OR ("{name}" IS NULL AND {none}))', values + values


def ordered(table: Table[Any], order: Order | None) -> str:
    """Return the ORDER BY clause, with ids as the last column."""
    if order is None:
        return '"id"'
    table.check_column(order.column, searched=True)
    return f'"{order.column}"{" DESC" if order.descending else ""}, "id"'
