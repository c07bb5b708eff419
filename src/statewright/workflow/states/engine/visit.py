"""Visits: records of the executions of states, from which contexts, histories and results are derived.

Visits are immutable once they are stored. Each names the visits that it follows, so the visits of a run form a graph: a
branch sees its ancestors, and no branch needs a copy of the context. Iterating over a thousand items adds a thousand
small records, however large the context is.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields
from typing import Any, Final, Literal

from statewright.channels import Append
from statewright.checkpoint import register_codec
from statewright.workflow.states.expressions.output import ParsedOutput
from statewright.workflow.states.expressions.paths import resolve_items

ANSWER: Final = ""
"""The `state` of a visit that records an answer at a breakpoint."""


@dataclass(slots=True)
class ItemRef:
    """Reference to the item of a branch: a part of a split result, or an output that replaced such a part."""

    visit_id: str
    key: str | None = None
    """The iter_key by which the result of the visit was split; None if its whole output is the item."""
    index: int = 0


@dataclass(frozen=True, slots=True)
class Effects:
    """Effects of a visit on the context and the history."""

    stores_result: bool = True
    """True if the keys of the visit's result are written to the context."""
    output_key: str | None = None
    """The key of the context to which the output is written as a whole."""
    clears_context: bool | Literal["keep_current"] = False
    """True if the context is cleared. With `keep_current`, the keys of the result are written afterwards."""
    reset_keys: tuple[str, ...] = ()
    """Keys that are removed from the context."""
    appends_values: bool = False
    """True if new values are appended to the lists in the context instead of replacing them."""
    adds_message: bool = True
    """True if the output becomes a message of the history."""
    removes_messages: bool = False
    """True if earlier messages are removed."""
    is_user_message: bool = False
    """True if the message has the role of the user."""
    splits_result: bool = False
    """True if the result is split into items. Their keys are then not written to the context that branches share."""


DEFAULT_EFFECTS: Final = Effects()


class _VisitCache:
    """Values that are computed from a visit on first use. They are not fields, and so neither stored nor compared."""

    __slots__ = ("_items", "_parsed", "_run_input")
    _items: tuple[str, list[Any]]
    _parsed: ParsedOutput
    _run_input: ParsedOutput


@dataclass(slots=True)
class Visit(_VisitCache):
    """Record of one execution of a state."""

    id: str
    state: str
    output: Any
    """Text, or a JSON value."""
    after: tuple[str, ...] = ()
    """The ids of the visits whose branches this visit continues, in order; empty for the first visit of a run."""
    path: str = ""
    """The path of the visit's branch; see `token`."""
    prompt: str | None = None
    item: ItemRef | None = None
    """The item of the visit's branch; None outside iterations."""
    merges_item: bool = False
    """True if the item is a map that was merged into the context before the visit."""
    effects: Effects = DEFAULT_EFFECTS
    targets: tuple[str, ...] = ()
    """The ids of the next states of the branch, including `end`; empty if the next state is part of an iteration."""
    iteration: str | None = None
    """The id of the visit that started the iteration of the branch; None outside iterations."""
    summary: str | None = None
    """The summary that replaced the history before the visit; None if the history was not too long."""
    calls: int = 1
    """The number of answers of the model, without requests for tools; 1 if the state calls no model."""
    is_entry: bool = False
    """True for the first visit of a run."""

    @property
    def result(self) -> Any:
        """The parsed value of the output, which is shared and must not be modified."""
        return self.parsed.result

    @property
    def parsed(self) -> ParsedOutput:
        """The output, whose value is parsed only once."""
        try:
            return self._parsed
        except AttributeError:
            self._parsed = ParsedOutput(self.output)
            return self._parsed

    @parsed.setter
    def parsed(self, parsed: ParsedOutput) -> None:
        self._parsed = parsed

    def split_result(self, key: str) -> list[Any]:
        """Return the items of the result under an iter_key. Raises RoutingError."""
        cached = getattr(self, "_items", None)
        if cached is None or cached[0] != key:  # a state has one iter_key, so a cache of one entry is enough
            self._items = cached = key, resolve_items(self.result, key)
        return cached[1]

    def parse_run_input(self, raw_input: Any) -> ParsedOutput:
        """Return the parsed input of the run that starts with this visit.

        It is cached in the visit too, because the cache of lineages drops old runs.
        """
        cached = getattr(self, "_run_input", None)
        if cached is None:
            self._run_input = cached = ParsedOutput(raw_input)
        # Before the first visit of the thread's next run is saved, this visit is the latest entry of the thread,
        # although the input is already that of the next run.
        return cached if cached.output is raw_input or cached.output == raw_input else ParsedOutput(raw_input)

    def cache_run_input(self, run_input: ParsedOutput) -> None:
        """Cache the parsed input of the run that starts with this visit."""
        self._run_input = run_input


class VisitLog(Append):
    """The channel of visits. An update that is not a list of visits is an answer that was given at a breakpoint."""

    prepares = True

    def prepare(self, update: Any, task_id: str) -> Any:
        """Return the update as a list of visits. An answer becomes the output of a visit."""
        if isinstance(update, list) and all(isinstance(item, Visit) for item in update):  # pyright: ignore
            return update  # pyright: ignore[reportUnknownVariableType]
        return [Visit(f"answer-{task_id[:12]}", ANSWER, update)]


def _make_encoder(record_type: type[Any]) -> Callable[[Any], list[Any]]:
    """Return a function that encodes a record as a list of its fields, without trailing defaults.

    The order of the fields defines the stored format, so new fields must be added at the end.
    """
    names, defaults = zip(*((field.name, field.default) for field in fields(record_type)), strict=True)

    def encode(record: Any) -> list[Any]:
        values = [getattr(record, name) for name in names]
        count = len(values)
        while count and values[count - 1] == defaults[count - 1]:
            count -= 1
        return [list(value) if type(value) is tuple else value for value in values[:count]]  # pyright: ignore

    return encode


def _decode_visit(parts: Sequence[Any]) -> Visit:
    visit = Visit(*parts)
    visit.after, visit.targets = tuple(visit.after), tuple(visit.targets)
    return visit


def _decode_effects(parts: Sequence[Any]) -> Effects:
    return Effects(*(tuple(part) if isinstance(part, list) else part for part in parts))  # pyright: ignore


register_codec(53, Visit, _make_encoder(Visit), _decode_visit)
register_codec(54, ItemRef, _make_encoder(ItemRef), lambda parts: ItemRef(*parts))
register_codec(55, Effects, _make_encoder(Effects), _decode_effects)
