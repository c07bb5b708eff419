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
    """Runs a network: every behaviour is the same through both drivers."""

    def by_run(network: Network[Any], *args: Any, **options: Any) -> NetworkRun[Any]:
        return network.run(*args, **options)

    def by_arun(network: Network[Any], *args: Any, **options: Any) -> NetworkRun[Any]:
        return asyncio.run(network.arun(*args, **options))

    return by_run if request.param == "run" else by_arun


def names(run: NetworkRun[Any]) -> list[str]:
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
    """Keep the plan."""
    plan = Plan(thoughts=thoughts, plan_details=plan_details, edits=edits)
    network.state.data.plan = plan.model_dump()


@tool
def finish(state: State[Any]) -> str:
    """Say that all is done."""
    state.data.done = True
    return "done"


def code_network(planner: Any, editor: Any, seen: list[Any]) -> Network[Any]:
    """The network of the seed: its router looks at nothing but the state."""
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
    assert names(ended) == ["Planner", "Editor"]
    assert seen == [(0, "Planner"), (1, "Editor"), (2, None)]
    assert dict(ended.state.data) == {"plan": PLAN, "done": True}
    assert ended.stop_reason == "completed"


def test_case_22_a_plan_that_does_not_fit_goes_back_to_the_model(run: Runner) -> None:
    seen: list[Any] = []
    wrong = {**PLAN, "edits": [{"filename": "a.py"}]}
    planner = ScriptedModel([ToolCall("p1", "create_plan", wrong), ToolCall("p2", "create_plan", PLAN)])
    ended = run(code_network(planner, ScriptedModel([ToolCall("e", "finish")]), seen), "Rename it.")
    assert names(ended) == ["Planner", "Planner", "Editor"]
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
        seen.append((input, [one.name for one in stack], call_count, last_result and last_result.text))
        assert last_result is network.last_result
        return [first, second, third] if call_count == 0 else None

    ended = run(Network("n", agents=[first, second, third], router=router), "the question")
    assert seen == [
        ("the question", [], 0, None),
        ("the question", ["b", "c"], 1, "I am a"),
        ("the question", ["c"], 2, "I am b"),
        ("the question", [], 3, "I am c"),
    ]
    assert names(ended) == ["a", "b", "c"]


def test_case_23_calls_of_a_routing_agent_are_not_counted(run: Runner) -> None:
    counts: list[int] = []
    routes = ScriptedModel(["b", "a", "stop"])
    known = [Agent(name, model=ScriptedModel([name])) for name in "ab"]

    def on_route(result: Any, network: Any) -> Any:
        counts.append(network.call_count)
        return None if result.text == "stop" else [result.text]

    ended = run(Network("n", agents=known, router=RoutingAgent("R", model=routes, on_route=on_route)), "go")
    assert counts == [0, 1, 2]
    assert names(ended) == ["b", "a"]
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
    (asked,) = editor.requests
    assert asked.system == "You work on flask."
    assert planner.requests[0].system == "You work on flask."
    assert [(one.role, one.text) for one in asked.messages] == [
        ("user", "Fix it."),
        ("assistant", ""),
        ("tool", "text of a.py"),
        ("tool", "text of b.py"),
    ]
    assert [call.id for call in asked.messages[1].tool_calls] == ["1", "2"]


# -- case 25


def test_case_25_a_router_that_never_ends(run: Runner) -> None:
    model = ScriptedModel(["more"], repeat_last=True)
    agent = Agent("a", model=model)
    ended = run(Network("n", agents=[agent], router=lambda: agent, max_iter=3), "go")
    assert (names(ended), ended.stop_reason) == (["a"] * 3, "max_iter")
    assert len(model.requests) == 3


def test_case_25_the_error_of_a_tool_reaches_the_model(run: Runner) -> None:
    def fail() -> None:
        """Fail."""
        raise LookupError("no such row")

    model = ScriptedModel([ToolCall("1", "fail"), "I see"])
    ended = run(Agent("a", model=model, tools=[fail], max_iter=2).alone(), "go")
    told = model.requests[1].messages[-1]
    assert (told.role, told.text, told.metadata) == ("tool", "Error: LookupError: no such row", {"status": "error"})
    assert ended.results[0].text == "I see"


