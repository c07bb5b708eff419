"""The graph of one call of an agent: its tasks, and the state that is saved."""

from __future__ import annotations

import asyncio
import threading
from collections import Counter
from typing import Any

import pytest

from statewright import Command, InMemorySaver, RetryPolicy, interrupt
from statewright.agents import Agent, Network, NetworkRun, State, tool
from statewright.agents.loop.graph import compile_agent
from statewright.errors import InvalidConfig
from statewright.messages import ToolCall
from statewright.models import ScriptedModel
from statewright.storage.sqlite import SqliteSaver


def calls(*names: str) -> list[ToolCall]:
    return [ToolCall(f"{index}", name) for index, name in enumerate(names)]


def test_the_graph_of_an_agent_is_compiled_once() -> None:
    agent = Agent("a", model=ScriptedModel([]))
    assert agent.graph is agent.graph
    assert compile_agent(agent) is not agent.graph


def test_the_graph_of_an_agent_cannot_run_without_a_network() -> None:
    with pytest.raises(InvalidConfig, match=r"agent\.alone\(\)"):
        Agent("a", model=ScriptedModel(["x"]), retries=0).graph.invoke({"iteration": 0})


@pytest.mark.parametrize("driver", ["run", "arun"])
def test_calls_that_do_not_change_the_state_run_concurrently(driver: str) -> None:
    barrier = threading.Barrier(3, timeout=600)

    def meet() -> str:
        """Wait for the others."""
        barrier.wait()
        return "met"

    agent = Agent("a", model=ScriptedModel([calls("meet", "meet", "meet")]), tools=[meet])
    result = agent.run("go") if driver == "run" else asyncio.run(agent.arun("go"))
    assert [call.text for call in result.tool_calls] == ["met"] * 3


def test_coroutines_run_concurrently_on_one_loop() -> None:
    running: list[int] = []
    all_running = asyncio.Event()

    async def work() -> None:
        """Work."""
        running.append(1)
        if len(running) == 20:
            all_running.set()
        await asyncio.wait_for(all_running.wait(), 600)

    agent = Agent("a", model=ScriptedModel([calls(*["work"] * 20)]), tools=[work])
    result = asyncio.run(agent.arun("go"))
    assert (len(running), len(result.tool_calls)) == (20, 20)
    assert not any(call.metadata for call in result.tool_calls), "no call was abandoned"


@pytest.mark.parametrize("parameter", ["network", "state"])
def test_calls_that_change_the_state_run_one_at_a_time(parameter: str) -> None:
    running: list[int] = []

    def by_network(network: NetworkRun[Any]) -> int:
        """Work."""
        return _work(network.state)

    def by_state(state: State[Any]) -> int:
        """Work."""
        return _work(state)

    def _work(state: Any) -> int:
        running.append(1)
        assert len(running) == 1
        state.data.count += 1
        running.pop()
        return state.data.count

    work = by_network if parameter == "network" else by_state
    agent = Agent("a", model=ScriptedModel([calls(*[work.__name__] * 20)]), tools=[work])
    ended = agent.alone(state={"count": 0}).run("go")
    assert [call.text for call in ended.results[0].tool_calls] == [str(number) for number in range(1, 21)]


def test_a_parameter_state_with_another_annotation_is_an_argument() -> None:
    def move(state: str) -> str:
        """Move to a state of the union."""
        return state

    agent = Agent("a", model=ScriptedModel([ToolCall("1", "move", {"state": "Ohio"})]), tools=[move])
    assert agent.run("go").tool_calls[0].text == "Ohio"


def test_a_resume_does_not_repeat_finished_calls() -> None:
    done: Counter[str] = Counter()
    reported: Counter[str] = Counter()
    failures = [True]

    def succeed() -> str:
        """Work."""
        done["succeed"] += 1
        return "fine"

    async def stop_once() -> str:
        """Stop the run once, after the other calls."""
        done["stop_once"] += 1
        if failures:
            while reported["fine"] < 2:
                await asyncio.sleep(0.005)
            failures.clear()
            raise InvalidConfig("the run")
        return "went on"

    saver = InMemorySaver()
    model = ScriptedModel([calls("succeed", "stop_once", "succeed"), "end"])
    network = Agent("a", model=model, tools=[succeed, stop_once], max_iter=2).alone()

    def run_until_stopped() -> None:
        parts = network.stream("go", stream_mode="tasks", subgraphs=True, checkpointer=saver, thread_id="t")
        for _, part in parts:
            if part["name"] == "tool" and "result" in part:
                reported["fine"] += 1

    with pytest.raises(InvalidConfig, match="the run"):
        run_until_stopped()
    ended = network.run(None, checkpointer=saver, thread_id="t")
    assert [call.text for call in ended.results[0].tool_calls] == ["fine", "went on", "fine"]
    assert done == {"succeed": 2, "stop_once": 2}
    assert len(model.requests) == 2


