"""Two nodes in a loop over three keys, 2000 supersteps: the cost of one superstep without other features.

The limit of the loop is one of the keys, so that `benchmarks.instructions` can run the same graph at other lengths.
Peers differ in their model: pydantic-graph changes one shared object, agent-framework passes messages. LangGraph runs
a plain router under `ainvoke` in a worker thread, so the async loop is shown with a coroutine as its router too.
"""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any, TypedDict

from benchmarks.engines import EngineLoader, langgraph, statewright
from benchmarks.figure import Figure, Rival, Take
from benchmarks.requirement import AtLeast, Shown
from benchmarks.timing import per_await, per_call

STEPS = 2000
Node = Callable[..., Any]


class Tally(TypedDict):
    """The state of the loop."""

    count: int
    total: int
    limit: int


def add(state: Tally) -> dict[str, int]:
    return {"count": state["count"] + 1}


def sum_up(state: Tally) -> dict[str, int]:
    return {"total": state["total"] + state["count"]}


async def add_async(state: Tally) -> dict[str, int]:
    return {"count": state["count"] + 1}


async def sum_up_async(state: Tally) -> dict[str, int]:
    return {"total": state["total"] + state["count"]}


def again(state: Tally) -> str:
    return "again" if state["count"] < state["limit"] else "end"


async def again_async(state: Tally) -> str:
    return again(state)