def test_case_25_a_run_that_continues_does_not_ask_the_first_agent_again(run: Runner, tmp_path: Path) -> None:
    routed: list[int] = []
    planner = ScriptedModel([ToolCall("p", "create_plan", PLAN)])
    editor = ScriptedModel([ValueError("lost"), ToolCall("e", "finish")])
    seen: list[Any] = []
    with SqliteSaver(tmp_path / "runs.db") as saver:
        here = {"checkpointer": saver, "thread_id": "t"}
        with pytest.raises(ValueError, match="lost"):
            run(code_network(planner, editor, seen), "Rename it.", **here)
        before = code_network(planner, editor, routed).compile(saver).get_state(thread_id="t").values
        ended = run(code_network(planner, editor, seen), None, **here)
    assert before["data.plan"] == PLAN
    assert len(planner.requests) == 1
    assert seen == [(0, "Planner"), (1, "Editor"), (2, None)]
    assert names(ended) == ["Planner", "Editor"]
    assert dict(ended.state.data) == {"plan": PLAN, "done": True}


# -- the traps of 1.13


def test_trap_a_with_max_iter_1_the_router_is_asked_once(run: Runner) -> None:
    seen: list[int] = []
    agent = Agent("a", model=ScriptedModel(["x"]))

    def router(call_count: int) -> Agent:
        seen.append(call_count)
        return agent

    ended = run(Network("n", agents=[agent], router=router, max_iter=1), "go")
    assert seen == [0]
    assert (ended.call_count, ended.stop_reason) == (1, "max_iter")


def test_trap_b_no_agent_at_first_is_an_end_like_any_other(run: Runner) -> None:
    kept: list[Any] = []

    def append_results(new_results: Any) -> None:
        kept.append(list(new_results))

    history = ThreadHistory(append_results=append_results)
    ended = run(Network("n", agents=[Agent("a")], router=lambda: None, history=history), "go")
    assert (ended.results, ended.call_count, ended.stop_reason) == ([], 0, "completed")
    assert kept == []


def test_trap_b_done_at_first_says_so(run: Runner) -> None:
    routes = ScriptedModel([ToolCall("1", "done", {"summary": "nothing to do"})])
    ended = run(Network("n", agents=[Agent("a")], default_model=routes), "go")
    assert (ended.results, ended.stop_reason, ended.summary) == ([], "done", "nothing to do")


def test_trap_c_an_agent_alone_keeps_its_result() -> None:
    kept: list[Any] = []

    def append_results(new_results: Any) -> None:
        kept.extend(new_results)

    agent = Agent("a", model=ScriptedModel(["x", "y"]), history=ThreadHistory(append_results=append_results))
    results = [agent.run("one"), asyncio.run(agent.arun("two"))]
    assert [one.checksum for one in kept] == [one.checksum for one in results]
    assert [one.text for one in kept] == ["x", "y"]


def test_trap_d_an_agent_that_a_tool_schedules_is_called(run: Runner) -> None:
    def hand_over(network: NetworkRun[Any]) -> str:
        """Let somebody else go on."""
        network.schedule("b")
        return "b will see to it"

    first = Agent("a", model=ScriptedModel([ToolCall("1", "hand_over")]), tools=[hand_over])
    second = Agent("b", model=ScriptedModel(["seen to"]))
    network = Network("n", agents=[first, second], router=lambda call_count: None if call_count else first)
    ended = run(network, "go")
    assert names(ended) == ["a", "b"]
    assert ended.call_count == 2


def test_trap_d_tools_see_the_same_run_as_the_router(run: Runner) -> None:
    seen: list[Any] = []

    def look(network: NetworkRun[Any]) -> None:
        """Look around."""
        seen.append((network.name, network.call_count, [one.name for one in network.stack], network.input))

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
    assert [(one.name, one.tool_call_id, one.text) for one in result.tool_calls] == [("add", "1", "5")]


