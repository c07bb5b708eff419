"""Conversion of updates to writes, which are the only way to change channels.

An update is a mapping, an instance of a dataclass or pydantic model, or a sequence of `(field, value)` pairs. If the
state consists of messages, it may also be a message or a list of messages. If the state is a single value, it is any
value. Depending on the option `unknown_keys`, unknown keys are dropped with a warning, refused, or dropped silently.
`graph/node_output.py` handles the other values that nodes may return.
"""

from __future__ import annotations

import dataclasses
import warnings
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Literal, Protocol, cast

from statewright.channels import Channel
from statewright.errors import InvalidUpdateError, UnknownKeyWarning, suggestion
from statewright.state.schema import ROOT
from statewright.text import short_repr

UnknownKeys = Literal["warn", "error", "drop"]
Writes = dict[str, Any] | list[tuple[str, Any]]
"""A dict of updates by channel if each channel is written once, which is nearly always so; otherwise pairs, in order.
"""


class IdSource(Protocol):
    """An object from whose id the ids of new messages are derived: a task, or one of several results of a task."""

    @property
    def id(self) -> str:
        """The prefix of derived ids. It is read only if it is needed, because it may be slow to compute."""
        ...


Check = Callable[[dict[str, Any]], dict[str, Any]]
"""Validates an update and returns it, possibly converted. Raises InvalidUpdateError."""


class UpdateReader:
    """Converts updates to writes to the channels of one graph."""

    def __init__(
        self,
        channels: Mapping[str, Channel],
        *,
        closed: bool,
        unknown_keys: UnknownKeys = "warn",
        bare_messages: str | None = None,
        check: Check | None = None,
    ) -> None:
        self._field_names = frozenset(channels)
        self._closed = closed
        self._unknown_keys = unknown_keys
        self._bare_messages = bare_messages
        """The field for messages that nodes return without naming a field; None if that is not permitted."""
        self._check = check
        self._preparing_channels = tuple((name, channel) for name, channel in channels.items() if channel.prepares)
        self._is_root = ROOT in channels
        """True if the state is a single value."""
        self._converts = bool(self._preparing_channels) or check is not None
        is_simple = closed and not (self._converts or self._is_root or bare_messages)
        self.plain_keys = self._field_names if is_simple else None
        """A dict that has only these keys need not be converted to writes. None if every update must be converted."""
        self._warned: set[tuple[str, str]] = set()
        self.refused = 0
        """The number of updates that were refused, for the metric graph_invalid_update_errors_total."""

    def read(self, update: Any, node: str, ids: IdSource) -> dict[str, Any]:
        """Return the writes of an update that `node` has returned.

        If nothing has to be converted, the update itself is returned, and the caller must copy it before storing it.
        New messages get ids derived from `ids`. Raises InvalidUpdateError if the value is not an update.
        """
        is_mapping = type(update) is dict and not self._is_root and not self._bare_messages
        return self.read_fields(cast(dict[str, Any], update) if is_mapping else self._mapping(update, node), node, ids)

    def read_fields(self, mapping: dict[str, Any], node: str, ids: IdSource) -> dict[str, Any]:
        """Return the writes of an update that is a dict of values by field."""
        if self._closed and not mapping.keys() <= self._field_names:
            mapping = self._without_unknown_keys(mapping, node)
        return self._convert(mapping, ids) if self._converts else mapping

    def unknown_key_problems(self, update: Any, node: str | None = "__start__") -> dict[str, str]:
        """Return a message for each key of an update that would be dropped with a warning or refused, by key.

        The update may also be a list of updates. `node` is the node that returns it, by default that of the input; None
        for an update from outside.
        """
        if isinstance(update, list) and not self.takes_lists:
            items = cast("list[Any]", update)
            return {key: text for item in items for key, text in self.unknown_key_problems(item, node).items()}
        return self._problems_of_keys(cast("Mapping[str, Any]", update), node) if isinstance(update, Mapping) else {}

    def _problems_of_keys(self, mapping: Mapping[str, Any], node: str | None) -> dict[str, str]:
        is_open = self._is_root or not self._closed or self._unknown_keys == "drop"
        if is_open or (self._bare_messages and _is_bare_message(mapping, self._field_names)):
            return {}
        return {str(key): self._describe_unknown_key(key, node) for key in mapping if key not in self._field_names}

    @property
    def takes_lists(self) -> bool:
        """True if a list can be an update: if the state is a single value, or consists of messages."""
        return self._is_root or self._bare_messages is not None

    def _mapping(self, update: Any, node: str) -> dict[str, Any]:
        """Return an update of any form as a dict of values by field."""
        if update is None:
            return {}
        if self._is_root:
            return {ROOT: update}
        if self._bare_messages and _is_bare_message(update, self._field_names):
            return {self._bare_messages: update}
        if isinstance(update, Mapping):
            return dict(cast(Mapping[str, Any], update))
        values = instance_values(update)
        if values is None:
            values = _pairs(update)
        if values is None:
            raise self._refuse(self._describe_invalid_update(update, node))
        return values

    def _describe_invalid_update(self, update: Any, node: str) -> str:
        value = f"{short_repr(update)} of type {type(update).__name__}"
        fields = ", ".join(map(repr, sorted(self._field_names))) or "none"
        if node == "__start__":
            return f"The input is {value}. Pass a mapping of fields. Fields: {fields}."
        return (
            f"Node {node!r} returned {value}, which is not an update. "
            f"Return a mapping of fields, None, a Command or a Send. Fields: {fields}."
        )

    def _without_unknown_keys(self, update: Mapping[str, Any], node: str) -> dict[str, Any]:
        unknown = [key for key in update if key not in self._field_names]
        for key in unknown:
            message = self._describe_unknown_key(key, node)
            if self._unknown_keys == "error":
                raise self._refuse(message)
            if self._unknown_keys == "warn" and (node, str(key)) not in self._warned:
                self._warned.add((node, str(key)))
                warnings.warn(f"{message} It was dropped.", UnknownKeyWarning, stacklevel=2)
        return {key: value for key, value in update.items() if key in self._field_names}

    def _describe_unknown_key(self, key: object, node: str | None) -> str:
        of_node = f"The update from node {node!r}" if node is not None else "The update"
        update = "The input" if node == "__start__" else of_node
        return f"{update} has the unknown key {key!r}. " + suggestion(str(key), self._field_names, noun="Fields")

    def _convert(self, update: dict[str, Any], ids: IdSource) -> dict[str, Any]:
        """Return an update with values that are validated, and prepared by the channels that do so."""
        writes = update if self._check is None else self._check(update)
        for name, channel in self._preparing_channels:
            if name in update:
                writes = dict(writes) if writes is update else writes
                writes[name] = channel.prepare(writes[name], ids.id)
        return writes

    def _refuse(self, message: str) -> InvalidUpdateError:
        """Count a refused update, and return the error to raise."""
        self.refused += 1
        return InvalidUpdateError(message)


