"""What a state did, once: the record from which contexts, histories and results are made.

Nothing of it is ever changed. A visit names the visits that it follows, so the visits of a run form a graph: what a
branch may see are its ancestors, and no branch needs a copy of anything. A thousand items over a large context cost a
thousand small records.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields
from typing import Any, Final, Literal

from statewright.channels import Append
from statewright.checkpoint import stored_as
from statewright.workflow.states.expressions.output import ParsedOutput
from statewright.workflow.states.expressions.paths import resolve_items

ANSWER: Final = ""
"""As the state of a visit: somebody has answered at a breakpoint."""


@dataclass(slots=True)
class ItemRef:
    """Where the item of a branch is found: in the result that was split, or in the output that took its place."""

    visit: str
    key: str | None = None
    """How that result was split; None for an output that is the item itself."""
    index: int = 0


@dataclass(frozen=True, slots=True)
class Effects:
    """What a visit does to the context and the history, where that is not the usual."""

    store: bool = True
    output_key: str | None = None
    clear: bool | Literal["keep_current"] = False
    reset: tuple[str, ...] = ()
    append: bool = False
    remember: bool = True
    """Whether its output becomes a message of the history."""
    forget: bool = False
    """Whether the messages before it go."""
    as_human: bool = False
    splits: bool = False
    """Whether its result was split into items: then the maps of a list are items, and no news for all branches."""


USUAL: Final = Effects()


class _Derived:
    """What is worked out of a visit when somebody needs it first, and is neither stored nor compared."""

    __slots__ = ("_items", "_parsed", "_run_input")
    _items: tuple[str, list[Any]]
    _parsed: ParsedOutput
    _run_input: ParsedOutput


@dataclass(slots=True)
class Visit(_Derived):
    """One execution of a state."""

    id: str
    state: str
    output: Any
    """Text; of a tool, a value of JSON."""
    after: tuple[str, ...] = ()
    """The visits whose branches it continues, in their order; none for the first one of a run."""
    path: str = ""
    """Its place among branches: see `path.py`."""
    prompt: str | None = None
    item: ItemRef | None = None
    fills: bool = False
    """Whether its item, a map, has filled the context before."""
    effects: Effects = USUAL
    into: tuple[str, ...] = ()
    """Where its branch went on, `end` included; none within an iteration that goes on."""
    iteration: str | None = None
    """The visit that began the iteration which its branch is in."""
    summary: str | None = None
    """What the history before it was summarised to."""
    calls: int = 1
    """How often a model was asked."""
    is_entry: bool = False
    """Whether a run began with it."""

    @property
    def result(self) -> Any:
        """The value that the output means. Nobody may change it."""
        return self.parsed.result

    @property
    def parsed(self) -> ParsedOutput:
        """The output with its value, which is parsed once however many ask for it."""
        try:
            return self._parsed
        except AttributeError:
            self._parsed = ParsedOutput(self.output)
            return self._parsed

    @parsed.setter
    def parsed(self, parsed: ParsedOutput) -> None:
        self._parsed = parsed

    def items(self, key: str) -> list[Any]:
        """What the result is split into. Raises RoutingError."""
        known = getattr(self, "_items", None)
        if known is None or known[0] != key:  # a state has one iter_key, so there is no second one to remember
            self._items = known = key, resolve_items(self.result, key)
        return known[1]

    def run_input(self, given: Any) -> ParsedOutput:
        """The input with which its run began: remembered here, as the lineages of a run come and go."""
        known = getattr(self, "_run_input", None)
        if known is None:
            self._run_input = known = ParsedOutput(given)
        # The next run of a thread begins with visits of the one before it, and with an input of its own.
        return known if known.output is given or known.output == given else ParsedOutput(given)

    def begin_with(self, run_input: ParsedOutput) -> None:
        """Remember the input with which its run began."""
        self._run_input = run_input


class VisitLog(Append):
    """The channel of visits. What is no visit is an answer from outside, as at a breakpoint."""

    prepares = True

    def prepare(self, update: Any, task_id: str) -> Any:
        """The update as a list of visits."""
        if isinstance(update, list) and all(isinstance(one, Visit) for one in update):  # pyright: ignore
            return update  # pyright: ignore[reportUnknownVariableType]
        return [Visit(f"answer-{task_id[:12]}", ANSWER, update)]


def _plainly(kind: type[Any]) -> Callable[[Any], list[Any]]:
    """What writes a record as its fields in their order, without those at the end that have their defaults."""
    names, defaults = zip(*((one.name, one.default) for one in fields(kind)), strict=True)

    def plain(record: Any) -> list[Any]:
        known = [getattr(record, name) for name in names]
        count = len(known)
        while count and known[count - 1] == defaults[count - 1]:
            count -= 1
        return [list(one) if type(one) is tuple else one for one in known[:count]]  # pyright: ignore

    return plain


def _made_visit(parts: Sequence[Any]) -> Visit:
    visit = Visit(*parts)
    visit.after, visit.into = tuple(visit.after), tuple(visit.into)
    return visit


def _made_effects(parts: Sequence[Any]) -> Effects:
    return Effects(*(tuple(part) if isinstance(part, list) else part for part in parts))  # pyright: ignore


stored_as(53, Visit, _plainly(Visit), _made_visit)
stored_as(54, ItemRef, _plainly(ItemRef), lambda parts: ItemRef(*parts))
stored_as(55, Effects, _plainly(Effects), _made_effects)
