"""Compilation of a definition to a graph. Each step becomes a node, whose result selects the next step.

A result may name any step, so every node has all steps as destinations. The edges of the graph lead to the default
successors. The handlers, models, tools and checks that steps name are looked up here, and all missing ones are reported
together.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, ClassVar, Final

from statewright.channels import Channel
from statewright.checkpoint import Checkpointer, TaskResult
from statewright.clock import Clock, as_seconds, backoff, half_jitter
from statewright.errors import (
    GraphError,
    InternalError,
    InvalidConfig,
    NodeTimeoutError,
    Problem,
    RunError,
    StorageError,
    ToolError,
    WorkflowError,
    suggestion,
)
from statewright.graph import START, Graph, GraphBuilder, RetryPolicy, is_coroutine_function
from statewright.runtime import CompiledGraph, Instrument
from statewright.runtime.core.program import NodeProgram, Program
from statewright.state import StateSchema, UpdateReader
from statewright.store import Store
from statewright.workflow.steps.handlers import Handler, Handlers, UnknownHandler, as_handlers, bind_step
from statewright.workflow.steps.llm.checks import CHECKS, Check, OutputGuard
from statewright.workflow.steps.llm.handler import LlmStepHandler
from statewright.workflow.steps.llm.resources import (
    DeclaredTool,
    StepModelOptions,
    StepModels,
    StepTools,
    TaskTool,
    ToolFactory,
    as_tool,
    read_tools,
)
from statewright.workflow.steps.model import (
    ConditionStep,
    Definition,
    LlmStep,
    LlmTool,
    Retry,
    Step,
    TaskStep,
    read_definition,
)
from statewright.workflow.steps.node import AsyncStepNode, StepNode, StepOrder
from statewright.workflow.steps.perform import PERFORM_BY_TYPE, perform_async_task, perform_task, result_key
from statewright.workflow.steps.result import StepFailed
from statewright.workflow.steps.state import CHANNELS, InputReader, StateUpdates, StepsState, get_visible_state
from statewright.workflow.steps.template import is_true


@dataclass(frozen=True, kw_only=True, slots=True)
class StepRetry(RetryPolicy):
    """Exponential backoff with a cap and up to 50 % jitter."""

    def delay(self, attempt: int, random_number: float) -> float:
        initial, longest = as_seconds(self.initial_interval), as_seconds(self.max_interval)
        return half_jitter(
            backoff(attempt, initial=initial, longest=longest, factor=self.backoff_factor), random_number
        )


def make_retry_policy(retry: Retry) -> RetryPolicy | None:
    """Return the retry policy of a step; None for a single attempt."""
    if retry.max_attempts == 1:
        return None
    return StepRetry(
        initial_interval=retry.backoff_ms / 1000,
        backoff_factor=retry.backoff_multiplier,
        max_interval=retry.max_backoff_ms / 1000,
        max_attempts=retry.max_attempts,
        retry_on=should_retry,
    )


def should_retry(error: BaseException) -> bool:
    """Return whether a step is retried after an error.

    It is not retried after a final failure, nor after errors of the graph, the run or the storage. A timeout of the
    node, although an error of the run, is retried.
    """
    if isinstance(error, StepFailed):
        return not error.is_final
    if isinstance(error, NodeTimeoutError):
        return True
    return isinstance(error, Exception) and not isinstance(error, GraphError | RunError | StorageError | InternalError)


# -- the graph, whose input and output are one map each: the output is the visible state


class StepsProgram(Program):
    """A program whose callers see its state as one map instead of channels."""

    begins_with_state = False

    def __init__(self, graph: Graph, **options: Any) -> None:
        super().__init__(graph, **options)
        self.reported_fields = frozenset[str]()  # a parent graph receives the map, not the channels

    def output(self, values: Mapping[str, Any], *, typed: bool = False, plain: bool = False) -> Any:
        return get_visible_state(values)

    def visible_writes(self, result: TaskResult) -> Any:
        writes: dict[str, Any] = dict(result.writes)
        return writes.get("state") or None

    def _update_reader(self, channels: Mapping[str, Channel], *, closed: bool, check: bool) -> UpdateReader:
        return StateUpdates({name: self.channels[name] for name in CHANNELS}, closed=True)

    def _start(self) -> NodeProgram:
        start = super()._start()
        start.updates = InputReader({name: self.channels[name] for name in CHANNELS}, closed=True)
        start.plain_keys = None  # so that every input is read by the InputReader
        return start


class StepsGraph(CompiledGraph):
    """A compiled workflow of steps. Created by `compile_steps`."""

    program_class: ClassVar[type[Program]] = StepsProgram

    def __init__(self, graph: Graph, definition: Definition, **options: Any) -> None:
        super().__init__(graph, **options)
        self.definition = definition

    def get_state_jsonschema(self) -> dict[str, Any]:
        """Return the JSON Schema of the visible state, which is any map."""
        return {**self.get_output_jsonschema(), "title": f"{self.name}State"}


# -- nodes


class StepNodeFactory:
    """Creates the nodes of one workflow, and collects their problems."""

    def __init__(
        self,
        *,
        handlers: Handlers | Mapping[str, Handler] | None = None,
        models: StepModelOptions = None,
        tools: StepTools = None,
        checks: Mapping[str, Check] | None = None,
    ) -> None:
        self.problems: list[Problem] = []
        self._handlers = as_handlers(handlers)
        self._models = StepModels(models)
        self._tools = read_tools(tools)
        self._checks: Mapping[str, Check] = {**CHECKS, **(checks or {})}

    def make_node(self, step: Step, index: int, order: StepOrder) -> Callable[..., Any]:
        """Return the node of the step at an index of the definition."""
        path = f"steps[{index}]"
        if isinstance(step, TaskStep):
            return self._make_task_node(step, path, order)
        if isinstance(step, LlmStep):
            return self._make_llm_node(step, path, order)
        return StepNode(step, order, partial(PERFORM_BY_TYPE[type(step)], step))

    def _report(self, path: str, message: str, hint: str = "") -> None:
        self.problems.append(Problem(path, 0, 0, message, hint))

    def _make_task_node(self, step: TaskStep, path: str, order: StepOrder) -> Callable[..., Any]:
        try:
            function = self._handlers.find(step.handler)
        except UnknownHandler as error:
            self._report(f"{path}.handler", str(error), error.hint)
            return _placeholder_node
        handler = bind_step(function, step)
        if is_coroutine_function(function):
            return AsyncStepNode(step, order, partial(perform_async_task, step, handler))
        return StepNode(step, order, partial(perform_task, step, handler))

    def _make_llm_node(self, step: LlmStep, path: str, order: StepOrder) -> Callable[..., Any]:
        tools = [self._make_tool(tool, step, f"{path}.tools[{index}].name") for index, tool in enumerate(step.tools)]
        # One of the models is enough. At run time, missing models are skipped and recorded in the log of the run.
        if not any(self._models.has(name) for name in (step.model, *step.fallback_models)):
            hint = "Register it, or name its provider: provider:model."
            self._report(f"{path}.model", f"The model {step.model!r} is unknown.", hint)
        for index, name in enumerate(step.guardrails.post_checks):
            if name not in self._checks:
                hint = suggestion(name, self._checks, noun="Checks")
                self._report(f"{path}.guardrails.postChecks[{index}]", f"Check {name!r} does not exist.", hint)
        if self.problems:
            return _placeholder_node
        tools = [tool for tool in tools if tool is not None]
        handler = LlmStepHandler(step, order, self._models, tools, OutputGuard(step, self._checks))
        return AsyncStepNode(step, order, handler.perform)

    def _make_tool(self, tool: LlmTool, step: LlmStep, path: str) -> ToolFactory | None:
        """Return the factory of a tool. If the tool has no implementation, report this, and return None."""
        if tool.name in self._tools:
            try:
                declared_tool = DeclaredTool(tool, as_tool(self._tools[tool.name], tool.name))
            except (ToolError, InvalidConfig) as error:
                self._report(path, str(error))
                return None
            return lambda execution: declared_tool
        if self._handlers.has(tool.name):
            return partial(TaskTool, tool, self._handlers.find(tool.name), step)
        hint = suggestion(tool.name, [*self._tools, *self._handlers.names], noun="Tools and handlers")
        self._report(path, f"Tool {tool.name!r} does not exist.", hint)
        return None


def _placeholder_node(values: Any) -> None:
    """Stand in for a node that cannot be created. It is never called, because the definition is rejected."""


# -- compilation

ANY_MAP: Final = StateSchema()
"""The schema of maps with any keys."""
_CANNOT_FAIL: Final = ("condition", "wait")
"""The types of steps that cannot fail, and thus need no retry policy."""
Names = Sequence[str] | str | None


def compile_steps(
    definition: Definition | str | bytes | Mapping[str, Any],
    *,
    handlers: Handlers | Mapping[str, Handler] | None = None,
    models: StepModelOptions = None,
    tools: StepTools = None,
    checks: Mapping[str, Check] | None = None,
    checkpointer: Checkpointer | None = None,
    store: Store | None = None,
    interrupt_before: Names = None,
    interrupt_after: Names = None,
    debug: bool = False,
    instruments: Sequence[Instrument] = (),
    clock: Clock | None = None,
) -> StepsGraph:
    """Compile a definition to a graph that takes the input of the workflow and returns its final state.

    `handlers` defaults to the handlers that were registered with `@task_handler`. `models` contains the models that
    steps name. `tools` contains tools that models may call in addition to the handlers. `checks` are added to the
    checks that were registered with `@post_check`, and replace those with the same name. The other options are those of
    `StateGraph.compile`. Raises WorkflowError with all problems of the definition, including handlers, models, tools
    and checks that do not exist.
    """
    if not isinstance(definition, Definition):
        definition = read_definition(definition)
    factory = StepNodeFactory(handlers=handlers, models=models, tools=tools, checks=checks)
    order = StepOrder(definition)
    builder = GraphBuilder(
        StepsState, input_schema=ANY_MAP, output_schema=ANY_MAP, name=definition.name, version=definition.version
    )
    for index, step in enumerate(definition.steps):
        _add_step(builder, step, order, factory.make_node(step, index, order))
    if factory.problems:
        raise WorkflowError(factory.problems, source=f"the workflow {definition.name!r}")
    builder.add_edge(START, definition.steps[0].name)
    graph = builder.freeze(
        has_store=store is not None, interrupts=[*_as_sequence(interrupt_before), *_as_sequence(interrupt_after)]
    )
    return StepsGraph(
        graph,
        definition,
        checkpointer=checkpointer,
        store=store,
        interrupt_before=interrupt_before,
        interrupt_after=interrupt_after,
        debug=debug,
        instruments=instruments,
        clock=clock,
    )


def _add_step(builder: GraphBuilder, step: Step, order: StepOrder, node: Callable[..., Any]) -> None:
    """Add the node of a step, and its edge to the default successor."""
    builder.add_node(
        step.name,
        node,
        destinations=order.names,
        # Steps of other types only read the state, which takes less time than passing them to a worker thread.
        inline=step.type not in ("task", "llm"),
        retry_policy=make_retry_policy(step.retry) if step.type not in _CANNOT_FAIL else None,
        metadata={"step_type": step.type, "drawn": _list_arrows(step, order)},
    )
    if isinstance(step, ConditionStep):
        builder.add_conditional_edges(
            step.name, _make_branch_function(step), {True: step.true_step, False: step.false_step}
        )
    else:
        builder.add_edge(step.name, order.get_default_next(step))


def _make_branch_function(step: ConditionStep) -> Callable[[Any], bool]:
    """Return a function that reads the stored outcome of a condition. `update_state(as_node=...)` uses it."""

    def read_outcome(values: Any) -> bool:
        return is_true(values["state"].get(result_key(step.name)))

    return read_outcome


def _list_arrows(step: Step, order: StepOrder) -> list[tuple[str, str, str]]:
    """Return the arrows of a step for drawings, as the definition declares them."""
    if isinstance(step, ConditionStep):
        return [(step.true_step, "conditional", step.expression), (step.false_step, "conditional", "otherwise")]
    return [(order.get_default_next(step), "plain", "")]


def _as_sequence(names: Names) -> Sequence[str]:
    return (names,) if isinstance(names, str) else names or ()