def test_a_resume_after_an_interrupt_does_not_repeat_other_calls() -> None:
    done: Counter[str] = Counter()

    def succeed(state: State[Any]) -> str:
        """Work."""
        done["succeed"] += 1
        state.data.count += 1
        return "fine"

    def quick() -> str:
        """Work."""
        done["quick"] += 1
        return "quick"

    def ask() -> str:
        """Ask."""
        return interrupt("?")

    saver = InMemorySaver()
    model = ScriptedModel([calls("succeed", "ask", "quick", "succeed"), "end"])
    network = Agent("a", model=model, tools=[succeed, quick, ask], max_iter=2).alone(state={"count": 0})
    network.run("go", checkpointer=saver, thread_id="t")
    ended = network.run(Command(resume="!"), checkpointer=saver, thread_id="t")
    assert [call.text for call in ended.results[0].tool_calls] == ["fine", "!", "quick", "fine"]
    assert (done, ended.state.data.count) == ({"succeed": 2, "quick": 1}, 2)


def test_each_tool_call_has_its_own_idempotency_key() -> None:
    keys: list[Any] = []
    failures = [ConnectionError("cut")]

    @tool
    def work(runtime) -> str:  # type: ignore[no-untyped-def]  # injected by its name
        """Work."""
        keys.append(runtime.idempotency_key)
        return "ok"

    def system() -> str:
        if keys and failures:
            raise failures.pop()
        return ""

    model = ScriptedModel([calls("work", "work"), "end"])
    policy = RetryPolicy(initial_interval=0.001, max_attempts=2)
    Agent("a", model=model, tools=[work], max_iter=2, system=system, retries=policy).run("go")
    assert len(keys) == len(set(keys)) == 2


def test_results_have_ids_and_usage() -> None:
    agent = Agent("a", model=ScriptedModel(["four"], repeat_last=True))
    network = Network("n", agents=[agent], router=lambda call_count: None if call_count == 3 else agent)
    ended = network.run("go")
    assert len({result.id for result in ended.results}) == 3
    assert all(result.usage.output_tokens == 1 for result in ended.results)
    assert ended.usage.output_tokens == 3
    assert len({message.id for result in ended.results for message in result.messages}) == 3


def test_the_history_is_not_saved_again_for_each_call_of_an_agent(tmp_path: Any) -> None:
    """The network stores the data and the turns; an agent saves only its new messages."""
    agent = Agent("a", model=ScriptedModel(["x"], repeat_last=True))
    sizes = []
    for count in (5, 25):
        path = tmp_path / f"{count}.db"
        with SqliteSaver(path) as saver:
            network = Network(
                "n",
                agents=[agent],
                router=lambda call_count, count=count: None if call_count == count else agent,
                state={"text": "y" * 100_000},
            )
            network.run("go", checkpointer=saver, thread_id="t")
        sizes.append(sum(file.stat().st_size for file in tmp_path.glob(f"{count}.db*")))
    assert sizes[1] < sizes[0] + 20 * 50_000


def test_max_iter_and_not_the_recursion_limit_ends_a_long_loop() -> None:
    def work() -> int:
        """Work."""
        return 1

    model = ScriptedModel([ToolCall("1", "work")], repeat_last=True)
    result = Agent("a", model=model, tools=[work], max_iter=600).run("go")
    assert (result.requests, result.stop_reason) == (600, "max_iter")


def test_a_thousand_calls_run_in_order() -> None:
    def work(state: State[Any]) -> int:
        """Work."""
        state.data.count += 1
        return state.data.count

    agent = Agent("a", model=ScriptedModel([calls(*["work"] * 1000)]), tools=[work])
    ended = agent.alone(state={"count": 0}).run("go")
    assert [call.text for call in ended.results[0].tool_calls] == [str(number) for number in range(1, 1001)]
