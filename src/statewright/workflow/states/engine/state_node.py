"""States as graph nodes.

A node receives the tokens that arrived at its state, and merges them into one branch. It derives the view of this
branch from the visits of the run, calls the handler of the state, and returns a new visit and the tokens for the next
states.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, Final, cast

from statewright.agents import is_worth_another_attempt
from statewright.graph import Command, RetryPolicy, Runtime
from statewright.workflow.states.engine.context import format_input
from statewright.workflow.states.engine.lineage import Lineage, Lineages
from statewright.workflow.states.engine.routing import Router
from statewright.workflow.states.engine.token import Token, combine_tokens
from statewright.workflow.states.engine.visit import ANSWER, DEFAULT_EFFECTS, Effects, Visit
from statewright.workflow.states.handlers import Call, StateHandler
from statewright.workflow.states.handlers.call import render_for_state
from statewright.workflow.states.language.model import RetryRule, State
from statewright.workflow.states.templates import Template, parse_template


class StateNode:
    """The node of one state. It holds no data of a run."""

    # Unhashable on purpose, because caches of functions would keep the node alive, and its connections to MCP servers.
    __hash__ = None  # pyright: ignore[reportAssignmentType]

    def __init__(
        self,
        state: State,
        index: int,
        handler: StateHandler,
        router: Router,
        lineages: Lineages,
        *,
        before_run: Callable[[], None],
    ) -> None:
        """Create the node. `before_run` is called when a run starts at this state, and may raise to reject the run."""
        self._state = state
        self._before_run = before_run
        self._index = index
        """The index of the state in its workflow, for the ids of visits."""
        self._handler = handler
        self._router = router
        self._lineages = lineages
        self._effects = make_effects(state)
        self._splitting_effects = replace(self._effects, splits_result=True)
        is_template = state.resolve_dynamic_values_in_prompt and state.task
        self._template: Template | None = parse_template(state.task) if is_template else None

    async def __call__(self, task_input: Any, runtime: Runtime[Any]) -> Command[Any]:
        info = runtime.execution_info
        lineage = self._lineages.get(info.run_id, runtime.state)
        # At the start of a run, the task input is the state of the graph instead of tokens.
        is_entry = isinstance(task_input, Mapping)
        if is_entry:
            self._before_run()
        # Either one token, or a list of the tokens that were gathered before the state.
        arrivals = Token() if is_entry else task_input
        tokens = cast("list[Token]", arrivals if isinstance(arrivals, list) else [arrivals])
        token = merge_arrivals(tokens, self._state.id, lineage)
        iteration, transition = token.iteration, self._state.next
        splits_result = transition.iter_key is not None and (iteration is None or self._state.finish_iteration)
        call = await self._make_call(token, lineage, runtime)
        outcome = await self._handler.perform(call)
        visit = Visit(
            id=_make_visit_id(info.step, self._index, token),
            state=self._state.id,
            output=outcome.output,
            after=token.after,
            path=token.path,
            prompt=call.prompt,
            item=iteration.item if iteration is not None else None,
            merges_item=iteration is not None and iteration.is_first and isinstance(call.item, dict),
            effects=self._splitting_effects if splits_result else self._effects,
            iteration=iteration.id if iteration is not None else None,
            summary=outcome.summary,
            calls=outcome.calls,
            is_entry=is_entry,
        )
        if outcome.parsed is not None:
            visit.parsed = outcome.parsed
        if is_entry:
            visit.cache_run_input(lineage.input)
        routes = self._router.route(self._state, token, visit)
        visit.targets = routes.targets
        return Command(update={"visits": [visit]}, goto=routes.sends)

    async def _make_call(self, token: Token, lineage: Lineage, runtime: Runtime[Any]) -> Call:
        iteration = token.iteration
        if iteration is not None and iteration.visible_keys is not None:
            view = lineage.get_iteration_view(token.after, iteration.id, iteration.visible_keys)
        else:
            view = lineage.get_view(token.after)
        item = lineage.get_item(iteration.item) if iteration is not None else None
        context = view.context
        if iteration is not None and iteration.is_first and isinstance(item, dict):
            context = {**context, **cast("dict[str, Any]", item)}
        scope = {**context, "task": _get_task_value(token, context, item, lineage)}
        return Call(
            state=self._state,
            prompt=await self._render_prompt(scope, runtime),
            context=context,
            scope=scope,
            history=view.history,
            item=item,
            has_item=iteration is not None,
            number=lineage.count_calls(self._state.id) + (iteration.index if iteration is not None else 0),
            lineage=lineage,
            runtime=runtime,
        )

    async def _render_prompt(self, scope: Mapping[str, Any], runtime: Runtime[Any]) -> str:
        if self._template is None:
            return self._state.task
        return await render_for_state("task", self._state.id, runtime, partial(self._template.render, scope))


def _get_task_value(token: Token, context: Mapping[str, Any], item: Any, lineage: Lineage) -> Any:
    """Return the value of `{{task}}`.

    Within an iteration it is the field `task` of the item, or the item itself. Elsewhere it is `task` in the context,
    or else the previous output, or else the input of the run.
    """
    if token.iteration is not None:
        fields = cast("dict[str, Any]", item) if isinstance(item, dict) else {}
        return fields.get("task", item)
    if "task" in context:
        return context["task"]
    previous = [visit for visit_id in token.after if (visit := lineage[visit_id]).state != ANSWER]
    return previous[-1].output if previous else format_input(lineage.raw_input)


def merge_arrivals(tokens: Sequence[Token], state_id: str, lineage: Lineage) -> Token:
    """Merge the tokens that arrived together at a state.

    A token that leaves an iteration whose branches could take different transitions follows all of these branches. If
    the run was paused before the state, the merged token also follows the answers that were given there.
    """
    merged = [_merge_iteration(token, state_id, lineage) for token in tokens]
    token = combine_tokens(merged, lambda visit_id: lineage[visit_id].path)
    answers = lineage.list_pending_answers()
    return replace(token, after=(*token.after, *answers)) if answers else token


def _merge_iteration(token: Token, state_id: str, lineage: Lineage) -> Token:
    """Return a token that follows all branches of the iteration that ended, if there is one."""
    if token.ended_iteration is None:
        return token
    final_visits = lineage.list_final_visits(token.ended_iteration)
    is_only_target = all(set(visit.targets) == {state_id} for visit in final_visits)
    return Token(tuple(visit.id for visit in final_visits), token.base if is_only_target else token.path)


def _make_visit_id(step: int, index: int, token: Token) -> str:
    """Return an id that is unique in its thread.

    This needs no counter, because a superstep visits a state once, or once per branch of an iteration.
    """
    return f"{step}.{index}" if token.iteration is None else f"{step}.{index}.{token.path}"


def make_effects(state: State) -> Effects:
    """Return the effects of visits of a state on the context and the history."""
    transition = state.next
    effects = Effects(
        stores_result=transition.store_in_context,
        output_key=transition.output_key,
        clears_context=transition.clear_context_store,
        reset_keys=transition.reset_keys_in_context_store,
        appends_values=transition.append_to_context,
        adds_message=transition.include_in_llm_history,
        removes_messages=transition.clear_prior_messages,
        is_user_message=state.result_as_human_message,
    )
    return effects if effects != DEFAULT_EFFECTS else DEFAULT_EFFECTS  # one shared object for the usual effects


DEFAULT_RETRIES: Final = RetryRule(**{key.field: key.default for key in RetryRule.schema.keys if key.field})
"""The settings that apply if neither the state nor the workflow sets others."""


def make_retry_policy(state_rule: RetryRule, workflow_rule: RetryRule) -> RetryPolicy | None:
    """Return the retry policy of a state; None for a single attempt.

    Each setting is taken from the state if it is set there, else from the workflow, else from `DEFAULT_RETRIES`.
    """

    def get_field(name: str) -> float:
        rules = (state_rule, workflow_rule, DEFAULT_RETRIES)
        return next(value for rule in rules if (value := getattr(rule, name)) is not None)

    attempts = int(get_field("max_attempts"))
    if attempts == 1:
        return None
    return RetryPolicy(
        initial_interval=get_field("initial_interval"),
        backoff_factor=get_field("backoff_factor"),
        max_interval=get_field("max_interval"),
        max_attempts=attempts,
        jitter=True,
        retry_on=is_worth_another_attempt,
    )