def start(steps: int) -> Tally:
    """Return the input for a loop of that many supersteps."""
    return {"count": 0, "total": 0, "limit": steps // 2}


def graph_app(load: EngineLoader, first: Node, second: Node, route: Node = again) -> Any:
    """Return the compiled loop in Statewright or LangGraph."""
    engine = load()
    graph = engine.StateGraph(Tally)
    graph.add_node("add", first)
    graph.add_node("sum_up", second)
    graph.add_edge(engine.START, "add")
    graph.add_edge("add", "sum_up")
    graph.add_conditional_edges("sum_up", route, {"again": "add", "end": engine.END})
    return graph.compile()


def graph_loop(load: EngineLoader, steps: int = STEPS) -> Callable[[], object]:
    app = graph_app(load, add, sum_up)
    return lambda: app.invoke(start(steps), {"recursion_limit": steps + 10})


def graph_loop_async(load: EngineLoader, route: Node = again) -> Callable[[], Awaitable[object]]:
    app = graph_app(load, add_async, sum_up_async, route)
    return lambda: app.ainvoke(start(STEPS), {"recursion_limit": STEPS + 10})


def burr_app(first: Node, second: Node) -> Any:
    """Return the loop in Burr. Its actions read and write declared keys; a third one marks the end."""
    from burr.core import ApplicationBuilder, State, action, expr

    @action(reads=[], writes=[])
    def done(state: State) -> State:
        return state

    builder = ApplicationBuilder().with_actions(add=first, sum_up=second, done=done).with_entrypoint("add")
    builder = builder.with_transitions(("add", "sum_up"), ("sum_up", "add", expr("count < limit")), ("sum_up", "done"))
    return builder.with_state(**start(STEPS)).build()


def burr_again(app: Any) -> None:
    """Reset the application, which keeps its state."""
    app.update_state(app.state.update(**start(STEPS)))
    app.reset_to_entrypoint()


def burr_loop() -> Callable[[], object]:
    from burr.core import State, action

    @action(reads=["count"], writes=["count"])
    def add(state: State) -> State:
        return state.update(count=state["count"] + 1)

    @action(reads=["count", "total"], writes=["total"])
    def sum_up(state: State) -> State:
        return state.update(total=state["total"] + state["count"])

    app = burr_app(add, sum_up)

    def run() -> object:
        burr_again(app)
        return app.run(halt_after=["done"])

    return run


def burr_loop_async() -> Callable[[], Awaitable[object]]:
    from burr.core import State, action

    @action(reads=["count"], writes=["count"])
    async def add(state: State) -> State:
        return state.update(count=state["count"] + 1)

    @action(reads=["count", "total"], writes=["total"])
    async def sum_up(state: State) -> State:
        return state.update(total=state["total"] + state["count"])

    app = burr_app(add, sum_up)

    async def run() -> object:
        burr_again(app)
        return await app.arun(halt_after=["done"])

    return run


@dataclass
class SharedTally:
    """The state of a loop whose nodes change it in place."""

    count: int = 0
    total: int = 0
    limit: int = STEPS // 2


def pydantic_graph_loop() -> Callable[[], Awaitable[object]]:
    from pydantic_graph import BaseNode, End, GraphBuilder, GraphRunContext

    @dataclass
    class Add(BaseNode[SharedTally, None, int]):
        async def run(self, ctx: GraphRunContext[SharedTally, None]) -> "SumUp":
            ctx.state.count += 1
            return SumUp()

    @dataclass
    class SumUp(BaseNode[SharedTally, None, int]):
        async def run(self, ctx: GraphRunContext[SharedTally, None]) -> Add | End[int]:
            ctx.state.total += ctx.state.count
            return Add() if ctx.state.count < ctx.state.limit else End(ctx.state.total)

    builder = GraphBuilder(state_type=SharedTally, input_type=Add, output_type=int, auto_instrument=False)
    builder.add(builder.node(Add), builder.node(SumUp), builder.edge_from(builder.start_node).to(Add))
    graph = builder.build()
    return lambda: graph.run(state=SharedTally(), inputs=Add())


def agent_framework_loop() -> Callable[[], Awaitable[object]]:
    from agent_framework import WorkflowBuilder, WorkflowContext, executor

    @executor(id="add")
    async def add(state: dict, ctx: WorkflowContext[dict]) -> None:
        await ctx.send_message({**state, "count": state["count"] + 1})

    @executor(id="sum_up")
    async def sum_up(state: dict, ctx: WorkflowContext[dict, dict]) -> None:
        state = {**state, "total": state["total"] + state["count"]}
        await (ctx.send_message(state) if again(state) == "again" else ctx.yield_output(state))

    builder = WorkflowBuilder(start_executor=add, max_iterations=STEPS + 10, output_from=[sum_up])
    workflow = builder.add_edge(add, sum_up).add_edge(sum_up, add).build()
    return lambda: workflow.run(dict(start(STEPS)))


def _routed_by_coroutine(load: EngineLoader) -> Take:
    return per_await(lambda: graph_loop_async(load, again_async), STEPS)


FIGURES = (
    Figure(
        name="loop of 2 nodes, sync",
        unit="µs/step",
        ours=per_call(lambda: graph_loop(statewright), STEPS),
        rivals=(
            Rival(name="LangGraph", take=per_call(lambda: graph_loop(langgraph), STEPS), requirement=AtLeast(50)),
            Rival(name="Burr", take=per_call(burr_loop, STEPS), requirement=AtLeast(12)),
        ),
    ),
    Figure(
        name="loop of 2 nodes, async",
        unit="µs/step",
        ours=per_await(lambda: graph_loop_async(statewright), STEPS),
        rivals=(
            Rival(
                name="LangGraph", take=per_await(lambda: graph_loop_async(langgraph), STEPS), requirement=AtLeast(60)
            ),
            Rival(name="Burr", take=per_await(burr_loop_async, STEPS), requirement=AtLeast(12)),
            Rival(name="pydantic-graph", take=per_await(pydantic_graph_loop, STEPS), requirement=AtLeast(12)),
            Rival(name="agent-framework", take=per_await(agent_framework_loop, STEPS), requirement=AtLeast(12)),
        ),
    ),
    Figure(
        name="loop of 2 nodes, async router too",
        unit="µs/step",
        ours=_routed_by_coroutine(statewright),
        rivals=(Rival(name="LangGraph", take=_routed_by_coroutine(langgraph), requirement=Shown()),),
    ),
)
