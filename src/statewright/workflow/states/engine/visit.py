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

    store: bool = True
    """True if the keys of its result are written to the context."""
    output_key: str | None = None
    """The key of the context to which its output is written as a whole."""
    clear: bool | Literal["keep_current"] = False
    """True if the context is cleared. With `keep_current`, the keys of its result are written afterwards."""
    reset: tuple[str, ...] = ()
    """Keys that are removed from the context."""
    append: bool = False
    """True if its values are appended to lists in the context."""
    remember: bool = True
    """True if its output becomes a message of the history."""
    forget: bool = False
    """True if earlier messages are removed."""
    as_human: bool = False
    """True if its message has the role of the user."""
    splits: bool = False
    """True if its result is split into items, whose keys then do not update the context of all branches."""


DEFAULT_EFFECTS: Final = Effects()


class _VisitCache:
    """Values computed from a visit on first use. They are not fields, so they are neither stored nor compared."""

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
    """Text; a JSON value for a tool."""
    after: tuple[str, ...] = ()
    """The ids of the visits whose branches it continues, in order; empty for the first visit of a run."""
    path: str = ""
    """The path of its branch; see `token`."""
    prompt: str | None = None
    item: ItemRef | None = None
    merges_item: bool = False
    """True if its item, a map, was merged into the context before it."""
    effects: Effects = DEFAULT_EFFECTS
    targets: tuple[str, ...] = ()
    """The ids of the next states of its branch, including `end`; empty within an iteration that continues."""
    iteration: str | None = None
    """The id of the visit that started the iteration of its branch."""
    summary: str | None = None
    """The summary that replaced the history before it."""
    calls: int = 1
    """The number of model calls."""
    is_entry: bool = False
    """True for the first visit of a run."""

    @property
    def result(self) -> Any:
        """The parsed value of the output. Shared, so it must not be modified."""
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
        if cached is None or cached[0] != key:  # a state has one iter_key, so one entry is enough
            self._items = cached = key, resolve_items(self.result, key)
        return cached[1]

    def parse_run_input(self, raw_input: Any) -> ParsedOutput:
        """Return the parsed input of its run.

        It is cached in the first visit of the run, as the cache of lineages drops old runs.
        """
        cached = getattr(self, "_run_input", None)
        if cached is None:
            self._run_input = cached = ParsedOutput(raw_input)
        # The next run of a thread sees the visits of the previous one, and has another input.
        return cached if cached.output is raw_input or cached.output == raw_input else ParsedOutput(raw_input)

    def cache_run_input(self, run_input: ParsedOutput) -> None:
        """Cache the parsed input of its run."""
        self._run_input = run_input


class VisitLog(Append):
    """The channel of visits. An update that is not a list of visits is an answer from outside, as at a breakpoint."""

    prepares = True

    def prepare(self, update: Any, task_id: str) -> Any:
        """Return the update as a list of visits; an answer becomes the output of a visit."""
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
