"""What a branch has behind it: its context and its history, made from the visits that it follows.

A branch sees the visits that it comes from, in an order in which each stands after those that it follows itself; of
several branches that came together, the first one's whole line and then what the others have besides. So each visit
counts once, and of two branches that wrote the same key the last one wins.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from typing import Any, Final, NamedTuple

from statewright.agents import as_text
from statewright.messages import Message
from statewright.workflow.states.engine.context import Context, after_visit, seeds, text_of
from statewright.workflow.states.engine.token import choices
from statewright.workflow.states.engine.visit import ANSWER, ItemRef, Visit
from statewright.workflow.states.expressions.output import ParsedOutput

_VIEWS: Final = 256
"""How many views of visits are remembered."""
_GIVEN: Final = ""
"""Names the message with which a run begins."""
SUMMARY: Final = "summary"
_RUNS: Final = 64
"""How many runs are remembered."""


class View(NamedTuple):
    """What a branch sees."""

    context: Context
    said: Mapping[str, Message]
    """Its messages, by the visits that they come from."""

    @property
    def history(self) -> tuple[Message, ...]:
        return tuple(self.said.values())


class Lineage:
    """The visits of a run, by their ids, with the input that it began with."""

    def __init__(self, given: Any, files: Any = (), *, place: int = 0, entry: Visit | None = None) -> None:
        self.place = place
        """How many visits of its thread it knows, or has left to former runs."""
        self.given = given
        self.input = entry.run_input(given) if entry is not None else ParsedOutput(given)
        """The input with the value that it means."""
        self._files = files
        self._visits: dict[str, Visit] = {}
        self._order: list[Visit] = []
        self._calls: dict[str, int] = {}
        self._views: OrderedDict[str, View] = OrderedDict()

    @cached_property
    def _start(self) -> View:
        """What is seen before the first visit."""
        text = text_of(self.given)
        return View(seeds(self.input.result, self._files), {_GIVEN: Message(text)} if text else {})

    def extend(self, visits: Iterable[Visit]) -> None:
        """Take more visits, the oldest first."""
        for visit in visits:
            self._visits[visit.id] = visit
            self._order.append(visit)
            self._calls[visit.state] = self._calls.get(visit.state, 0) + visit.calls
            self.place += 1

    def is_begin_of(self, visits: Sequence[Visit]) -> bool:
        """Whether the visits of a thread are those that it knows, and perhaps more of the same run."""
        if not self._order or len(visits) < self.place or visits[self.place - 1] is not self._order[-1]:
            return False
        return not any(visit.is_entry for visit in visits[self.place :])

    def __iter__(self) -> Iterator[Visit]:
        return iter(self._order)

    def __getitem__(self, visit_id: str) -> Visit:
        return self._visits[visit_id]

    def calls(self, state: str) -> int:
        """How often the models of a state have been asked, or it was visited."""
        return self._calls.get(state, 0)

    # -- what a branch sees

    def view(self, after: Sequence[str]) -> View:
        """What a branch sees that follows these visits."""
        if not after:
            return self._start
        if len(after) == 1:
            return self._view_of(after[0])
        return self._folded(self._start, self._line(after), merges=True)

    def view_within(self, after: Sequence[str], opener: str, only: Sequence[str]) -> View:
        """What a branch of an iteration sees that shows its branches only some keys of what was there before."""
        line: list[Visit] = []
        while True:
            line.extend(self._visits[one] for one in reversed(after[1:]))  # answers, if there were any
            if after[0] == opener:
                break
            line.append(self._visits[after[0]])
            after = line[-1].after
        before = self._view_of(opener)
        shown = {name: value for name, value in before.context.items() if name in only}
        return self._folded(View(shown, before.said), reversed(line))

    def _view_of(self, visit_id: str) -> View:
        """What is seen after a visit: made from the nearest one before it whose view is known."""
        found = self._remembered(visit_id)
        if found is not None:
            return found
        line: list[Visit] = []
        view: View | None = None
        visit = self._visits[visit_id]
        while view is None:
            line.append(visit)
            if len(visit.after) != 1:
                view = self.view(visit.after)
            else:
                view = self._remembered(visit.after[0])
                visit = self._visits[visit.after[0]]
        view = self._folded(view, reversed(line))
        self._views[visit_id] = view
        if len(self._views) > _VIEWS:
            self._views.popitem(last=False)
        return view

    def _remembered(self, visit_id: str) -> View | None:
        view = self._views.get(visit_id)
        if view is not None:
            self._views.move_to_end(visit_id)
        return view

    def _folded(self, view: View, visits: Iterable[Visit], *, merges: bool = False) -> View:
        """What is seen after more visits; with `merges` they come from several branches."""
        context, said = view.context, dict(view.said)
        for visit in visits:
            takes_away = merges and _takes_away(visit)
            own = self.view(visit.after) if takes_away else None
            context = after_visit(context, visit, self.item(visit.item), own.context if own is not None else None)
            _say(said, visit, own.said if own is not None else said)
        return View(context, said)

    def _line(self, after: Sequence[str]) -> list[Visit]:
        """The visits behind several, each once, and after those that it follows."""
        line: list[Visit] = []
        seen: set[str] = set()
        for head in after:
            stack = [(head, iter(self._visits[head].after))] if head not in seen else []
            seen.add(head)
            while stack:
                before = stack[-1][1]
                unseen = next((one for one in before if one not in seen), None)
                if unseen is None:
                    line.append(self._visits[stack.pop()[0]])
                    continue
                seen.add(unseen)
                stack.append((unseen, iter(self._visits[unseen].after)))
        return line

    # -- items

    def item(self, ref: ItemRef | None) -> Any:
        """The item of a branch; None where there is none."""
        if ref is None:
            return None
        if ref.key is None:
            return self._visits[ref.visit].output
        return self.items(ref.visit, ref.key)[ref.index]

    def items(self, visit_id: str, key: str) -> list[Any]:
        """What the result of a visit is split into. Raises RoutingError."""
        return self._visits[visit_id].items(key)

    # -- where branches are

    def answers(self) -> tuple[str, ...]:
        """The answers that came since the last visit: those at the breakpoint before the present superstep."""
        found: list[str] = []
        for visit in reversed(self._order):
            if visit.state != ANSWER:
                break
            found.append(visit.id)
        return tuple(reversed(found))

    def ends_of(self, iteration: str) -> list[Visit]:
        """The last visits of the branches of an iteration, in the order of its items."""
        found = (visit for visit in self._order if visit.iteration == iteration and visit.into)
        return sorted(found, key=lambda visit: choices(visit.path))

    def whole(self) -> View:
        """What all branches together have made of the run so far."""
        followed = {one for visit in self._order for one in visit.after}
        heads = [visit for visit in self._order if visit.id not in followed]
        heads.sort(key=lambda visit: choices(visit.path))
        return self.view([visit.id for visit in heads])


def _takes_away(visit: Visit) -> bool:
    effects = visit.effects
    return bool(effects.clear or effects.reset or effects.forget) or visit.summary is not None


def _say(said: dict[str, Message], visit: Visit, seen: Mapping[str, Message]) -> None:
    """Add what a visit says to the messages. What it takes away is what its own branch has seen."""
    effects = visit.effects
    if visit.summary is not None and seen:
        for one in list(seen)[1:]:
            said.pop(one, None)
        said[f"{visit.id} {SUMMARY}"] = Message(visit.summary, role="assistant")
    if effects.forget:
        for one in [*seen, f"{visit.id} {SUMMARY}"]:
            said.pop(one, None)
    if effects.remember and visit.output != "":
        role = "user" if effects.as_human or visit.state == ANSWER else "assistant"
        said[visit.id] = Message(as_text(visit.output), role=role, name=visit.state or None)


class Lineages:
    """The lineages of runs that are under way: each superstep only adds its visits to that of its run."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._known: OrderedDict[str, Lineage] = OrderedDict()

    def of(self, run_id: str, values: Mapping[str, Any]) -> Lineage:
        """The lineage of a run, whose state has these values."""
        visits: list[Visit] = values.get("visits") or []
        with self._lock:
            lineage = self._known.get(run_id)
            if lineage is None or not lineage.is_begin_of(visits):
                lineage = self._known[run_id] = lineage_of(values)
            else:
                lineage.extend(visits[lineage.place :])
            self._known.move_to_end(run_id)
            if len(self._known) > _RUNS:
                self._known.popitem(last=False)
        return lineage


def lineage_of(values: Mapping[str, Any]) -> Lineage:
    """The lineage of the last run in a state."""
    visits: list[Visit] = values.get("visits") or []
    begin = next((place for place in range(len(visits) - 1, -1, -1) if visits[place].is_entry), 0)
    entry = visits[begin] if visits else None
    while begin and visits[begin - 1].state == ANSWER:  # somebody answered before the first state ran
        begin -= 1
    lineage = Lineage(values.get("input"), values.get("files"), place=begin, entry=entry)
    lineage.extend(visits[begin:])
    return lineage
