"""Conversion of updates to writes, which is the only way into the channels.

An update is a mapping, an instance of an annotated class, a sequence of pairs, a message if the state consists of
messages, or a bare value if the state is a single value. Unknown keys are dropped with a warning, refused or ignored,
as the graph is configured; nothing else is lost. `graph/answer.py` takes apart what a
node may answer besides updates.
"""

from __future__ import annotations

import dataclasses
import warnings
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Literal, Protocol, cast

from statewright.channels import Channel
from statewright.errors import InvalidUpdateError, UnknownKeyWarning, suggestion
from statewright.shorten import short_repr
from statewright.state.schema import ROOT

UnknownKeys = Literal["warn", "error", "drop"]
Writes = dict[str, Any] | list[tuple[str, Any]]
"""A dict where each channel is written once, which is nearly always; else pairs in order."""


class IdSource(Protocol):
    """A source of derived ids: a task, or a part of its result. Read only if ids are needed."""

    @property
    def id(self) -> str: ...


Check = Callable[[dict[str, Any]], dict[str, Any]]
"""Validates an update, and returns it. Raises InvalidUpdateError."""


class UpdateReader:
    """Turns updates into writes to the channels of one graph."""

    def __init__(
        self,
        channels: Mapping[str, Channel],
        *,
        closed: bool,
        unknown_keys: UnknownKeys = "warn",
        bare_messages: str | None = None,
        check: Check | None = None,
    ) -> None:
        self._known = frozenset(channels)
        self._closed = closed
        self._unknown_keys = unknown_keys
        self._bare_messages = bare_messages
        """The channel that takes messages answered without a mapping, if the graph allows that."""
        self._check = check
        self._preparing = tuple((name, channel) for name, channel in channels.items() if channel.prepares)
        self._root = ROOT in channels
        self._plain = not self._preparing and check is None
        self.known_plain = self._known if self._plain and closed and not self._root and not bare_messages else None
        """The keys of an update that needs no reading if it is a dict and has no others; None if all need it."""
        self._warned: set[tuple[str, str]] = set()
        self.refused = 0
        """How many updates were refused; the metric graph_invalid_update_errors_total."""

    def read(self, update: Any, node: str, ids: IdSource) -> dict[str, Any]:
        """Return the writes of an update.

        The mapping itself is returned where nothing about it has to change: the caller copies it if it keeps it.
        Raises InvalidUpdateError for what is no update.
        """
        usual = type(update) is dict and not self._root and not self._bare_messages
        return self.read_fields(cast(dict[str, Any], update) if usual else self._mapping(update, node), node, ids)

    def read_fields(self, mapping: dict[str, Any], node: str, ids: IdSource) -> dict[str, Any]:
        """Return the writes of a mapping of fields, which is neither a message nor a bare value."""
        if self._closed and not mapping.keys() <= self._known:
            mapping = self._without_unknown(mapping, node)
        return mapping if self._plain else self._finished(mapping, ids)

    def unknown_in(self, update: Any) -> str | None:
        """Return a sentence about the first unknown key of an input; None if all keys are allowed."""
        is_open = self._root or not self._closed or self._unknown_keys == "drop"
        if is_open or not isinstance(update, Mapping):
            return None
        mapping = cast("Mapping[Any, Any]", update)
        if self._bare_messages and _is_bare_message(mapping, self._known):
            return None
        unknown = next((key for key in mapping if key not in self._known), None)
        return None if unknown is None else self._told_unknown(unknown, "__start__")

    @property
    def takes_lists(self) -> bool:
        """True if a list may be an update: of a bare value, or of messages."""
        return self._root or self._bare_messages is not None

    def _mapping(self, update: Any, node: str) -> dict[str, Any]:
        if update is None:
            return {}
        if self._root:
            return {ROOT: update}
        if self._bare_messages and _is_bare_message(update, self._known):
            return {self._bare_messages: update}
        if isinstance(update, Mapping):
            return dict(cast(Mapping[str, Any], update))
        values = instance_values(update)
        if values is None:
            values = _pairs(update)
        if values is None:
            raise self._refusal(self._no_update(update, node))
        return values

    def _no_update(self, update: Any, node: str) -> str:
        found = f"{short_repr(update)} of type {type(update).__name__}"
        if node == "__start__":
            return f"The input is {found}. Give a mapping with some of {_names(self._known)}."
        return (
            f"Node {node!r} answered {found}, which is no update. "
            f"Return a mapping with some of {_names(self._known)}, None, a Command or a Send."
        )

    def _without_unknown(self, update: Mapping[str, Any], node: str) -> dict[str, Any]:
        unknown = [key for key in update if key not in self._known]
        for key in unknown:
            hint = self._told_unknown(key, node)
            if self._unknown_keys == "error":
                raise self._refusal(hint)
            if self._unknown_keys == "warn" and (node, str(key)) not in self._warned:
                self._warned.add((node, str(key)))
                warnings.warn(f"{hint} It was dropped.", UnknownKeyWarning, stacklevel=2)
        return {key: value for key, value in update.items() if key in self._known}

    def _told_unknown(self, key: object, node: str) -> str:
        return f"{_from(node)} unknown key {key!r}. " + suggestion(str(key), self._known, noun="Fields")

    def _finished(self, update: dict[str, Any], ids: IdSource) -> dict[str, Any]:
        """Return the update with checked values, and with ids for channels that need them."""
        finished = update if self._check is None else self._check(update)
        for name, channel in self._preparing:
            if name in update:
                finished = dict(finished) if finished is update else finished
                finished[name] = channel.prepare(finished[name], ids.id)
        return finished

    def _refusal(self, message: str) -> InvalidUpdateError:
        self.refused += 1
        return InvalidUpdateError(message)


def instance_values(value: Any) -> dict[str, Any] | None:
    """Return the set fields of a dataclass or pydantic instance; None for any other value.

    A field that is None, has None as its default and was not set explicitly says nothing.
    """
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        fields = [(field.name, field.default is None) for field in dataclasses.fields(value)]
        explicit: set[str] = set()
    elif hasattr(model := cast(Any, type(cast(object, value))), "model_fields"):
        fields = [(name, info.default is None) for name, info in model.model_fields.items()]
        explicit = cast(Any, value).model_fields_set
    else:
        return None
    read = ((name, getattr(value, name), may_skip and name not in explicit) for name, may_skip in fields)
    return {name: content for name, content, may_skip in read if not (may_skip and content is None)}


def _pairs(update: Any) -> dict[str, Any] | None:
    """Return a sequence of (key, value) pairs as a dict; None for anything else."""
    if not isinstance(update, list | tuple):
        return None
    items = cast(list[Any], update)
    pairs = [cast(tuple[Any, ...], item) for item in items if isinstance(item, tuple)]
    if not items or len(pairs) < len(items) or not all(len(pair) == 2 and isinstance(pair[0], str) for pair in pairs):
        return None
    return dict(cast(Iterable[tuple[str, Any]], items))


def _is_bare_message(update: Any, known: frozenset[str]) -> bool:
    """Return whether a result consists of messages; only a mapping with a key of the schema is an update instead."""
    return not (isinstance(update, Mapping) and any(key in known for key in cast(Mapping[str, Any], update)))


def _from(node: str) -> str:
    return "The input holds the" if node == "__start__" else f"The update from node {node!r} holds the"


def _names(names: Iterable[str]) -> str:
    return ", ".join(repr(name) for name in sorted(names)) or "no fields"
