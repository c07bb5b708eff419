"""A completed model call is not repeated when a thread is resumed, and is counted once."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from pydantic import BaseModel

from statewright import START, Command, InMemorySaver, StateGraph
from statewright.agents import Agent, Lifecycle, Network, RoutingAgent, create_agent, tool
from statewright.errors import InvalidUpdateError, SerdeError
from statewright.messages import Message, ToolCall
from statewright.models import ModelRequest, ModelResponse, ScriptedModel, Usage
from statewright.storage.sqlite import SqliteSaver

PRICE = Usage(100, 10, 1.0)


class Boom(RuntimeError):
    """An error in a function of the user, which agents do not retry."""


def respond(text: str, *calls: ToolCall) -> ModelResponse:
    return ModelResponse(Message(text, role="assistant", tool_calls=calls), PRICE)


def look_once(request: ModelRequest) -> ModelResponse:
    """Call the tool once, then end."""
    has_looked = request.messages[-1].role == "tool" or not request.tools
    return respond("end") if has_looked else respond("", ToolCall("call", "look"))


@tool
def look() -> str:
    """Look."""
    return "seen"


@pytest.fixture(params=["memory", "sqlite"])
def open_saver(request: pytest.FixtureRequest, tmp_path: Path) -> Callable[[], Any]:
    """Return a function that opens the saver. In SQLite, it is opened for each execution, as by a new process."""
    memory_saver = InMemorySaver()
    return lambda: memory_saver if request.param == "memory" else SqliteSaver(tmp_path / "a.db")


@pytest.fixture(params=["sync", "async"])
def run(request: pytest.FixtureRequest, open_saver: Callable[[], Any]) -> Callable[..., Any]:
    """Return a function that runs a network on a thread, with `run` or `arun`."""

    def run(network: Network[Any], value: Any, **options: Any) -> Any:
        saver = open_saver()
        try:
            options = {"checkpointer": saver, "thread_id": "t", **options}
            if request.param == "sync":
                return network.run(value, **options)
            return asyncio.run(network.arun(value, **options))
        finally:
            if isinstance(saver, SqliteSaver):
                saver.close()

    return run


# -- hooks


class Typed(BaseModel):
    count: int = 0


def fail_once(then: Callable[[], Any]) -> Callable[[], Any]:
    """Return a hook that raises once, and then calls `then`."""
    faults = [Boom("a bug")]

    def hook() -> Any:
        if faults:
            raise faults.pop()
        return then()

    return hook


def network_with_hook(hook: str, is_coroutine: bool, model: ScriptedModel) -> Network[Any]:
    """Build a network of one agent with a hook that fails once."""
    fault = fail_once(lambda: None if hook != "on_route" else [])

    def plain(result: Any = None) -> Any:
        return fault()

    async def awaited(result: Any = None) -> Any:
        return fault()

    function: Any = awaited if is_coroutine else plain
    options: dict[str, Any] = {"model": model, "tools": [look], "max_iter": 3}
    once = lambda call_count: None if call_count else "A"  # noqa: E731
    match hook:
        case "on_start" | "on_response" | "on_finish":
            return Agent("A", lifecycle=Lifecycle(**{hook: function}), **options).alone()
        case "stop_when":
            return Agent("A", stop_when=function, **options).alone()
        case "system":
            return Agent("A", system=function, **options).alone()
        case "on_route":
            router = RoutingAgent("R", model=model, on_route=function)
            return Network("n", agents=[Agent("A", **options)], router=router)
        case "network stop_when":
            return Network("n", agents=[Agent("A", **options)], router=once, stop_when=function)
        case _:
            raise AssertionError(hook)


HOOKS = ["on_start", "on_response", "on_finish", "stop_when", "system", "on_route", "network stop_when"]


@pytest.mark.parametrize("hook", HOOKS)
@pytest.mark.parametrize("is_coroutine", [False, True], ids=["plain", "coroutine"])
def test_a_failing_hook_does_not_repeat_a_model_call(hook: str, is_coroutine: bool, run: Callable[..., Any]) -> None:
    expected = ScriptedModel(look_once)
    expected_network = network_with_hook(hook, is_coroutine, expected)
    with pytest.raises(Boom):
        expected_network.run("x")  # uses up the error of this network
    before = len(expected.requests)
    expected_run = expected_network.run("x")
    model = ScriptedModel(look_once)
    network = network_with_hook(hook, is_coroutine, model)
    with pytest.raises(Boom):
        run(network, "x")
    end = run(network, None)
    assert len(model.requests) == len(expected.requests) - before
    assert end.usage == expected_run.usage
    assert end.usage.cost == len(model.requests)


def network_with_writes(hook: str, field: str, faults: list[Any], model: ScriptedModel, data: Any) -> Network[Any]:
    """Build a network of one agent whose hook writes each of the invalid values once."""

    def write(network: Any, result: Any = None, prompt: Any = None) -> None:
        if faults:
            setattr(network.state.data, field, faults.pop())

    return Agent("A", model=model, lifecycle=Lifecycle(**{hook: write})).alone(state=data)


@pytest.mark.parametrize("hook", ["on_start", "on_response"])
def test_a_hook_that_writes_a_wrong_type_does_not_repeat_a_model_call(hook: str, run: Callable[..., Any]) -> None:
    model = ScriptedModel(look_once)
    network = network_with_writes(hook, "count", ["many"], model, Typed)
    with pytest.raises(InvalidUpdateError, match="count"):
        run(network, "x")
    assert run(network, None).usage == PRICE
    assert len(model.requests) == 1


@pytest.mark.parametrize("hook", ["on_start", "on_response"])
def test_a_hook_that_writes_an_unsaveable_value_does_not_repeat_a_model_call(hook: str, tmp_path: Path) -> None:
    model = ScriptedModel(look_once)
    network = network_with_writes(hook, "other", [lambda: None], model, {"other": None})
    with SqliteSaver(tmp_path / "a.db") as saver:
        with pytest.raises(SerdeError, match="other"):
            network.run("x", checkpointer=saver, thread_id="t")
        assert network.run(None, checkpointer=saver, thread_id="t").usage == PRICE
    assert len(model.requests) == 1


@pytest.mark.parametrize("hook", ["post_model_hook", "pre_model_hook", "prompt"])
def test_a_failing_hook_of_a_prebuilt_agent_does_not_repeat_a_model_call(
    hook: str, open_saver: Callable[[], Any]
) -> None:
    fault = fail_once(lambda: {} if hook != "prompt" else "Be brief.")
    model, saver = ScriptedModel(look_once), open_saver()
    options: Any = {hook: lambda state: fault()}
    app = create_agent(model, [look], checkpointer=saver, **options)
    with pytest.raises(Boom):
        app.invoke({"messages": ["x"]}, thread_id="t")
    assert app.invoke(None, thread_id="t")["messages"][-1].text == "end"
    assert len(model.requests) == 2
    if isinstance(saver, SqliteSaver):
        saver.close()


# -- paid calls are counted at once


@tool(approve=True)
def pay() -> str:
    """Pay."""
    return "paid"


def pay_once(request: ModelRequest) -> ModelResponse:
    """Pay once, then end."""
    has_paid = request.messages[-1].role == "tool"
    return respond("end") if has_paid else respond("", ToolCall("call", "pay"))


def route_once(request: ModelRequest) -> ModelResponse:
    """Call the tool once, then name the agent."""
    return respond("A") if request.messages[-1].role == "tool" else respond("", ToolCall("call", "pay"))


@pytest.mark.parametrize("caller", ["agent", "router"])
def test_waiting_runs_are_counted(caller: str, run: Callable[..., Any]) -> None:
    model = ScriptedModel(pay_once if caller == "agent" else route_once)
    network = Agent("A", model=model, tools=[pay], max_iter=3).alone()
    if caller == "router":
        router = RoutingAgent(
            "R", model=model, tools=[pay], max_iter=3, on_route=lambda network: [] if network.call_count else "A"
        )
        network = Network("n", agents=[Agent("A", model=ScriptedModel(lambda request: respond("x")))], router=router)
    waiting = run(network, "x")
    assert waiting.interrupts
    assert waiting.usage.cost == len(model.requests) == 1
    second = run(network, "another", on_unfinished="discard")
    assert second.interrupts
    assert second.usage.cost == len(model.requests) == 2
    end = run(network, Command(resume=True))
    while end.interrupts:  # the router is called again after the agent
        end = run(network, Command(resume=True))
    assert end.usage.cost == len(model.requests) + (caller == "router")


@pytest.mark.parametrize("location", ["on_response", "tool", "router"])
def test_failed_and_abandoned_attempts_are_counted(location: str, run: Callable[..., Any]) -> None:
    class ProcessDeath(BaseException):
        """Simulates the death of the process."""

    faults: list[BaseException] = [ProcessDeath() if location == "tool" else Boom("a bug")]

    def fail(result: Any = None) -> Any:
        if faults:
            raise faults.pop()

    @tool(name="look")
    def failing_look() -> str:
        """Look."""
        fail()
        return "seen"

    model = ScriptedModel(look_once)
    hooks = Lifecycle(on_response=fail) if location == "on_response" else Lifecycle()
    agent = Agent("A", model=model, tools=[failing_look if location == "tool" else look], max_iter=3, lifecycle=hooks)
    network = agent.alone()
    if location == "router":
        routing = ScriptedModel(lambda request: respond("A"))
        router = RoutingAgent(
            "R", model=routing, on_route=lambda network: fail() or ([] if network.call_count else "A")
        )
        network = Network("n", agents=[agent], router=router)
    with pytest.raises((Boom, ProcessDeath)):
        run(network, "x")
    end = run(network, "another", on_unfinished="discard")
    request_count = len(model.requests) + (len(routing.requests) if location == "router" else 0)
    assert end.usage.cost == request_count


def test_a_network_in_a_graph_counts_discarded_runs(open_saver: Callable[[], Any]) -> None:
    model, saver = ScriptedModel(pay_once), open_saver()
    inner = Agent("A", model=model, tools=[pay], max_iter=3).alone().compile()
    graph = StateGraph({"input": str, "turns": list, "discarded_usage": list})
    app = graph.add_node("desk", inner, memory="thread").add_edge(START, "desk").compile(saver)
    app.invoke({"input": "x"}, thread_id="t")
    app.invoke({"input": "y"}, thread_id="t", on_unfinished="discard")
    assert len(model.requests) == 2
    end = app.invoke(Command(resume=True), thread_id="t")
    assert end["discarded_usage"][2] == 1.0
    if isinstance(saver, SqliteSaver):
        saver.close()


def test_a_hook_sees_the_usage_so_far() -> None:
    seen: list[float] = []
    hooks = Lifecycle(
        on_start=lambda network: seen.append(network.usage.cost),
        on_response=lambda network: seen.append(network.usage.cost),
        on_finish=lambda network: seen.append(network.usage.cost),
    )
    agent = Agent("A", model=ScriptedModel(look_once), tools=[look], max_iter=3, lifecycle=hooks)
    agent.run("x")
    assert seen == [0.0, 1.0, 1.0, 2.0, 2.0]
