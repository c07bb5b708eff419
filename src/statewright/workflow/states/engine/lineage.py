"""Context and message history of a branch, derived from the visits that it follows.

The problem
    A branch sees a context (JSON values by name, often large) and a history of messages. Iterations create thousands of
    branches, each with its own changes to both, and loops create long runs. Copies of context and history for each
    branch would need too much memory, and each checkpoint would store them again.

The approach
    Only visits are stored. The view of a branch is a fold over them: start with the input of the run, then apply the
    effects of each ancestor in order. For example, `plan` starts `left` and `right`, and `join` follows both:

        plan ──┬──▶ left ───┐
               └──▶ right ──┴──▶ join        join sees: input, plan, left, right

    `left` does not see `right`. For `join`, the ancestors of the first branch are applied first, then the further
    ancestors of each other branch. Every visit comes after the visits that it follows, a common ancestor is applied
    once, and if two branches wrote the same key, the last branch wins. Branches are ordered by their paths (see
    `token`), not by the time at which they end, so the same run gives the same context every time.

    Some effects remove content: clearing the context, resetting keys, forgetting or summarizing messages. In a merge, a
    visit with such an effect removes only content that its own branch saw, and none that a concurrent branch has added.
    This is why `_apply_visits` looks up the view that each of these visits had.

The cost
    In a linear history, the view after a visit extends the cached view before the visit, so each step folds one visit.
    A merge folds from the start, because it may apply the visits in an order that no cached view has. Views, lineages
    and parsed outputs are caches: they can be derived again from the visits, and are neither stored nor part of the
    state.

Rejected
    Contexts in tokens, because every branch and every checkpoint would contain a copy. Merging contexts instead of
    visits, because a value that a common ancestor appended to a list would appear twice, and a removed key would look
    like a key that never existed.
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
    """Messages, oldest first, by the ids of their visits. The input of the run and summaries have keys of their own."""

    @property
    def history(self) -> tuple[Message, ...]:
        """The messages, oldest first."""
        return tuple(self.messages.values())


class Lineage:
    """The visits of a run and its input, from which the views of its branches are derived."""

    def __init__(self, raw_input: Any, files: Any = (), *, position: int = 0, entry: Visit | None = None) -> None:
        """Create a lineage without visits. `entry` is the first visit of the run, which may cache the parsed input."""
        self.position = position
        """The number of the thread's visits that precede the next visit of this lineage. Visits of earlier runs of the
        thread are counted, although they are not part of the lineage."""
        self.raw_input = raw_input
        self.input = entry.parse_run_input(raw_input) if entry is not None else ParsedOutput(raw_input)
        """The input with its parsed value."""
        self._files = files
        self._visits_by_id: dict[str, Visit] = {}
        self._visits: list[Visit] = []
        self._answers_by_state: dict[str, int] = {}
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
            self._visits_by_id[visit.id] = visit
            self._visits.append(visit)
            self._answers_by_state[visit.state] = self._answers_by_state.get(visit.state, 0) + visit.calls
            self.position += 1

    def is_prefix_of(self, visits: Sequence[Visit]) -> bool:
        """Return whether the visits of a thread extend this lineage within the same run."""
        # Visits are compared by identity, because a fork of the thread may contain other visits with the same ids.
        if not self._visits or len(visits) < self.position or visits[self.position - 1] is not self._visits[-1]:
            return False
        return not any(visit.is_entry for visit in visits[self.position :])

    def __iter__(self) -> Iterator[Visit]:
        return iter(self._visits)

    def __getitem__(self, visit_id: str) -> Visit:
        return self._visits_by_id[visit_id]

    def count_calls(self, state: str) -> int:
        """Return the number of answers of a state's model, or the number of its visits if it calls no model."""
        return self._answers_by_state.get(state, 0)

    # -- views

    def get_view(self, after: Sequence[str]) -> BranchView:
        """Return the view of a branch that follows the visits with these ids, in the order of their branches."""
        if not after:
            return self._initial_view
        if len(after) == 1:
            return self._get_view_after(after[0])
        return self._apply_visits(self._initial_view, self._list_ancestors(after), merges=True)

    def get_iteration_view(self, after: Sequence[str], iteration: str, visible_keys: Sequence[str]) -> BranchView:
        """Return the view of a branch in an iteration that exposes only some keys of the earlier context.

        `iteration` is the id of the visit that started the iteration. `visible_keys` restricts the context up to and
        including that visit. All keys that later visits of the branch wrote are visible.
        """
        visits: list[Visit] = []
        while True:
            # Within an iteration, `after` contains one visit of the branch, followed by the answers at breakpoints.
            visits.extend(self._visits_by_id[visit_id] for visit_id in reversed(after[1:]))
            if after[0] == iteration:
                break
            visits.append(self._visits_by_id[after[0]])
            after = visits[-1].after
        start = self._get_view_after(iteration)
        context = {name: value for name, value in start.context.items() if name in visible_keys}
        return self._apply_visits(BranchView(context, start.messages), reversed(visits))

    def _get_view_after(self, visit_id: str) -> BranchView:
        """Return the view after a visit, built from the nearest ancestor with a cached view."""
        cached = self._views.get(visit_id)
        if cached is not None:
            return cached
        # A loop instead of a recursion, because a run may have thousands of consecutive visits.
        visits: list[Visit] = []
        view: BranchView | None = None
        visit = self._visits_by_id[visit_id]
        while view is None:
            visits.append(visit)
            if len(visit.after) != 1:
                view = self.get_view(visit.after)
            else:
                view = self._views.get(visit.after[0])
                visit = self._visits_by_id[visit.after[0]]
        view = self._apply_visits(view, reversed(visits))
        self._views.put(visit_id, view)
        return view

    def _apply_visits(self, view: BranchView, visits: Iterable[Visit], *, merges: bool = False) -> BranchView:
        """Apply visits to a view, and return the new view. `merges` is true if they come from several branches."""
        context, messages = view.context, dict(view.messages)
        for visit in visits:
            own_view = self.get_view(visit.after) if merges and _removes_content(visit) else None
            branch_keys = own_view.context if own_view is not None else None
            context = apply_visit(context, visit, self.get_item(visit.item), branch_keys)
            _update_messages(messages, visit, own_view.messages if own_view is not None else messages)
        return BranchView(context, messages)

    def _list_ancestors(self, after: Sequence[str]) -> list[Visit]:
        """Return the ancestors of several visits, each once and after the visits that it follows.

        This is a depth-first search in post-order. It is not recursive, because it is as deep as the run is long.
        """
        ancestors: list[Visit] = []
        seen: set[str] = set()
        for head in after:
            stack = [(head, iter(self._visits_by_id[head].after))] if head not in seen else []
            seen.add(head)
            while stack:
                visit_id, predecessors = stack[-1]
                unseen = next((previous for previous in predecessors if previous not in seen), None)
                if unseen is None:
                    ancestors.append(self._visits_by_id[visit_id])
                    stack.pop()
                else:
                    seen.add(unseen)
                    stack.append((unseen, iter(self._visits_by_id[unseen].after)))
        return ancestors

    # -- items

    def get_item(self, ref: ItemRef | None) -> Any:
        """Return the item to which a reference refers; None for None."""
        if ref is None:
            return None
        visit = self._visits_by_id[ref.visit_id]
        return visit.output if ref.key is None else visit.split_result(ref.key)[ref.index]

    # -- the latest visits

    def list_pending_answers(self) -> tuple[str, ...]:
        """Return the ids of the answers that were given at the breakpoint before this superstep, oldest first."""
        answers: list[str] = []
        for visit in reversed(self._visits):
            if visit.state != ANSWER:
                break
            answers.append(visit.id)
        return tuple(reversed(answers))

    def list_final_visits(self, iteration: str) -> list[Visit]:
        """Return the last visit of each branch of an iteration, in the order of its items."""
        visits = (visit for visit in self._visits if visit.iteration == iteration and visit.targets)
        return sorted(visits, key=lambda visit: parse_branch_path(visit.path))

    def get_merged_view(self) -> BranchView:
        """Return the merged view of all branches of the run so far."""
        predecessors = {visit_id for visit in self._visits for visit_id in visit.after}
        heads = [visit for visit in self._visits if visit.id not in predecessors]
        heads.sort(key=lambda visit: parse_branch_path(visit.path))
        return self.get_view([visit.id for visit in heads])


