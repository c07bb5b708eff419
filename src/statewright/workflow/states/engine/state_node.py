"""A state as a node of a graph: from a token to a visit, and to the tokens of what follows.

The node is given tokens and reads the visits of the run. It works out what its branch sees, lets a performer do the
work, and answers one visit and the transitions. It keeps nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any, cast

from statewright.errors import ExpressionError
from statewright.graph import Command, Runtime
from statewright.workflow.states.engine.context import text_of
from statewright.workflow.states.engine.lineage import Lineage, Lineages
from statewright.workflow.states.engine.routing import Router
from statewright.workflow.states.engine.token import Token, combined
from statewright.workflow.states.engine.visit import ANSWER, USUAL, Effects, Visit
from statewright.workflow.states.handlers import Call, StateHandler
from statewright.workflow.states.handlers.call import unresolved_reporter
from statewright.workflow.states.language.model import Next, State
from statewright.workflow.states.templates import Template, parse_template, rendered_off_loop


def _nothing() -> None:
    return None


class StateNode:
    """The node of one state."""

    # Not to be a key: caches of functions would keep it for good, and the connections of its servers with it.
    __hash__ = None  # pyright: ignore[reportAssignmentType]

    def __init__(
        self,
        state: State,
        place: int,
        performer: StateHandler,
        router: Router,
        lineages: Lineages,
        *,
        before: Callable[[], None] = _nothing,
    ) -> None:
        """`before` is called before anything else of a run: it may refuse to begin it."""
        self._state = state
        self._before = before
        self._place = place
        """The place of the state in its workflow: with the number of the superstep it names visits."""
        self._performer = performer
        self._router = router
        self._lineages = lineages
        self._effects = effects_of(state)
        self._splitting = replace(self._effects, splits=True)
        resolves = state.resolve_dynamic_values_in_prompt and state.task
        self._template: Template | None = parse_template(state.task) if resolves else None

    async def __call__(self, given: Any, runtime: Runtime[Any]) -> Command[Any]:
        info = runtime.execution_info
        lineage = self._lineages.of(info.run_id, runtime.state)
        is_entry = isinstance(given, Mapping)  # the state, and no token: the run begins here
        if is_entry:
            self._before()
        tokens = [Token()] if is_entry else cast("list[Token]", given if isinstance(given, list) else [given])
        token = arrived(tokens, self._state.id, lineage)
        call = await self._call(token, lineage, runtime)
        outcome = await self._performer.perform(call)
        visit = Visit(
            id=_visit_id(info.step, self._place, token),
            state=self._state.id,
            output=outcome.output,
            after=token.after,
            path=token.path,
            prompt=call.prompt,
            item=token.iteration.item if token.iteration is not None else None,
            fills=token.iteration is not None and token.iteration.is_first and isinstance(call.item, dict),
            effects=self._splitting if self._splits(token) else self._effects,
            iteration=token.iteration.id if token.iteration is not None else None,
            summary=outcome.summary,
            calls=outcome.calls,
            is_entry=is_entry,
        )
        if outcome.parsed is not None:
            visit.parsed = outcome.parsed
        if is_entry:
            visit.begin_with(lineage.input)
        ways = self._router.ways(self._state, token, visit)
        visit.into = ways.into
        return Command(update={"visits": [visit]}, goto=ways.sends)

    def _splits(self, token: Token) -> bool:
        way = self._state.next
        return way.iter_key is not None and (token.iteration is None or self._state.finish_iteration)

    async def _call(self, token: Token, lineage: Lineage, runtime: Runtime[Any]) -> Call:
        inner = token.iteration
        if inner is not None and inner.only is not None:
            view = lineage.view_within(token.after, inner.id, inner.only)
        else:
            view = lineage.view(token.after)
        item = lineage.item(inner.item) if inner is not None else None
        context = view.context
        if inner is not None and inner.is_first and isinstance(item, dict):
            context = {**context, **cast("dict[str, Any]", item)}
        scope = {**context, "task": _task(token, context, item, lineage)}
        return Call(
            state=self._state,
            prompt=await self._prompt(scope, runtime),
            context=context,
            scope=scope,
            history=view.history,
            item=item,
            has_item=inner is not None,
            number=lineage.calls(self._state.id) + (inner.index if inner is not None else 0),
            lineage=lineage,
            runtime=runtime,
        )

    async def _prompt(self, scope: Mapping[str, Any], runtime: Runtime[Any]) -> str:
        template = self._template
        if template is None:
            return self._state.task
        report = unresolved_reporter(runtime, self._state.id)
        try:
            return await rendered_off_loop(lambda work: template.render(scope, report=report, work=work))
        except ExpressionError as error:
            raise ExpressionError(f"The task of state {self._state.id!r}: {error}") from error


def _task(token: Token, context: Mapping[str, Any], item: Any, lineage: Lineage) -> Any:
    """What `{{task}}` stands for: the item, and outside iterations what came before."""
    if token.iteration is not None:
        fields = cast("dict[str, Any]", item) if isinstance(item, dict) else {}
        return fields.get("task", item)
    if "task" in context:
        return context["task"]
    before = [visit for one in token.after if (visit := lineage[one]).state != ANSWER]
    return before[-1].output if before else text_of(lineage.given)


def arrived(tokens: Sequence[Token], state_id: str, lineage: Lineage) -> Token:
    """The tokens that came together as one, with the answer at a breakpoint if one was given.

    What comes from an iteration whose branches could go several ways follows all of them: it is merged as a whole.
    """
    ended = {token.ended for token in tokens if token.ended is not None}
    merged = [_merged(token, state_id, lineage) for token in tokens] if ended else tokens
    token = combined(merged, lambda visit_id: lineage[visit_id].path)
    answers = lineage.answers()
    return replace(token, after=(*token.after, *answers)) if answers else token


def _merged(token: Token, state_id: str, lineage: Lineage) -> Token:
    if token.ended is None:
        return token
    ends = lineage.ends_of(token.ended)
    is_only = all(set(visit.into) == {state_id} for visit in ends)
    return Token(tuple(visit.id for visit in ends), token.base if is_only else token.path)


def _visit_id(step: int, place: int, token: Token) -> str:
    """Unique in a thread: a superstep has one visit of a state in each branch of an iteration, else only one."""
    return f"{step}.{place}" if token.iteration is None else f"{step}.{place}.{token.path}"


def effects_of(state: State) -> Effects:
    """What visits of a state do to the context and the history."""
    way: Next = state.next
    effects = Effects(
        store=way.store_in_context,
        output_key=way.output_key,
        clear=way.clear_context_store,
        reset=way.reset_keys_in_context_store,
        append=way.append_to_context,
        remember=way.include_in_llm_history,
        forget=way.clear_prior_messages,
        as_human=state.result_as_human_message,
    )
    return effects if effects != USUAL else USUAL
