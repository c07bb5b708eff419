"""Context and message history of a branch, derived from the visits it follows.

The problem
    A branch sees a context (JSON values by name, often large) and a history of messages. Iterations make thousands of
    branches, each with its own changes to both, and loops make long runs. A copy per branch would cost memory in
    proportion to branches and context, and each checkpoint would store it again.

The approach
    Only visits are stored. The view of a branch is a fold over them: start with the input of the run, then apply the
    effects of each ancestor in order. For example, `plan` starts `left` and `right`, and `join` follows both:

        plan ──┬──▶ left ───┐
               └──▶ right ──┴──▶ join        join sees: input, plan, left, right

    `left` does not see `right`. For `join`, the ancestors of the first branch come first, then those that the others
    add, each after the visits that it follows. So a common ancestor counts once, and if two branches wrote the same
    key, the last one wins. Branches are ordered by their paths (see `token`), not by the time at which they end, so the
    same run gives the same context every time.

    Some effects remove content: clearing the context, resetting keys, forgetting or summarizing messages. In a merge
    such a visit removes only content that its own branch had seen, and none that a concurrent branch has added. This is
    why `_apply_visits` looks up the own view of each such visit.

The cost
    In a linear history, the view after a visit extends the cached view before it, so each step folds one visit. A merge
    folds from the start, because its order may differ from all cached ones. Views, lineages and parsed outputs are
    caches: they can be derived again from the visits, and are neither stored nor part of the state.

Rejected
    Contexts in tokens: a copy per branch and checkpoint. Merging contexts instead of visits: a value that a common
    ancestor appended to a list would appear twice, and a removed key would look like one that never existed.
"""

from __future__ import annotations

import threading
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from typing import Any, Final, NamedTuple

from statewright.agents import as_text
from statewright.lru_cache import LRUCache
from statewright.messages import Message
from statewright.workflow.states.engine.context import Context, apply_visit, format_input, make_initial_context
from statewright.workflow.states.engine.token import parse_branch_path
from statewright.workflow.states.engine.visit import ANSWER, ItemRef, Visit
from statewright.workflow.states.expressions.output import ParsedOutput

_MAX_VIEWS: Final = 256
"""Maximum number of cached views per lineage."""
_MAX_LINEAGES: Final = 64
"""Maximum number of cached lineages."""
_INPUT_KEY: Final = ""
"""Key of the message that holds the input of the run."""


class BranchView(NamedTuple):
    """The context and messages that a branch sees."""

    context: Context
    messages: Mapping[str, Message]
    """Messages by the ids of their visits, in order."""

    @property
    def history(self) -> tuple[Message, ...]:
        """The messages, oldest first."""
        return tuple(self.messages.values())