def instance_values(value: Any) -> dict[str, Any] | None:
    """Return the values of the fields that are set in an instance of a dataclass or pydantic model, by field.

    A field counts as not set if both its value and its default are None, unless a pydantic model has recorded that it
    was set. Return None for any other value.
    """
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        fields = [(field.name, field.default is None) for field in dataclasses.fields(value)]
        explicit: set[str] = set()
    elif hasattr(model := cast(Any, type(cast(object, value))), "model_fields"):
        fields = [(name, info.default is None) for name, info in model.model_fields.items()]
        explicit = cast(Any, value).model_fields_set
    else:
        return None
    return {
        name: content
        for name, defaults_to_none in fields
        if (content := getattr(value, name)) is not None or not defaults_to_none or name in explicit
    }


def _pairs(update: Any) -> dict[str, Any] | None:
    """Return a sequence of (key, value) pairs as a dict; return None for anything else."""
    if not isinstance(update, list | tuple):
        return None
    items = cast(list[Any], update)
    pairs = [cast(tuple[Any, ...], item) for item in items if isinstance(item, tuple)]
    if not items or len(pairs) < len(items) or not all(len(pair) == 2 and isinstance(pair[0], str) for pair in pairs):
        return None
    return dict(cast(Iterable[tuple[str, Any]], items))


def _is_bare_message(update: Any, field_names: frozenset[str]) -> bool:
    """Return whether an update is a message or a list of messages, rather than a mapping with the name of a field."""
    return not (isinstance(update, Mapping) and any(key in field_names for key in cast(Mapping[str, Any], update)))
