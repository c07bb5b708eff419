"""A definition made into a graph: a step is a node, and where it goes on is what its result says."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

from statewright.checkpoint import Checkpointer
from statewright.clock import Clock
from statewright.errors import WorkflowError
from statewright.graph import START, GraphBuilder
from statewright.runtime import Instrument
from statewright.state import StateSchema
from statewright.store import Store
from statewright.workflow.steps.condition import is_true
from statewright.workflow.steps.handlers import Handler, Handlers
from statewright.workflow.steps.kinds.condition import result_key
from statewright.workflow.steps.llm.checks import Check
from statewright.workflow.steps.llm.models import ModelsGiven
from statewright.workflow.steps.llm.tools import ToolsGiven
from statewright.workflow.steps.model import ConditionStep, Definition, Step
from statewright.workflow.steps.order import Order
from statewright.workflow.steps.program import StepsGraph
from statewright.workflow.steps.read import read_definition
from statewright.workflow.steps.retries import retry_policy
from statewright.workflow.steps.state import StepsState
from statewright.workflow.steps.workshop import StepNodeFactory

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
