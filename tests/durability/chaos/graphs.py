"""The graphs that the children run. Each uses a feature that a kill at the wrong moment could break."""

from __future__ import annotations

import asyncio
import itertools
import operator
import os
import random
import time
from collections.abc import Callable, Mapping
from typing import Annotated, Any, Final, TypedDict

from tests.durability.chaos.kill_trigger import trigger
from tests.durability.chaos.notes import Notes, branch_of

from statewright import (
    END,
    START,
    Command,
    Ephemeral,
    Message,
    Overwrite,
    RemoveMessage,
    RetryPolicy,
    Runtime,
    Send,
    StateGraph,
    add_messages,
    append,
    interrupt,
    sleep,
    wait_for_event,
)


class ExpectedFailure(ConnectionError):
    """A failure of a node that is part of a scenario."""


class ItemState(TypedDict, total=False):
    item: int
    rounds: Annotated[int, operator.add]
    log: Annotated[list[Any], append]
    total: int
    edited: Annotated[int, operator.add]


class LoopState(TypedDict, total=False):
    count: Annotated[int, operator.add]
    words: Annotated[list[str], append]
    messages: Annotated[list[Message], add_messages]
    last: str
    signal: Annotated[str | None, Ephemeral]


class Visits(TypedDict, total=False):
    visits: Annotated[int, operator.add]
    seen: int


class OuterState(ItemState, total=False):
    seen: int


Action = Callable[[Any, Runtime], Any]


class NodeFactory:
    """Creates nodes that note each execution and take a random time; some are plain functions, others coroutines."""

    def __init__(self, notes: Notes, driver: str) -> None:
        self.notes = notes
        self._coroutines = itertools.cycle([True, True, False] if driver == "async" else [False, False, True])

    def node(self, graph: StateGraph, name: str, action: Action, *, pause: float = 0.001, **options: Any) -> None:
        note = self._note

        def plain(state: Any, runtime: Runtime) -> Any:
            note("started", runtime)
            time.sleep(random.random() * pause)
            answer = action(state, runtime)
            note("ended", runtime)
            return answer

        async def coroutine(state: Any, runtime: Runtime) -> Any:
            note("started", runtime)
            await asyncio.sleep(random.random() * pause)
            answer = action(state, runtime)
            note("ended", runtime)
            return answer

        graph.add_node(name, coroutine if next(self._coroutines) else plain, **options)

    def _note(self, kind: str, runtime: Runtime) -> None:
        info = runtime.execution_info
        branch = [info.thread_id, info.namespace, branch_of(info.run_id)]
        self.notes.write(kind, branch=branch, node=info.node, task=info.task_id, attempt=info.attempt)

    def effect(self, runtime: Runtime, name: str, number: int) -> str:
        """Perform a side effect in a step, and return its token."""
        info = runtime.execution_info
        key = [info.thread_id, info.task_id, name, number]

        def execute(number: int) -> str:
            token = f"{name} {number}#{os.urandom(6).hex()}"
            self.notes.write("effect", durable=True, key=key, token=token)
            trigger.reach("effect")
            return token

        token = runtime.step(name, execute, number)
        self.notes.write("recorded", key=key, token=token)
        return token


def round_again(node: str, rounds: int) -> Callable[[Any], Any]:
    """Return a conditional edge that leads back to a node until some rounds are done."""

    def route(state: Any) -> str:
        return node if state["rounds"] < rounds else END

    return route


def chain(factory: NodeFactory) -> StateGraph:
    """Return a graph of nodes in a row."""
    graph = StateGraph(ItemState)
    names = [f"node {number}" for number in range(12)]
    for name in names:
        factory.node(graph, name, lambda s, r, name=name: {"log": [name], "total": len(s["log"])})
    for before, after in itertools.pairwise([START, *names]):
        graph.add_edge(before, after)
    return graph


LOOPS: Final = 240


