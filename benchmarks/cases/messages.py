"""A conversation that gains one message per superstep: does the cost of a step grow with its length?"""

from collections.abc import Callable
from functools import partial
from typing import Annotated, Any, TypedDict

from benchmarks.engines import Engine, EngineLoader, langgraph, statewright
from benchmarks.figure import Figure, Rival
from benchmarks.requirement import AtLeast, AtMost, Shown
from benchmarks.timing import per_call


def conversation(engine: Engine) -> type:
    """Return the schema, with the reducer of the engine."""

    class Conversation(TypedDict):
        messages: Annotated[list[Any], engine.add_messages]

    return Conversation


def say(state: dict[str, Any]) -> dict[str, list[dict[str, str]]]:
    return {"messages": [{"role": "user", "content": "hello"}]}


def growing(load: EngineLoader, length: int) -> Callable[[], object]:
    """Return a run that adds messages up to a number."""
    engine = load()

    def again(state: dict[str, Any]) -> str:
        return "again" if len(state["messages"]) < length else "end"

    graph = engine.StateGraph(conversation(engine))
    graph.add_node("say", say)
    graph.add_edge(engine.START, "say")
    graph.add_conditional_edges("say", again, {"again": "say", "end": engine.END})
    app = graph.compile()
    return lambda: app.invoke({"messages": []}, {"recursion_limit": length + 10})


def burr_growing(length: int) -> Callable[[], object]:
    from burr.core import ApplicationBuilder, Condition, State, action

    @action(reads=[], writes=["messages"])
    def say(state: State) -> State:
        return state.append(messages={"role": "user", "content": "hello"})

    @action(reads=[], writes=[])
    def done(state: State) -> State:
        return state

    again = Condition(["messages"], lambda state: len(state["messages"]) < length)
    builder = ApplicationBuilder().with_actions(say=say, done=done).with_entrypoint("say")
    app = builder.with_transitions(("say", "say", again), ("say", "done")).with_state(messages=[]).build()

    def run() -> object:
        app.update_state(app.state.update(messages=[]))
        app.reset_to_entrypoint()
        return app.run(halt_after=["done"])

    return run


FIGURES = (
    Figure(
        name="2000 messages, one a step",
        unit="µs/append",
        ours=per_call(partial(growing, statewright, 2000), 2000),
        rivals=(
            Rival(name="LangGraph", take=per_call(partial(growing, langgraph, 2000), 2000), requirement=AtLeast(75)),
            Rival(name="Burr", take=per_call(partial(burr_growing, 2000), 2000), requirement=Shown()),
        ),
    ),
    Figure(
        name="20 000 messages, one a step",
        unit="µs/append",
        ours=per_call(partial(growing, statewright, 20_000), 20_000),
        limit=AtMost(60),
    ),
)