def test_trap_f_one_network_runs_many_times_at_once() -> None:
    def note(text: str, network: NetworkRun[Any]) -> None:
        """Note it."""
        network.state.data.notes.append(text)

    model = ScriptedModel(lambda request: ToolCall("1", "note", {"text": request.messages[-1].text}))
    network = Agent("a", model=model, tools=[note]).alone(state={"notes": []})

    async def all_of_them() -> list[Any]:
        return await asyncio.gather(*(network.arun(f"run {number}") for number in range(50)))

    ended = asyncio.run(all_of_them())
    assert [one.state.data.notes for one in ended] == [[f"run {number}"] for number in range(50)]


# -- what one answer may ask for


@pytest.mark.parametrize("colour", ["plain", "coroutine"])
def test_a_thousand_calls_of_one_answer_run_side_by_side(run: Runner, tmp_path: Path, colour: str) -> None:
    def plain(number: int) -> int:
        """Double it."""
        return number * 2

    async def coroutine(number: int) -> int:
        """Double it."""
        await asyncio.sleep(0.01)
        return number * 2

    work = plain if colour == "plain" else coroutine
    asked = [ToolCall(f"c{number}", colour, {"number": number}) for number in range(1000)]
    model = ScriptedModel([asked, "all done"])
    with SqliteSaver(tmp_path / "runs.db") as saver:
        network = Agent("a", model=model, tools=[work], max_iter=2).alone()
        (result,) = run(network, "go", checkpointer=saver, thread_id="t").results
    assert [one.tool_call_id for one in result.tool_calls] == [f"c{number}" for number in range(1000)]
    assert [one.text for one in result.tool_calls] == [str(number * 2) for number in range(1000)]
    assert [one.tool_call_id for one in model.requests[1].messages[2:]] == [f"c{number}" for number in range(1000)]


@pytest.mark.parametrize("fails", [3, 500, 999])
def test_one_of_a_thousand_calls_fails_alone(run: Runner, fails: int) -> None:
    calls: list[int] = []

    def work(number: int) -> int:
        """Do it."""
        calls.append(number)
        if number == fails:
            raise OSError("disk")
        return number

    asked = [ToolCall(f"c{number}", "work", {"number": number}) for number in range(1000)]
    (result,) = run(Agent("a", model=ScriptedModel([asked]), tools=[work]).alone(), "go").results
    assert sorted(calls) == list(range(1000))
    wrong = [(place, one.text) for place, one in enumerate(result.tool_calls) if one.metadata]
    assert wrong == [(fails, "Error: OSError: disk")]


def test_calls_that_change_the_state_run_in_order_concurrently_with_others(run: Runner) -> None:
    def push(item: str, network: NetworkRun[Any]) -> int:
        """Put an item on top."""
        network.state.data.items_so_far.append(item)
        return len(network.state.data.items_so_far)

    async def look(item: str) -> str:
        """Look at it."""
        await asyncio.sleep(0)
        return item.upper()

    asked = [
        ToolCall("1", "push", {"item": "a"}),
        ToolCall("2", "look", {"item": "x"}),
        ToolCall("3", "push", {"item": "b"}),
        ToolCall("4", "look", {"item": "y"}),
        ToolCall("5", "push", {"item": "c"}),
    ]
    model = ScriptedModel([asked, "done"])
    network = Agent("a", model=model, tools=[push, look], max_iter=2).alone(state={"items_so_far": []})
    ended = run(network, "go")
    assert ended.state.data.items_so_far == ["a", "b", "c"]
    assert [one.text for one in ended.results[0].tool_calls] == ["1", "X", "2", "Y", "3"]
    assert [one.tool_call_id for one in model.requests[1].messages[2:]] == ["1", "2", "3", "4", "5"]
    assert len(model.requests) == 2


def test_a_tool_that_fails_has_changed_nothing(run: Runner) -> None:
    def half(network: NetworkRun[Any]) -> None:
        """Fail half way."""
        network.state.data.notes.append("half")
        raise LookupError("the other half")

    network = Agent("a", model=ScriptedModel([ToolCall("1", "half")]), tools=[half]).alone(state={"notes": []})
    assert run(network, "go").state.data.notes == []