def turn(state: Any, runtime: Runtime) -> dict[str, Any]:
    """Update the state in one of many supersteps.

    Lists grow, messages are added, replaced and removed, a signal is sent, a list is replaced.
    """
    n = state["count"]
    messages: list[Any] = [Message(f"text {n}", role="assistant", id=f"m{n}")]
    if n % 7 == 6:
        messages.append(Message(f"better {n}", role="assistant", id=f"m{n - 3}"))
    if n % 11 == 10:
        messages.append(RemoveMessage(f"m{n - 2}"))
    update: dict[str, Any] = {"count": 1, "words": [f"word {n}"], "messages": messages, "last": f"turn {n}"}
    if n % 10 == 3:
        update["signal"] = "now"
    if state.get("signal"):
        update["words"] = ["heard", f"word {n}"]
    if n % 100 == 99:
        update["words"] = Overwrite([*state["words"][-10:], "cut"])
    return update


def loop(factory: NodeFactory) -> StateGraph:
    """Return a graph that takes a few hundred supersteps, so that its checkpoints are compacted meanwhile."""
    graph = StateGraph(LoopState)
    factory.node(graph, "turn", turn, pause=0.0002)
    graph.add_edge(START, "turn")
    graph.add_conditional_edges("turn", lambda s: "turn" if s["count"] < LOOPS else END, ["turn", END])
    return graph


def fan(factory: NodeFactory) -> StateGraph:
    """Return a graph with Sends, some of which take so long that results of the others are saved meanwhile."""

    def work(n: int, runtime: Runtime) -> dict[str, Any]:
        if n % 4 == 0:
            time.sleep(random.random() * 0.15)
        return {"log": [n * n]}

    graph = StateGraph(ItemState)
    factory.node(graph, "plan", lambda s, r: Command(goto=[Send("work", n) for n in range(9)]), destinations=["work"])
    factory.node(graph, "work", work, pause=0.004)
    factory.node(graph, "collect", lambda s, r: {"rounds": 1, "total": sum(s["log"])})
    graph.add_edge(START, "plan").add_edge("work", "collect")
    graph.add_conditional_edges("collect", round_again("plan", 3), ["plan", END])
    return graph


def joins(factory: NodeFactory) -> StateGraph:
    """Return a graph with a join of paths of different lengths."""
    graph = StateGraph(ItemState)
    for name in ("a", "b", "b2", "b3", "c"):
        factory.node(graph, name, lambda s, r, name=name: {"log": [name]})
    factory.node(graph, "d", lambda s, r: {"log": ["d"], "rounds": 1})
    for before, after in [(START, "a"), ("a", "b"), ("a", "c"), ("b", "b2"), ("b2", "b3"), (["b3", "c"], "d")]:
        graph.add_edge(before, after)
    graph.add_conditional_edges("d", round_again("a", 3), ["a", END])
    return graph


def deferred(factory: NodeFactory) -> StateGraph:
    """Return a graph with deferred tasks: gathered Sends, and a node that waits for all nodes that can reach it."""

    def square(n: int, runtime: Runtime) -> Command:
        return Command(update={"log": [n]}, goto=Send("add", n * n, gather=True))

    graph = StateGraph(ItemState)
    goto = [*(Send("square", n) for n in range(5)), "slow"]
    factory.node(graph, "split", lambda s, r: Command(goto=goto), destinations=["square", "slow"])
    factory.node(graph, "square", square, pause=0.004, destinations=["add"])
    factory.node(graph, "add", lambda numbers, r: {"total": sum(numbers)})
    factory.node(graph, "slow", lambda s, r: {"log": ["slow"]})
    factory.node(graph, "slower", lambda s, r: {"log": ["slower"]})
    factory.node(graph, "slowest", lambda s, r: {"log": ["slowest"]})
    factory.node(graph, "end", lambda s, r: {"log": [s["total"]], "rounds": 1}, join="reachable")
    for before, after in [(START, "split"), ("add", "end"), ("slow", "slower"), ("slower", "slowest")]:
        graph.add_edge(before, after)
    graph.add_edge("slowest", "end").add_conditional_edges("end", round_again("split", 3), ["split", END])
    return graph


