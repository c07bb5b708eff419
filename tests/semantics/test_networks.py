"""Networks of agents: cases 22 to 25 of the specification, and each trap of its section 1.13."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypedDict

import pytest
from pydantic import BaseModel, ConfigDict

from statewright import InMemorySaver
from statewright.agents import Agent, Network, NetworkRun, RoutingAgent, State, ThreadHistory, tool
from statewright.errors import ModelError
from statewright.messages import Message, ToolCall
from statewright.models import ScriptedModel
from statewright.storage.sqlite import SqliteSaver

Runner = Callable[..., NetworkRun[Any]]


@pytest.fixture(params=["run", "arun"])
def run(request: pytest.FixtureRequest) -> Runner:
    """Return a function that runs a network with `run` or `arun`."""

    def by_run(network: Network[Any], *args: Any, **options: Any) -> NetworkRun[Any]:
        return network.run(*args, **options)

    def by_arun(network: Network[Any], *args: Any, **options: Any) -> NetworkRun[Any]:
        return asyncio.run(network.arun(*args, **options))

    return by_run if request.param == "run" else by_arun


def agent_names(run: NetworkRun[Any]) -> list[str]:
    return [result.agent_name for result in run.results]


# -- case 22


class Edit(BaseModel):
    model_config = ConfigDict(extra="forbid")

    filename: str
    idea: str
    reasoning: str


class Plan(BaseModel):
    thoughts: str
    plan_details: str
    edits: list[Edit]


class CodeData(TypedDict, total=False):
    repo: str
    plan: dict[str, Any]
    done: bool


PLAN = {
    "thoughts": "small",
    "plan_details": "one edit",
    "edits": [{"filename": "a.py", "idea": "rename", "reasoning": "clearer"}],
}


@tool
def create_plan(thoughts: str, plan_details: str, edits: list[Edit], network: NetworkRun[Any]) -> None:
    """Save the plan."""
    plan = Plan(thoughts=thoughts, plan_details=plan_details, edits=edits)
    network.state.data.plan = plan.model_dump()


@tool
def finish(state: State[Any]) -> str:
    """Report that the work is done."""
    state.data.done = True
    return "done"


def code_network(planner: Any, editor: Any, seen: list[Any]) -> Network[Any]:
    """Build a network whose router decides by the state alone."""
    plans = Agent("Planner", model=planner, tools=[create_plan], system="Plan.")
    edits = Agent("Editor", model=editor, tools=[finish], system="Edit.")

    def router(network: NetworkRun[Any], call_count: int) -> Agent | None:
        chosen = None if network.state.data.done else edits if network.state.data.plan else plans
        seen.append((call_count, chosen and chosen.name))
        return chosen

    return Network("code", agents=[plans, edits], router=router, state=State({"done": False}, schema=CodeData))


def test_case_22_plan_and_edit(run: Runner) -> None:
    seen: list[Any] = []
    network = code_network(
        ScriptedModel([ToolCall("p", "create_plan", PLAN)]), ScriptedModel([ToolCall("e", "finish")]), seen
    )
    ended = run(network, "Rename it.")
    assert agent_names(ended) == ["Planner", "Editor"]
    assert seen == [(0, "Planner"), (1, "Editor"), (2, None)]
    assert dict(ended.state.data) == {"plan": PLAN, "done": True}
    assert ended.stop_reason == "completed"


def test_case_22_an_invalid_plan_is_returned_to_the_model(run: Runner) -> None:
    seen: list[Any] = []
    wrong = {**PLAN, "edits": [{"filename": "a.py"}]}
    planner = ScriptedModel([ToolCall("p1", "create_plan", wrong), ToolCall("p2", "create_plan", PLAN)])
    ended = run(code_network(planner, ScriptedModel([ToolCall("e", "finish")]), seen), "Rename it.")
    assert agent_names(ended) == ["Planner", "Planner", "Editor"]
    (refused,) = ended.results[0].tool_calls
    assert refused.metadata == {"status": "error"}
    assert "edits" in refused.text
    assert "idea" in refused.text
    assert ended.state.data.plan == PLAN


# -- case 23


def test_case_23_the_arguments_of_a_router(run: Runner) -> None:
    seen: list[Any] = []
    first, second, third = (Agent(name, model=ScriptedModel([f"I am {name}"])) for name in "abc")

    def router(input: str, network: Any, stack: Any, call_count: int, last_result: Any) -> Any:  # noqa: A002
        seen.append((input, [agent.name for agent in stack], call_count, last_result and last_result.text))
        assert last_result is network.last_result
        return [first, second, third] if call_count == 0 else None

    ended = run(Network("n", agents=[first, second, third], router=router), "the question")
    assert seen == [
        ("the question", [], 0, None),
        ("the question", ["b", "c"], 1, "I am a"),
        ("the question", ["c"], 2, "I am b"),
        ("the question", [], 3, "I am c"),
    ]
    assert agent_names(ended) == ["a", "b", "c"]


def test_case_23_calls_of_a_routing_agent_are_not_counted(run: Runner) -> None:
    counts: list[int] = []
    routes = ScriptedModel(["b", "a", "stop"])
    agents = [Agent(name, model=ScriptedModel([name])) for name in "ab"]

    def on_route(result: Any, network: Any) -> Any:
        counts.append(network.call_count)
        return None if result.text == "stop" else [result.text]

    ended = run(Network("n", agents=agents, router=RoutingAgent("R", model=routes, on_route=on_route)), "go")
    assert counts == [0, 1, 2]
    assert agent_names(ended) == ["b", "a"]
    assert ended.call_count == 2


# -- case 24


def test_case_24_the_prompt_reads_the_state_and_the_history_grows(run: Runner) -> None:
    planner = ScriptedModel([[ToolCall("1", "read", {"path": "a.py"}), ToolCall("2", "read", {"path": "b.py"})]])
    editor = ScriptedModel(["edited"])

    def read(path: str) -> str:
        """Read a file."""
        return f"text of {path}"

    def system(network: NetworkRun[Any]) -> str:
        return f"You work on {network.state.data.repo}."

    first = Agent("Planner", model=planner, tools=[read], system=system)
    second = Agent("Editor", model=editor, system=system)
    network = Network(
        "n",
        agents=[first, second],
        router=lambda call_count: [first, second, None][call_count],
        state={"repo": "flask"},
    )
    run(network, "Fix it.")
    (request,) = editor.requests
    assert request.system == "You work on flask."
    assert planner.requests[0].system == "You work on flask."
    assert [(message.role, message.text) for message in request.messages] == [
        ("user", "Fix it."),
        ("assistant", ""),
        ("tool", "text of a.py"),
        ("tool", "text of b.py"),
    ]
    assert [call.id for call in request.messages[1].tool_calls] == ["1", "2"]


# -- case 25


def test_case_25_max_iter_ends_an_endless_router(run: Runner) -> None:
    model = ScriptedModel(["more"], repeat_last=True)
    agent = Agent("a", model=model)
    ended = run(Network("n", agents=[agent], router=lambda: agent, max_iter=3), "go")
    assert (agent_names(ended), ended.stop_reason) == (["a"] * 3, "max_iter")
    assert len(model.requests) == 3


def test_case_25_the_error_of_a_tool_reaches_the_model(run: Runner) -> None:
    def fail() -> None:
        """Fail."""
        raise LookupError("no such row")

    model = ScriptedModel([ToolCall("1", "fail"), "I see"])
    ended = run(Agent("a", model=model, tools=[fail], max_iter=2).alone(), "go")
    message = model.requests[1].messages[-1]
    assert (message.role, message.text, message.metadata) == (
        "tool",
        "Error: LookupError: no such row",
        {"status": "error"},
    )
    assert ended.results[0].text == "I see"


def test_case_25_a_resumed_run_does_not_call_the_first_agent_again(run: Runner, tmp_path: Path) -> None:
    routed: list[int] = []
    planner = ScriptedModel([ToolCall("p", "create_plan", PLAN)])
    editor = ScriptedModel([ValueError("lost"), ToolCall("e", "finish")])
    seen: list[Any] = []
    with SqliteSaver(tmp_path / "runs.db") as saver:
        options = {"checkpointer": saver, "thread_id": "t"}
        with pytest.raises(ValueError, match="lost"):
            run(code_network(planner, editor, seen), "Rename it.", **options)
        before = code_network(planner, editor, routed).compile(saver).get_state(thread_id="t").values
        ended = run(code_network(planner, editor, seen), None, **options)
    assert before["data.plan"] == PLAN
    assert len(planner.requests) == 1
    assert seen == [(0, "Planner"), (1, "Editor"), (2, None)]
    assert agent_names(ended) == ["Planner", "Editor"]
    assert dict(ended.state.data) == {"plan": PLAN, "done": True}


# -- the traps of 1.13


def test_trap_a_with_max_iter_1_the_router_is_called_once(run: Runner) -> None:
    seen: list[int] = []
    agent = Agent("a", model=ScriptedModel(["x"]))

    def router(call_count: int) -> Agent:
        seen.append(call_count)
        return agent

    ended = run(Network("n", agents=[agent], router=router, max_iter=1), "go")
    assert seen == [0]
    assert (ended.call_count, ended.stop_reason) == (1, "max_iter")


def test_trap_b_a_router_without_a_first_agent_completes_the_run(run: Runner) -> None:
    saved: list[Any] = []

    def append_results(new_results: Any) -> None:
        saved.append(list(new_results))

    history = ThreadHistory(append_results=append_results)
    ended = run(Network("n", agents=[Agent("a")], router=lambda: None, history=history), "go")
    assert (ended.results, ended.call_count, ended.stop_reason) == ([], 0, "completed")
    assert saved == []


def test_trap_b_done_as_the_first_choice_ends_the_run(run: Runner) -> None:
    routes = ScriptedModel([ToolCall("1", "done", {"summary": "nothing to do"})])
    ended = run(Network("n", agents=[Agent("a")], default_model=routes), "go")
    assert (ended.results, ended.stop_reason, ended.summary) == ([], "done", "nothing to do")


def test_trap_c_a_single_agent_saves_its_results() -> None:
    saved: list[Any] = []

    def append_results(new_results: Any) -> None:
        saved.extend(new_results)

    agent = Agent("a", model=ScriptedModel(["x", "y"]), history=ThreadHistory(append_results=append_results))
    results = [agent.run("one"), asyncio.run(agent.arun("two"))]
    assert [result.checksum for result in saved] == [result.checksum for result in results]
    assert [result.text for result in saved] == ["x", "y"]


def test_trap_d_an_agent_scheduled_by_a_tool_is_called(run: Runner) -> None:
    def hand_over(network: NetworkRun[Any]) -> str:
        """Schedule another agent."""
        network.schedule("b")
        return "b is next"

    first = Agent("a", model=ScriptedModel([ToolCall("1", "hand_over")]), tools=[hand_over])
    second = Agent("b", model=ScriptedModel(["handled"]))
    network = Network("n", agents=[first, second], router=lambda call_count: None if call_count else first)
    ended = run(network, "go")
    assert agent_names(ended) == ["a", "b"]
    assert ended.call_count == 2


def test_trap_d_tools_get_the_same_run_as_the_router(run: Runner) -> None:
    seen: list[Any] = []

    def look(network: NetworkRun[Any]) -> None:
        """Look around."""
        seen.append((network.name, network.call_count, [agent.name for agent in network.stack], network.input))

    first = Agent("a", model=ScriptedModel([ToolCall("1", "look")], repeat_last=True), tools=[look])
    second = Agent("b", model=ScriptedModel(["x"]))
    network = Network(
        "n", agents=[first, second], router=lambda call_count: [first, second] if call_count == 0 else None
    )
    run(network, "go")
    assert seen == [("n", 0, ["b"], "go")]


def test_trap_e_a_call_keeps_its_arguments(run: Runner) -> None:
    def add(left: int, right: int) -> int:
        """Add."""
        return left + right

    agent = Agent("a", model=ScriptedModel([ToolCall("1", "add", {"left": 2, "right": 3})]), tools=[add])
    (result,) = run(agent.alone(), "go").results
    called = result.called("add")
    assert called is not None
    assert called.arguments == {"left": 2, "right": 3}
    assert [(message.name, message.tool_call_id, message.text) for message in result.tool_calls] == [("add", "1", "5")]


def test_trap_f_one_network_supports_concurrent_runs() -> None:
    def note(text: str, network: NetworkRun[Any]) -> None:
        """Note it."""
        network.state.data.notes.append(text)

    model = ScriptedModel(lambda request: ToolCall("1", "note", {"text": request.messages[-1].text}))
    network = Agent("a", model=model, tools=[note]).alone(state={"notes": []})

    async def run_all() -> list[Any]:
        return await asyncio.gather(*(network.arun(f"run {number}") for number in range(50)))

    ended = asyncio.run(run_all())
    assert [finished.state.data.notes for finished in ended] == [[f"run {number}"] for number in range(50)]


# -- several tool calls of one answer


@pytest.mark.parametrize("kind", ["plain", "coroutine"])
def test_a_thousand_tool_calls_of_one_answer_run_concurrently(run: Runner, tmp_path: Path, kind: str) -> None:
    def plain(number: int) -> int:
        """Double it."""
        return number * 2

    async def coroutine(number: int) -> int:
        """Double it."""
        await asyncio.sleep(0.01)
        return number * 2

    work = plain if kind == "plain" else coroutine
    tool_calls = [ToolCall(f"c{number}", kind, {"number": number}) for number in range(1000)]
    model = ScriptedModel([tool_calls, "all done"])
    with SqliteSaver(tmp_path / "runs.db") as saver:
        network = Agent("a", model=model, tools=[work], max_iter=2).alone()
        (result,) = run(network, "go", checkpointer=saver, thread_id="t").results
    assert [message.tool_call_id for message in result.tool_calls] == [f"c{number}" for number in range(1000)]
    assert [message.text for message in result.tool_calls] == [str(number * 2) for number in range(1000)]
    assert [message.tool_call_id for message in model.requests[1].messages[2:]] == [
        f"c{number}" for number in range(1000)
    ]


@pytest.mark.parametrize("failing", [3, 500, 999])
def test_a_failing_tool_call_does_not_affect_the_others(run: Runner, failing: int) -> None:
    calls: list[int] = []

    def work(number: int) -> int:
        """Do it."""
        calls.append(number)
        if number == failing:
            raise OSError("disk")
        return number

    tool_calls = [ToolCall(f"c{number}", "work", {"number": number}) for number in range(1000)]
    (result,) = run(Agent("a", model=ScriptedModel([tool_calls]), tools=[work]).alone(), "go").results
    assert sorted(calls) == list(range(1000))
    errors = [(index, message.text) for index, message in enumerate(result.tool_calls) if message.metadata]
    assert errors == [(failing, "Error: OSError: disk")]


def test_calls_that_change_the_state_run_in_order_concurrently_with_others(run: Runner) -> None:
    def push(item: str, network: NetworkRun[Any]) -> int:
        """Put an item on top."""
        network.state.data.items_so_far.append(item)
        return len(network.state.data.items_so_far)

    async def look(item: str) -> str:
        """Look at it."""
        await asyncio.sleep(0)
        return item.upper()

    tool_calls = [
        ToolCall("1", "push", {"item": "a"}),
        ToolCall("2", "look", {"item": "x"}),
        ToolCall("3", "push", {"item": "b"}),
        ToolCall("4", "look", {"item": "y"}),
        ToolCall("5", "push", {"item": "c"}),
    ]
    model = ScriptedModel([tool_calls, "done"])
    network = Agent("a", model=model, tools=[push, look], max_iter=2).alone(state={"items_so_far": []})
    ended = run(network, "go")
    assert ended.state.data.items_so_far == ["a", "b", "c"]
    assert [message.text for message in ended.results[0].tool_calls] == ["1", "X", "2", "Y", "3"]
    assert [message.tool_call_id for message in model.requests[1].messages[2:]] == ["1", "2", "3", "4", "5"]
    assert len(model.requests) == 2


def test_changes_of_a_failed_tool_are_dropped(run: Runner) -> None:
    def half(network: NetworkRun[Any]) -> None:
        """Fail after a change."""
        network.state.data.notes.append("half")
        raise LookupError("the other half")

    network = Agent("a", model=ScriptedModel([ToolCall("1", "half")]), tools=[half]).alone(state={"notes": []})
    assert run(network, "go").state.data.notes == []


# -- conversations of several turns


def test_a_turn_sees_the_messages_of_earlier_turns(run: Runner, tmp_path: Path) -> None:
    model = ScriptedModel(lambda request: f"answer {len(request.messages)}")
    agent = Agent("a", model=model)
    counts: list[int] = []

    def router(call_count: int) -> Agent | None:
        counts.append(call_count)
        return None if call_count else agent

    with SqliteSaver(tmp_path / "runs.db") as saver:
        for turn in ("one", "two", "three"):
            ended = run(
                Network("n", agents=[agent], router=router, state={"turns_so_far": 0}),
                turn,
                checkpointer=saver,
                thread_id="t",
            )
    assert [message.text for message in model.requests[2].messages] == ["one", "answer 1", "two", "answer 3", "three"]
    assert [result.text for result in ended.results] == ["answer 1", "answer 3", "answer 5"]
    assert counts == [0, 1] * 3
    assert (ended.call_count, ended.input) == (1, "three")


def test_data_is_kept_between_turns(run: Runner) -> None:
    def count(state: State[Any]) -> None:
        """Count."""
        state.data.count += 1

    saver = InMemorySaver()
    model = ScriptedModel([ToolCall("1", "count")], repeat_last=True)
    network = Agent("a", model=model, tools=[count]).alone(state={"count": 0})
    counts = [run(network, "go", checkpointer=saver, thread_id="t").state.data.count for _ in range(3)]
    assert counts == [1, 2, 3]
    assert run(network, "go", checkpointer=saver, thread_id="other").state.data.count == 1


def test_a_failed_turn_can_be_resumed_with_its_message(run: Runner) -> None:
    saver = InMemorySaver()
    model = ScriptedModel([ModelError("no"), "yes"])
    network = Agent("a", model=model).alone()
    with pytest.raises(ModelError, match="no"):
        run(network, "the question", checkpointer=saver, thread_id="t")
    ended = run(network, None, checkpointer=saver, thread_id="t")
    assert [message.text for message in model.requests[1].messages] == ["the question"]
    assert ended.results[0].text == "yes"


def test_messages_of_the_state_precede_the_input(run: Runner) -> None:
    model = ScriptedModel(["x"])
    state: State[Any] = State(messages=[Message("earlier"), ("assistant", "I remember")])
    run(Agent("a", model=model).alone(), "now", state=state)
    assert [message.text for message in model.requests[0].messages] == ["earlier", "I remember", "now"]


# -- interrupted runs


def test_a_cancelled_run_can_be_resumed(tmp_path: Path) -> None:
    routed: list[int] = []
    hangs, requested = [True], asyncio.Event()

    class Model:
        async def complete(self, request: Any) -> Any:
            if hangs:
                requested.set()
                await asyncio.Event().wait()
            return await ScriptedModel(["second"]).complete(request)

    first, second = Agent("a", model=ScriptedModel(["first"])), Agent("b", model=Model())

    def router(call_count: int) -> Agent | None:
        routed.append(call_count)
        return [first, second, None][call_count]

    network = Network("n", agents=[first, second], router=router)
    with SqliteSaver(tmp_path / "runs.db") as saver:
        options = {"checkpointer": saver, "thread_id": "t"}

        async def leave() -> None:
            running = asyncio.create_task(network.arun("go", **options))
            await requested.wait()
            running.cancel()
            await running

        with pytest.raises(asyncio.CancelledError):
            asyncio.run(leave())
        hangs.clear()
        ended = network.run(None, **options)
    assert [result.text for result in ended.results] == ["first", "second"]
    assert routed == [0, 1, 2]


def test_the_run_of_a_closed_stream_can_be_resumed() -> None:
    saver = InMemorySaver()
    model = ScriptedModel(["one two three", "again"], repeat_last=True)
    first, second = Agent("a", model=ScriptedModel(["first"])), Agent("b", model=model)
    network = Network("n", agents=[first, second], router=lambda call_count: [first, second, None][call_count])
    parts = network.stream("go", checkpointer=saver, thread_id="t")
    while next(parts)[0].text != "one":
        pass
    parts.close()
    ended = network.run(None, checkpointer=saver, thread_id="t")
    assert agent_names(ended) == ["a", "b"]
    assert len(first.model.requests) == 1


class Task(BaseModel):
    name: str
    done: bool = False


class Board(TypedDict):
    tasks: list[Task]


def test_data_of_custom_types_is_saved_and_restored(run: Runner, tmp_path: Path) -> None:
    def add(name: str, network: NetworkRun[Any]) -> int:
        """Add a task."""
        network.state.data.tasks.append(Task(name=name))
        return len(network.state.data.tasks)

    for turn in ("one", "two"):
        model = ScriptedModel([ToolCall("1", "add", {"name": turn})])
        network = Agent("a", model=model, tools=[add]).alone(state=State({"tasks": []}, schema=Board))
        with SqliteSaver(tmp_path / "runs.db") as saver:
            ended = run(network, turn, checkpointer=saver, thread_id="t")
    assert ended.state.data.tasks == [Task(name="one"), Task(name="two")]