# -- conversations of several turns


def test_a_second_turn_sees_the_first(run: Runner, tmp_path: Path) -> None:
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
    assert [one.text for one in model.requests[2].messages] == ["one", "answer 1", "two", "answer 3", "three"]
    assert [one.text for one in ended.results] == ["answer 1", "answer 3", "answer 5"]
    assert counts == [0, 1] * 3
    assert (ended.call_count, ended.input) == (1, "three")


def test_the_data_of_one_turn_is_there_in_the_next(run: Runner) -> None:
    def count(state: State[Any]) -> None:
        """Count."""
        state.data.count += 1

    saver = InMemorySaver()
    model = ScriptedModel([ToolCall("1", "count")], repeat_last=True)
    network = Agent("a", model=model, tools=[count]).alone(state={"count": 0})
    found = [run(network, "go", checkpointer=saver, thread_id="t").state.data.count for _ in range(3)]
    assert found == [1, 2, 3]
    assert run(network, "go", checkpointer=saver, thread_id="other").state.data.count == 1


def test_a_failed_turn_can_be_resumed_and_its_message_is_kept(run: Runner) -> None:
    saver = InMemorySaver()
    model = ScriptedModel([ModelError("no"), "yes"])
    network = Agent("a", model=model).alone()
    with pytest.raises(ModelError, match="no"):
        run(network, "the question", checkpointer=saver, thread_id="t")
    ended = run(network, None, checkpointer=saver, thread_id="t")
    assert [one.text for one in model.requests[1].messages] == ["the question"]
    assert ended.results[0].text == "yes"


def test_a_state_with_messages_comes_before_the_input(run: Runner) -> None:
    model = ScriptedModel(["x"])
    state: State[Any] = State(messages=[Message("earlier"), ("assistant", "I remember")])
    run(Agent("a", model=model).alone(), "now", state=state)
    assert [one.text for one in model.requests[0].messages] == ["earlier", "I remember", "now"]


# -- runs that somebody leaves


def test_a_run_that_is_cancelled_continues_where_it_was(tmp_path: Path) -> None:
    routed: list[int] = []
    hangs, asked = [True], asyncio.Event()

    class Model:
        async def complete(self, request: Any) -> Any:
            if hangs:
                asked.set()
                await asyncio.Event().wait()
            return await ScriptedModel(["second"]).complete(request)

    first, second = Agent("a", model=ScriptedModel(["first"])), Agent("b", model=Model())

    def router(call_count: int) -> Agent | None:
        routed.append(call_count)
        return [first, second, None][call_count]

    network = Network("n", agents=[first, second], router=router)
    with SqliteSaver(tmp_path / "runs.db") as saver:
        here = {"checkpointer": saver, "thread_id": "t"}

        async def leave() -> None:
            running = asyncio.create_task(network.arun("go", **here))
            await asked.wait()
            running.cancel()
            await running

        with pytest.raises(asyncio.CancelledError):
            asyncio.run(leave())
        hangs.clear()
        ended = network.run(None, **here)
    assert [one.text for one in ended.results] == ["first", "second"]
    assert routed == [0, 1, 2]


def test_a_stream_that_is_no_longer_read_continues_where_it_was() -> None:
    saver = InMemorySaver()
    model = ScriptedModel(["one two three", "again"], repeat_last=True)
    first, second = Agent("a", model=ScriptedModel(["first"])), Agent("b", model=model)
    network = Network("n", agents=[first, second], router=lambda call_count: [first, second, None][call_count])
    parts = network.stream("go", checkpointer=saver, thread_id="t")
    while next(parts)[0].text != "one":
        pass
    parts.close()
    ended = network.run(None, checkpointer=saver, thread_id="t")
    assert names(ended) == ["a", "b"]
    assert len(first.model.requests) == 1


class Task(BaseModel):
    name: str
    done: bool = False


class Board(TypedDict):
    tasks: list[Task]


def test_data_of_ones_own_types_is_saved_and_found_again(run: Runner, tmp_path: Path) -> None:
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