class Lineage:
    """The visits of a run and its input, from which the views of its branches are derived."""

    def __init__(self, raw_input: Any, files: Any = (), *, position: int = 0, entry: Visit | None = None) -> None:
        self.position = position
        """The number of visits in the thread up to the last one of the lineage, including those of earlier runs, which
        are not part of the lineage."""
        self.raw_input = raw_input
        self.input = entry.parse_run_input(raw_input) if entry is not None else ParsedOutput(raw_input)
        """The input with its parsed value."""
        self._files = files
        self._visits: dict[str, Visit] = {}
        self._order: list[Visit] = []
        self._calls: dict[str, int] = {}
        self._views: LRUCache[str, BranchView] = LRUCache(_MAX_VIEWS)

    @cached_property
    def _initial_view(self) -> BranchView:
        """The view before the first visit."""
        text = format_input(self.raw_input)
        return BranchView(
            make_initial_context(self.input.result, self._files), {_INPUT_KEY: Message(text)} if text else {}
        )

    def extend(self, visits: Iterable[Visit]) -> None:
        """Add visits, oldest first."""
        for visit in visits:
            self._visits[visit.id] = visit
            self._order.append(visit)
            self._calls[visit.state] = self._calls.get(visit.state, 0) + visit.calls
            self.position += 1

    def is_prefix_of(self, visits: Sequence[Visit]) -> bool:
        """Return whether the visits of a thread extend this lineage within the same run."""
        # Compared by identity: a fork of the thread may have other visits with the same ids.
        if not self._order or len(visits) < self.position or visits[self.position - 1] is not self._order[-1]:
            return False
        return not any(visit.is_entry for visit in visits[self.position :])

    def __iter__(self) -> Iterator[Visit]:
        return iter(self._order)

    def __getitem__(self, visit_id: str) -> Visit:
        return self._visits[visit_id]

    def count_calls(self, state: str) -> int:
        """Return the number of model calls of a state; the number of its visits if it calls no model."""
        return self._calls.get(state, 0)

    # -- views

    def get_view(self, after: Sequence[str]) -> BranchView:
        """Return the view of a branch that follows these visits."""
        if not after:
            return self._initial_view
        if len(after) == 1:
            return self._get_view_after(after[0])
        return self._apply_visits(self._initial_view, self._list_ancestors(after), merges=True)

    def get_iteration_view(self, after: Sequence[str], iteration: str, visible_keys: Sequence[str]) -> BranchView:
        """Return the view of a branch in an iteration that exposes only some keys of the earlier context.

        `iteration` is the visit that started it. All keys that later visits of the branch wrote are visible.
        """
        visits: list[Visit] = []
        while True:
            # Within an iteration a branch follows one visit, and after it the answers at breakpoints.
            visits.extend(self._visits[visit_id] for visit_id in reversed(after[1:]))
            if after[0] == iteration:
                break
            visits.append(self._visits[after[0]])
            after = visits[-1].after
        start = self._get_view_after(iteration)
        visible = {name: value for name, value in start.context.items() if name in visible_keys}
        return self._apply_visits(BranchView(visible, start.messages), reversed(visits))

    def _get_view_after(self, visit_id: str) -> BranchView:
        """Return the view after a visit, built from the nearest ancestor with a cached view."""
        cached = self._views.get(visit_id)
        if cached is not None:
            return cached
        # A loop, not a recursion: a run may have thousands of consecutive visits.
        visits: list[Visit] = []
        view: BranchView | None = None
        visit = self._visits[visit_id]
        while view is None:
            visits.append(visit)
            if len(visit.after) != 1:
                view = self.get_view(visit.after)
            else:
                view = self._views.get(visit.after[0])
                visit = self._visits[visit.after[0]]
        view = self._apply_visits(view, reversed(visits))
        self._views.put(visit_id, view)
        return view

    def _apply_visits(self, view: BranchView, visits: Iterable[Visit], *, merges: bool = False) -> BranchView:
        """Apply visits to a view; with `merges` they come from several branches."""
        context, messages = view.context, dict(view.messages)
        for visit in visits:
            seen = self.get_view(visit.after) if merges and _removes_content(visit) else None
            context = apply_visit(context, visit, self.get_item(visit.item), seen.context if seen is not None else None)
            _update_messages(messages, visit, seen.messages if seen is not None else messages)
        return BranchView(context, messages)

    def _list_ancestors(self, after: Sequence[str]) -> list[Visit]:
        """Return the ancestors of several visits, each once and after the visits that it follows.

        This is a depth-first search in post-order. It is not recursive, because it is as deep as the run is long.
        """
        ancestors: list[Visit] = []
        seen: set[str] = set()
        for head in after:
            stack = [(head, iter(self._visits[head].after))] if head not in seen else []
            seen.add(head)
            while stack:
                visit_id, predecessors = stack[-1]
                unseen = next((previous for previous in predecessors if previous not in seen), None)
                if unseen is None:
                    ancestors.append(self._visits[visit_id])
                    stack.pop()
                else:
                    seen.add(unseen)
                    stack.append((unseen, iter(self._visits[unseen].after)))
        return ancestors

    # -- items

    def get_item(self, ref: ItemRef | None) -> Any:
        """Return the item of a branch; None if it has none."""
        if ref is None:
            return None
        visit = self._visits[ref.visit_id]
        return visit.output if ref.key is None else visit.split_result(ref.key)[ref.index]

    # -- the latest visits

    def list_pending_answers(self) -> tuple[str, ...]:
        """Return the ids of the answers since the last visit: those given at the breakpoint before this superstep."""
        answers: list[str] = []
        for visit in reversed(self._order):
            if visit.state != ANSWER:
                break
            answers.append(visit.id)
        return tuple(reversed(answers))

    def list_final_visits(self, iteration: str) -> list[Visit]:
        """Return the last visit of each branch of an iteration, in the order of its items."""
        visits = (visit for visit in self._order if visit.iteration == iteration and visit.targets)
        return sorted(visits, key=lambda visit: parse_branch_path(visit.path))

    def get_merged_view(self) -> BranchView:
        """Return the merged view of all branches of the run so far."""
        followed = {visit_id for visit in self._order for visit_id in visit.after}
        heads = [visit for visit in self._order if visit.id not in followed]
        heads.sort(key=lambda visit: parse_branch_path(visit.path))
        return self.get_view([visit.id for visit in heads])


def _removes_content(visit: Visit) -> bool:
    effects = visit.effects
    return bool(effects.clear or effects.reset or effects.forget) or visit.summary is not None


def _update_messages(messages: dict[str, Message], visit: Visit, seen: Mapping[str, Message]) -> None:
    """Apply the effects of a visit to messages, in place. Only messages that its own branch has seen are removed."""
    effects, summary_key = visit.effects, f"{visit.id} summary"
    if visit.summary is not None and seen:
        for key in list(seen)[1:]:  # the first message states the request, and survives every summary
            messages.pop(key, None)
        messages[summary_key] = Message(visit.summary, role="assistant")
    if effects.forget:
        for key in [*seen, summary_key]:
            messages.pop(key, None)
    if effects.remember and visit.output != "":
        role = "user" if effects.as_human or visit.state == ANSWER else "assistant"
        messages[visit.id] = Message(as_text(visit.output), role=role, name=visit.state or None)


class Lineages:
    """A cache of lineages by run id, so that a superstep only adds the visits of the one before it."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        """Held from the lookup to the end of the extension: nodes of one superstep run concurrently."""
        self._cache: LRUCache[str, Lineage] = LRUCache(_MAX_LINEAGES)

    def get(self, run_id: str, values: Mapping[str, Any]) -> Lineage:
        """Return the lineage of a run with this state."""
        visits: list[Visit] = values.get("visits") or []
        with self._lock:
            lineage = self._cache.get(run_id)
            if lineage is None or not lineage.is_prefix_of(visits):
                lineage = make_lineage(values)
                self._cache.put(run_id, lineage)
            else:
                lineage.extend(visits[lineage.position :])
        return lineage


def make_lineage(values: Mapping[str, Any]) -> Lineage:
    """Build the lineage of the latest run of a thread from the state of the thread."""
    visits: list[Visit] = values.get("visits") or []
    start = next((index for index in range(len(visits) - 1, -1, -1) if visits[index].is_entry), 0)
    entry = visits[start] if visits else None
    while start and visits[start - 1].state == ANSWER:  # an answer at a breakpoint before the first state
        start -= 1
    lineage = Lineage(values.get("input"), values.get("files"), position=start, entry=entry)
    lineage.extend(visits[start:])
    return lineage