def asking_subgraph(factory: NodeFactory) -> Any:
    """Return a subgraph that asks a question about item 2."""

    def second(state: Any, runtime: Runtime) -> dict[str, Any]:
        answers = [interrupt(f"item {state['item']}?")] if state["item"] == 2 else []
        return {"log": [f"second {state['item']}", *answers]}

    graph = StateGraph(ItemState)
    factory.node(graph, "first", lambda s, r: {"log": [f"first {s['item']}"]})
    factory.node(graph, "second", second)
    factory.node(graph, "third", lambda s, r: {"log": [f"third {s['item']}"]})
    return graph.add_edge(START, "first").add_edge("first", "second").add_edge("second", "third").compile()


def counting_subgraph(factory: NodeFactory) -> Any:
    """Return a subgraph that counts its calls."""
    graph = StateGraph(Visits)
    factory.node(graph, "count", lambda s, r: {"visits": 1})
    factory.node(graph, "show", lambda s, r: {"seen": s["visits"]})
    return graph.add_edge(START, "count").add_edge("count", "show").compile()


def subgraphs(factory: NodeFactory) -> StateGraph:
    """Return a graph with concurrent calls of a subgraph without memory, and calls of one with memory."""
    graph = StateGraph(OuterState)
    goto = [Send("call", {"item": n}) for n in range(3)]
    factory.node(graph, "plan", lambda s, r: Command(goto=goto), destinations=["call"])
    graph.add_node("call", asking_subgraph(factory), memory="call")
    factory.node(graph, "between", lambda s, r: {"log": ["between"]})
    graph.add_node("remember", counting_subgraph(factory), memory="thread")
    factory.node(graph, "after", lambda s, r: {"log": [s["seen"]], "rounds": 1})
    for before, after in [(START, "plan"), ("call", "between"), ("between", "remember"), ("remember", "after")]:
        graph.add_edge(before, after)
    return graph.add_conditional_edges("after", round_again("plan", 3), ["plan", END])


def waits(factory: NodeFactory) -> StateGraph:
    """Return a graph with tasks that wait for time, events and answers, and one that does not wait."""

    def order(state: Any, runtime: Runtime) -> dict[str, Any]:
        sleep(60)
        paid = wait_for_event("paid")
        return {"log": [paid["amount"], interrupt("Wrap it?"), interrupt("Send it?")]}

    graph = StateGraph(ItemState)
    factory.node(graph, "begin", lambda s, r: {"log": ["begin"]})
    factory.node(graph, "order", order)
    factory.node(
        graph, "name", lambda s, r: {"log": [interrupt("Name?", schema=str), wait_for_event("paid")["amount"]]}
    )
    factory.node(graph, "sibling", lambda s, r: {"log": ["sibling"]}, pause=0.004)
    factory.node(graph, "close", lambda s, r: {"log": ["closed"], "rounds": 1})
    graph.add_edge(START, "begin")
    for name in ("order", "name", "sibling"):
        graph.add_edge("begin", name)
    graph.add_edge(["order", "name", "sibling"], "close")
    return graph.add_conditional_edges("close", round_again("begin", 2), ["begin", END])


RETRY: Final = RetryPolicy(initial_interval=0.002, max_attempts=4, jitter=False, retry_on=ExpectedFailure)


