"""Edits of a state as requests describe them: values for fields, some of which replace the values that are there.

An update passes through the reducer of its field, as that of a node does: a list is appended to, messages are merged by
id. That is of no use to a person who corrects a value. So a request can name fields to overwrite, whose values replace
the old ones. No reducer sees them, so they are checked here against the types of the fields: an impossible value would
otherwise be found only by the next node. All problems are reported together, each with the path of its field.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any, cast

from statewright.channels import Overwrite, find_overwrite, is_overwrite
from statewright.errors import InvalidRequest, StatewrightError
from statewright.graph import END, START
from statewright.runtime import CompiledGraph
from statewright.service.operations.input_check import refuse_unknown_keys
from statewright.state import FieldCheck


def prepare_edit(app: CompiledGraph, values: Any, overwrite: Collection[str], as_node: str | None) -> Any:
    """Return the update of a state in which the values of the fields to `overwrite` replace the old ones.

    Raises InvalidRequest for unknown fields, for fields to overwrite that have no value, and for values that do not
    have the type of their field.
    """
    updates = app.program.start.updates if as_node == START else app.program.updates
    subject = f"Graph {app.name!r}"
    refuse_unknown_keys(updates.unknown_key_problems(values, as_node if as_node != END else None), subject, "values")
    if not isinstance(values, Mapping):
        if overwrite:
            raise _invalid(subject, {"overwrite": "names fields, but `values` is not an object that has them"})
        return values
    fields = dict(cast("Mapping[str, Any]", values))
    problems = {
        f"overwrite.{name}": f"is not in `values`: {_names(fields)}" for name in overwrite if name not in fields
    }
    for name in fields:
        if name in overwrite or is_overwrite(fields[name]):
            value = find_overwrite((fields[name],)) if is_overwrite(fields[name]) else fields[name]
            try:
                fields[name] = Overwrite(_checked(app, name, value))
            except Exception as error:  # of the schema, or of a channel
                problems[f"values.{name}"] = str(error)
    if problems:
        raise _invalid(subject, problems)
    return fields


def _checked(app: CompiledGraph, name: str, value: Any) -> Any:
    """Return a value that will replace that of a field, converted to the type of the field if needed."""
    channel, field = app.graph.channels.get(name), app.graph.fields.get(name)
    if channel is not None and channel.prepares:  # it accepts more than its type, such as messages as dicts
        return channel.prepare(Overwrite(value), "edit").value
    return FieldCheck(field)(value) if field is not None else value


def refusal_of(error: Exception, values: Any, subject: str) -> InvalidRequest:
    """Return the error of a request whose values a graph has rejected. It names the field if that is known."""
    names = list(cast("Mapping[str, Any]", values)) if isinstance(values, Mapping) else list[str]()
    notes = "\n".join((str(error), *getattr(error, "__notes__", ())))
    name = next((name for name in names if f"Field {name!r}" in notes or f"channel {name!r}" in notes), None)
    if name is not None:
        return _invalid(subject, {f"values.{name}": str(error)})
    return InvalidRequest(str(error) if isinstance(error, StatewrightError) else f"{type(error).__name__}: {error}")


def _invalid(subject: str, problems: Mapping[str, str]) -> InvalidRequest:
    details = [{"path": path, "message": message} for path, message in problems.items()]
    text = " ".join(f"{path}: {message.rstrip('.')}." for path, message in problems.items())
    return InvalidRequest(f"{subject} does not accept the edit. {text}", details={"problems": details})


def _names(fields: Mapping[str, Any]) -> str:
    return f"it has {', '.join(map(repr, fields))}" if fields else "it is empty"
