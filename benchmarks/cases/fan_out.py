"""One node that sends to a thousand others and more: the cost of a task in a wide fan-out.

Async figures are processor time, because the wall clock also counts the waiting of the loop. Every task adds one
item to a list with `operator.add`, as users write it.
"""

import asyncio
import operator
import time
from collections.abc import Awaitable, Callable
from functools import partial
from typing import Annotated, Any, TypedDict

from benchmarks.engines import EngineLoader, langgraph, statewright
from benchmarks.figure import Figure, Rival, Take
from benchmarks.requirement import AtLeast, Shown, Within
from benchmarks.timing import per_await, per_call

PAUSE = 0.001  # seconds


class Gathered(TypedDict):
    """The state: the number of sends, and their results."""

    width: int
    found: Annotated[list[int], operator.add]


Node = Callable[..., Any]


def double(task: dict[str, int]) -> dict[str, list[int]]:
    return {"found": [task["number"] * 2]}


async def double_async(task: dict[str, int]) -> dict[str, list[int]]:
    return {"found": [task["number"] * 2]}


async def double_after_pause(task: dict[str, int]) -> dict[str, list[int]]:
    await asyncio.sleep(PAUSE)
    return {"found": [task["number"] * 2]}


def fan_out_app(load: EngineLoader, work: Node, plan: Callable[[Any], Node]) -> Any:
    """Return a compiled graph of a planning node and the node that it sends to."""
    engine = load()
    graph = engine.StateGraph(Gathered)
    graph.add_node("plan", plan(engine), destinations=("work",))
    graph.add_node("work", work)
    graph.add_edge(engine.START, "plan")
    graph.add_edge("work", engine.END)
    return graph.compile()


def plan_sync(engine: Any) -> Node:
    Command, Send = engine.Command, engine.Send  # noqa: N806  classes

    def plan(state: Gathered) -> Any:
        return Command(goto=[Send("work", {"number": number}) for number in range(state["width"])])

    return plan


def plan_async(engine: Any) -> Node:
    plan_now = plan_sync(engine)

    async def plan(state: Gathered) -> Any:
        return plan_now(state)

    return plan


def fan_out(load: EngineLoader, width: int) -> Callable[[], object]:
    app = fan_out_app(load, double, plan_sync)
    return lambda: app.invoke({"width": width, "found": []})


def fan_out_async(load: EngineLoader, work: Node, width: int) -> Callable[[], Awaitable[object]]:
    app = fan_out_app(load, work, plan_async)
    return lambda: app.ainvoke({"width": width, "found": []})


def pydantic_graph_fan_out(width: int) -> Callable[[], Awaitable[object]]:
    from pydantic_graph import GraphBuilder, StepContext, reduce_list_append

    builder = GraphBuilder(input_type=int, output_type=list[int], auto_instrument=False)

    @builder.step
    async def plan(ctx: StepContext[None, None, int]) -> list[int]:
        return list(range(ctx.inputs))

    @builder.step
    async def double(ctx: StepContext[None, None, int]) -> int:
        return ctx.inputs * 2

    gather = builder.join(reduce_list_append, initial_factory=list)
    builder.add_edge(builder.start_node, plan)
    builder.add_mapping_edge(plan, double)
    builder.add_edge(double, gather)
    builder.add_edge(gather, builder.end_node)
    graph = builder.build()
    return lambda: graph.run(inputs=width)


def agent_framework_fan_out(width: int) -> Callable[[], Awaitable[object]]:
    """Return a run over static edges, an easier task than sending, because the width is part of the graph."""
    from agent_framework import FunctionExecutor, WorkflowBuilder, WorkflowContext

    async def plan(width: int, ctx: WorkflowContext[int]) -> None:
        await ctx.send_message(width)

    async def double(number: int, ctx: WorkflowContext[int]) -> None:
        await ctx.send_message(number * 2)

    async def gather(found: list[int], ctx: WorkflowContext[int, list[int]]) -> None:
        await ctx.yield_output(found)

    first, last = FunctionExecutor(plan, id="plan"), FunctionExecutor(gather, id="gather")
    workers = [FunctionExecutor(double, id=f"double_{number}") for number in range(width)]
    builder = WorkflowBuilder(start_executor=first, output_from=[last])
    workflow = builder.add_fan_out_edges(first, workers).add_fan_in_edges(workers, last).build()
    return lambda: workflow.run(width)


def _tasks(load: EngineLoader, work: Node, width: int) -> Take:
    return per_await(partial(fan_out_async, load, work, width), width, clock=time.process_time)


def _against_langgraph(work: Node, width: int, times: float) -> Rival:
    return Rival(name="LangGraph", take=_tasks(langgraph, work, width), requirement=AtLeast(times))


FIGURES = (
    Figure(
        name="fan-out to 1000, async, processor time",
        unit="µs/task",
        ours=_tasks(statewright, double_async, 1000),
        rivals=(
            _against_langgraph(double_async, 1000, 25),
            Rival(
                name="pydantic-graph",
                take=per_await(partial(pydantic_graph_fan_out, 1000), 1000, clock=time.process_time),
                requirement=Shown(),
            ),
            Rival(
                name="agent-framework",
                take=per_await(partial(agent_framework_fan_out, 1000), 1000, clock=time.process_time),
                requirement=Shown(),
            ),
        ),
    ),
    Figure(
        name="fan-out to 10 000, async, processor time",
        unit="µs/task",
        ours=_tasks(statewright, double_async, 10_000),
        rivals=(_against_langgraph(double_async, 10_000, 60),),
        is_long=True,
    ),
    Figure(
        name="fan-out to 100 000, async, processor time",
        unit="µs/task",
        ours=_tasks(statewright, double_async, 100_000),
        rivals=(Rival(name="itself to 1000", take=_tasks(statewright, double_async, 1000), requirement=Within(1.35)),),
    ),
    Figure(
        name="fan-out to 1000 that wait 1 ms, async, processor time",
        unit="µs/task",
        ours=_tasks(statewright, double_after_pause, 1000),
        rivals=(_against_langgraph(double_after_pause, 1000, 18),),
    ),
    Figure(
        name="fan-out to 1000, plain functions, sync",
        unit="µs/task",
        ours=per_call(partial(fan_out, statewright, 1000), 1000),
        rivals=(
            Rival(name="LangGraph", take=per_call(partial(fan_out, langgraph, 1000), 1000), requirement=AtLeast(30)),
        ),
    ),
)