def _removes_content(visit: Visit) -> bool:
    effects = visit.effects
    return bool(effects.clears_context or effects.reset_keys or effects.removes_messages) or visit.summary is not None


def _update_messages(messages: dict[str, Message], visit: Visit, branch_messages: Mapping[str, Message]) -> None:
    """Apply the effects of a visit to messages, in place.

    `branch_messages` are the messages that the visit's own branch saw; only these are removed.
    """
    effects, summary_key = visit.effects, f"{visit.id} summary"
    if visit.summary is not None and branch_messages:
        for key in list(branch_messages)[1:]:  # the first message states the request, and survives every summary
            messages.pop(key, None)
        messages[summary_key] = Message(visit.summary, role="assistant")
    if effects.removes_messages:
        for key in [*branch_messages, summary_key]:
            messages.pop(key, None)
    if effects.adds_message and visit.output != "":
        role = "user" if effects.is_user_message or visit.state == ANSWER else "assistant"
        messages[visit.id] = Message(as_text(visit.output), role=role, name=visit.state or None)


class Lineages:
    """A cache of lineages by run id, so that each superstep only adds the visits of the previous superstep."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        """Held while a lineage is looked up and extended, because nodes of one superstep run concurrently."""
        self._cache: LRUCache[str, Lineage] = LRUCache(_MAX_LINEAGES)

    def get(self, run_id: str, values: Mapping[str, Any]) -> Lineage:
        """Return the lineage of a run. `values` is the state of its thread."""
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
