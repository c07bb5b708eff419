"""How often a step is tried, and how long it waits in between."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Final

from statewright.channels import Channel
from statewright.checkpoint import Checkpointer, TaskResult
from statewright.clock import Clock, as_seconds
from statewright.errors import GraphError, InternalError, NodeTimeoutError, RunError, StorageError, WorkflowError
from statewright.graph import START, Graph, GraphBuilder, RetryPolicy
from statewright.runtime import CompiledGraph, Instrument
from statewright.runtime.program import NodeProgram, Program
from statewright.state import StateSchema, UpdateReader
from statewright.store import Store
from statewright.workflow.steps.handlers import Handler, Handlers
from statewright.workflow.steps.kinds import is_true, result_key
from statewright.workflow.steps.llm.checks import Check
from statewright.workflow.steps.llm.models import ModelsGiven
from statewright.workflow.steps.llm.tools import ToolsGiven
from statewright.workflow.steps.model import ConditionStep, Definition, Retry, Step
from statewright.workflow.steps.node import Order
from statewright.workflow.steps.node_factory import StepNodeFactory
from statewright.workflow.steps.read import read_definition
from statewright.workflow.steps.result import StepFailed
from statewright.workflow.steps.state import CHANNELS, InputReader, StateUpdates, StepsState, state_of


@dataclass(frozen=True, kw_only=True, slots=True)
class StepRetry(RetryPolicy):
    """Waits that grow up to a limit, each shortened at random, by a half at most, so that a crowd spreads out."""

    def delay(self, attempt: int, chance: float) -> float:
        grown = as_seconds(self.initial_interval) * self.backoff_factor ** (attempt - 1)
        interval = min(grown, as_seconds(self.max_interval))
        return interval * (1 + chance) / 2


def retry_policy(retry: Retry) -> RetryPolicy | None:
    """The policy of a step; None if it is tried once."""
    if retry.max_attempts == 1:
        return None
    return StepRetry(
        initial_interval=retry.backoff_ms / 1000,
        backoff_factor=retry.backoff_multiplier,
        max_interval=retry.max_backoff_ms / 1000,
        max_attempts=retry.max_attempts,
        retry_on=is_tried_again,
    )


def is_tried_again(error: BaseException) -> bool:
    """Whether a step is tried again after an error: after everything but wrong answers and what ends the run."""
    if isinstance(error, StepFailed):
        return not error.is_final
    if isinstance(error, NodeTimeoutError):
        return True
    return isinstance(error, Exception) and not isinstance(error, GraphError | RunError | StorageError | InternalError)


# -- The graph of a workflow of steps, as its callers see it: the plain input goes in, and the bare state comes out.


class StepsProgram(Program):
    """Reads and shows the state as a map, instead of the channels in which it is kept."""

    begins_with_state = False

    def __init__(self, graph: Graph, **options: Any) -> None:
        super().__init__(graph, **options)
        self.reported = frozenset[
            str
        ]()  # a graph that calls this one gets the state, and never the channel of that name

    def output(self, values: Mapping[str, Any], *, typed: bool = False, plain: bool = False) -> Any:
        return state_of(values)

    def shown(self, result: TaskResult) -> Any:
        written: dict[str, Any] = dict(result.writes)
        return written.get("state") or None

    def _update_reader(self, channels: Mapping[str, Channel], *, closed: bool, check: bool) -> UpdateReader:
        return StateUpdates({name: self.channels[name] for name in CHANNELS}, closed=True)

    def _start(self) -> NodeProgram:
        start = super()._start()
        start.updates = InputReader({name: self.channels[name] for name in CHANNELS}, closed=True)
        start.known_plain = None
        return start


class StepsGraph(CompiledGraph):
    """A workflow of steps that is ready to run. Made by `compile_steps`."""

    program_class: ClassVar[type[Program]] = StepsProgram

    def __init__(self, graph: Graph, definition: Definition, **options: Any) -> None:
        super().__init__(graph, **options)
        self.definition = definition

    def get_state_jsonschema(self) -> dict[str, Any]:
        """The JSON Schema of the state as it is shown: any map."""
        return {**self.get_output_jsonschema(), "title": f"{self.name}State"}


# -- A definition made into a graph: a step is a node, and where it goes on is what its result says.

ANY_MAP: Final = StateSchema()
_CANNOT_FAIL: Final = ("condition", "wait")
Names = Sequence[str] | str | None


def compile_steps(
    definition: Definition | str | bytes | Mapping[str, Any],
    *,
    handlers: Handlers | Mapping[str, Handler] | None = None,
    models: ModelsGiven = None,
    tools: ToolsGiven = None,
    checks: Mapping[str, Check] | None = None,
    checkpointer: Checkpointer | None = None,
    store: Store | None = None,
    interrupt_before: Names = None,
    interrupt_after: Names = None,
    debug: bool = False,
    instruments: Sequence[Instrument] = (),
    clock: Clock | None = None,
) -> StepsGraph:
    """The graph of a definition, ready to run: its input is that of the workflow, its result the final state.

    `handlers` are those of `@task_handler` if not given. `models` finds the models that steps name, `tools` are what
    they may call beside handlers, `checks` stand beside those of `@post_check`, and instead of those of the same name.
    The rest is as in `StateGraph.compile`. Raises WorkflowError with everything that is wrong with the definition,
    handlers, tools and checks that nobody registered among it.
    """
    if not isinstance(definition, Definition):
        definition = read_definition(definition)
    workshop = StepNodeFactory(handlers=handlers, models=models, tools=tools, checks=checks)
    order = Order(definition)
    builder = GraphBuilder(
        StepsState, input_schema=ANY_MAP, output_schema=ANY_MAP, name=definition.name, version=definition.version
    )
    for place, step in enumerate(definition.steps):
        _add(builder, step, order, workshop.node(step, place, order))
    if workshop.problems:
        raise WorkflowError(workshop.problems, source=f"the workflow {definition.name!r}")
    builder.add_edge(START, definition.steps[0].name)
    graph = builder.freeze(
        has_store=store is not None, interrupts=[*_listed(interrupt_before), *_listed(interrupt_after)]
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


def _add(builder: GraphBuilder, step: Step, order: Order, node: Callable[..., Any]) -> None:
    """Add the node of a step. Any step may name any other; its edge says what follows where it names none."""
    builder.add_node(
        step.name,
        node,
        destinations=order.names,
        inline=step.type not in ("task", "llm"),  # nothing but a look at the state: not worth a thread
        retry_policy=retry_policy(step.retry) if step.type not in _CANNOT_FAIL else None,
        metadata={"step_type": step.type, "drawn": _drawn(step, order)},
    )
    if isinstance(step, ConditionStep):
        builder.add_conditional_edges(step.name, _way(step), {True: step.true_step, False: step.false_step})
    else:
        builder.add_edge(step.name, order.usual(step))


def _way(step: ConditionStep) -> Callable[[Any], bool]:
    """Which way a condition took, as the state tells: asked where somebody changes the state in its place."""

    def way(values: Any) -> bool:
        return is_true(values["state"].get(result_key(step.name)))

    return way


def _drawn(step: Step, order: Order) -> list[tuple[str, str, str]]:
    """The arrows of a step: those that the definition tells."""
    if isinstance(step, ConditionStep):
        return [(step.true_step, "conditional", step.expression), (step.false_step, "conditional", "otherwise")]
    return [(order.usual(step), "plain", "")]


def _listed(names: Names) -> Sequence[str]:
    return (names,) if isinstance(names, str) else names or ()