def retries(factory: NodeFactory) -> StateGraph:
    """Return a graph with tasks that are retried, and one that fails the run at its first execution."""

    def flaky(n: int, runtime: Runtime) -> dict[str, Any]:
        attempt = runtime.execution_info.attempt
        if attempt <= n:
            raise ExpectedFailure(f"attempt {attempt} at {n}")
        return {"log": [f"flaky {n}"]}

    def fragile(state: Any, runtime: Runtime) -> dict[str, Any]:
        if factory.notes.is_first(runtime.execution_info.task_id):
            raise ExpectedFailure("the first time")
        return {"log": ["fragile"]}

    graph = StateGraph(ItemState)
    goto = [*(Send("flaky", n) for n in range(3)), "fragile", "steady"]
    factory.node(graph, "plan", lambda s, r: Command(goto=goto), destinations=["flaky", "fragile", "steady"])
    factory.node(graph, "flaky", flaky, retry_policy=RETRY)
    factory.node(graph, "fragile", fragile, pause=0.006)
    factory.node(graph, "steady", lambda s, r: {"log": ["steady"]})
    factory.node(graph, "end", lambda s, r: {"rounds": 1})
    graph.add_edge(START, "plan").add_edge("fragile", "end")
    return graph.add_conditional_edges("end", round_again("plan", 3), ["plan", END])


def effects(factory: NodeFactory) -> StateGraph:
    """Return a graph with side effects in tasks that are repeated because they ask a question, fail or are killed."""

    def pay(n: int, runtime: Runtime) -> dict[str, Any]:
        receipts = [factory.effect(runtime, "charge", number) for number in range(2)]
        if n == 1 and runtime.execution_info.attempt == 1:
            raise ExpectedFailure("after two charges")
        receipts.append(factory.effect(runtime, "mail", n))
        answers = [interrupt(f"Is {n} right?")] if n == 2 else []
        return {"log": [*receipts, factory.effect(runtime, "file", n), *answers]}

    graph = StateGraph(ItemState)
    goto = [Send("pay", n) for n in range(4)]
    factory.node(graph, "plan", lambda s, r: Command(goto=goto), destinations=["pay"])
    factory.node(graph, "pay", pay, pause=0.002, retry_policy=RETRY)
    factory.node(graph, "end", lambda s, r: {"rounds": 1, "log": [factory.effect(r, "end", s["rounds"])]})
    graph.add_edge(START, "plan").add_edge("pay", "end")
    return graph.add_conditional_edges("end", round_again("plan", 3), ["plan", END])


def updates(factory: NodeFactory) -> StateGraph:
    """Return a graph that stops at a breakpoint, where its state is edited."""
    graph = StateGraph(ItemState)
    factory.node(graph, "draft", lambda s, r: {"log": ["draft"]})
    factory.node(graph, "review", lambda s, r: {"log": [f"review of {s['log'][-1]}"]})
    factory.node(graph, "publish", lambda s, r: {"log": ["published"], "rounds": 1})
    graph.add_edge(START, "draft").add_edge("draft", "review").add_edge("review", "publish")
    return graph.add_conditional_edges("publish", round_again("draft", 4), ["draft", END])


def edit(values: Mapping[str, Any]) -> dict[str, Any] | None:
    """Return the update for a state at the breakpoint; None if it has been made."""
    if values["edited"] > values["rounds"]:
        return None
    return {"edited": 1, "log": [f"edited {values['rounds']}"]}


def forks(factory: NodeFactory) -> StateGraph:
    """Return a graph with questions at which a thread may be forked, after a side effect and another task's end."""

    def ask(state: Any, runtime: Runtime) -> dict[str, Any]:
        receipt = factory.effect(runtime, "charge", state["rounds"])
        return {"log": [receipt, interrupt(f"Which way at {state['rounds']}?")]}

    graph = StateGraph(ItemState)
    factory.node(graph, "begin", lambda s, r: {"log": ["begin"]})
    factory.node(graph, "ask", ask)
    factory.node(graph, "sibling", lambda s, r: {"log": ["sibling"]})
    factory.node(graph, "work", lambda s, r: {"log": [f"work on {s['log'][-1]}"]})
    factory.node(graph, "end", lambda s, r: {"rounds": 1, "total": len(s["log"])})
    for before, after in [(START, "begin"), ("begin", "ask"), ("begin", "sibling"), (["ask", "sibling"], "work")]:
        graph.add_edge(before, after)
    return graph.add_edge("work", "end").add_conditional_edges("end", round_again("begin", 3), ["begin", END])
