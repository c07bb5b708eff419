"""The interface of a network: its options, its ends, its streams and its state."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import partial
from typing import Annotated, Any, TypedDict

import pytest
from pydantic import BaseModel

from statewright import Command, InMemorySaver, RetryPolicy, interrupt
from statewright.agents import (
    Agent,
    InjectedState,
    Network,
    NetworkRun,
    RoutingAgent,
    State,
    ToolContext,
    UsageLimits,
    tool,
)
from statewright.errors import (
    EmptyInputError,
    GraphRecursionError,
    InvalidConfig,
    ModelUnavailable,
    RoutingError,
    SerdeError,
    StatewrightError,
)
from statewright.messages import Message, ToolCall
from statewright.models import ScriptedModel
from statewright.storage.sqlite import SqliteSaver

Runner = Callable[..., NetworkRun[Any]]


@pytest.fixture(params=["run", "arun"])
def run(request: pytest.FixtureRequest) -> Runner:
    def by_run(network: Network[Any], *args: Any, **options: Any) -> NetworkRun[Any]:
        return network.run(*args, **options)

    def by_arun(network: Network[Any], *args: Any, **options: Any) -> NetworkRun[Any]:
        return asyncio.run(network.arun(*args, **options))

    return by_run if request.param == "run" else by_arun


def named(name: str, *script: Any, **options: Any) -> Agent:
    return Agent(name, model=ScriptedModel(list(script) or [name], repeat_last=True), **options)


def once(name: str) -> Callable[..., Any]:
    return lambda call_count: None if call_count else name


class Typed(TypedDict, total=False):
    done: bool
    files: list[str]


@dataclass
class Plain:
    done: bool = False
    files: list[str] = field(default_factory=list[str])


class Model(BaseModel):
    done: bool = False
    files: list[str] = []


# -- what it is


def test_somebody_has_to_route() -> None:
    with pytest.raises(InvalidConfig, match="'n' is invalid: it has no router"):
        Network("n", agents=[named("a")])


def test_duplicate_agent_names_are_refused() -> None:
    with pytest.raises(InvalidConfig, match="two agents named 'a'"):
        Network("n", agents=[named("a"), named("a")], router=lambda: None)


@pytest.mark.parametrize("agents", ["a", ["a"], [None], [3]])
def test_only_agents_are_accepted(agents: Any) -> None:
    with pytest.raises(InvalidConfig):
        Network("n", agents=agents, router=lambda: None)


@pytest.mark.parametrize("router", [3, "a", ["a"], named("a")])
def test_an_invalid_router_is_refused_when_the_network_is_created(router: Any) -> None:
    with pytest.raises(InvalidConfig, match="router"):
        Network("n", agents=[named("a")], router=router)


@pytest.mark.parametrize("state", [3, "text", [1]])
def test_invalid_data_is_refused(state: Any) -> None:
    with pytest.raises(InvalidConfig):
        Network("n", router=lambda: None, state=state)


def test_with_a_router_function_no_agent_has_to_be_declared(run: Runner) -> None:
    hidden = named("hidden")
    ended = run(Network("n", router=lambda call_count: None if call_count else hidden), "go")
    assert [one.agent_name for one in ended.results] == ["hidden"]
    assert dict(ended.agents) == {}


# -- odd routers


@pytest.mark.parametrize("answer", [3, False, True, {"a": 1}, [None], object(), "zoe", ["a", 3]])
def test_an_invalid_answer_of_a_router_is_an_error_and_no_agent_is_called(answer: Any, run: Runner) -> None:
    agent = named("a")
    with pytest.raises(RoutingError, match="'n'"):
        run(Network("n", agents=[agent], router=lambda: answer), "go")
    assert agent.model.requests == []


def test_what_a_router_raises_is_raised_and_the_run_can_go_on(run: Runner) -> None:
    agent, saver, failures = named("a"), InMemorySaver(), [ZeroDivisionError("router"), None]

    def router(call_count: int) -> Any:
        error = failures.pop(0) if call_count and failures else None
        if error is not None:
            raise error
        return None if call_count else agent

    network = Network("n", agents=[agent], router=router)
    with pytest.raises(ZeroDivisionError, match="router"):
        run(network, "go", checkpointer=saver, thread_id="t")
    ended = run(network, None, checkpointer=saver, thread_id="t")
    assert [one.text for one in ended.results] == ["a"]
    assert len(agent.model.requests) == 1


def test_an_unknown_parameter_of_a_router_is_an_error_that_lists_the_known_ones(run: Runner) -> None:
    with pytest.raises(InvalidConfig, match=r"'lastResult'.*last_result"):
        run(Network("n", router=lambda state, lastResult: None), "go")  # noqa: N803  # the name of another library


def test_a_router_may_be_a_coroutine_function_or_take_one_object(run: Runner) -> None:
    async def later(call_count: int) -> Any:
        await asyncio.sleep(0)
        return None if call_count else "a"

    routers = [later, lambda known: None if known.call_count else "a", partial(lambda name, call_count: name, "a")]
    found = [len(run(Network("n", agents=[named("a")], router=one, max_iter=1), "go").results) for one in routers]
    assert found == [1, 1, 1]


def test_a_router_that_never_ends_meets_the_limit_of_the_runtime(run: Runner) -> None:
    with pytest.raises(GraphRecursionError):
        run(Network("n", agents=[named("a")], router=lambda: "a"), "go", recursion_limit=10)


def test_writes_of_a_router_are_saved(run: Runner) -> None:
    def router(state: Any, network: Any, call_count: int) -> Any:
        state.data.asked.append(call_count)
        return None if call_count else "a"

    assert run(Network("n", agents=[named("a")], router=router, state={"asked": []}), "go").state.data.asked == [0, 1]


def test_a_router_may_schedule(run: Runner) -> None:
    def router(network: Any, call_count: int) -> None:
        if not call_count:
            network.schedule("b")
            network.schedule(network.agents["a"])

    ended = run(Network("n", agents=[named("a"), named("b")], router=router), "go")
    assert [one.agent_name for one in ended.results] == ["b", "a"]


# -- data in every form


EMPTY = {"done": False, "files": []}


@pytest.mark.parametrize("source", [EMPTY, State(EMPTY, schema=Typed), Plain, Plain(), Model, Model()])
def test_tools_write_to_data_of_every_form(source: Any, run: Runner, tmp_path: Any) -> None:
    def add(name: str, network: NetworkRun[Any]) -> None:
        """Add a file."""
        network.state.data.files.append(name)
        network.state.data.done = len(network.state.data.files) > 1

    asked = [ToolCall("1", "add", {"name": "a"}), ToolCall("2", "add", {"name": "b"})]
    agent = named("a", asked, tools=[add])
    network = Network("n", agents=[agent], router=lambda state: None if state.data.done else agent, state=source)
    with SqliteSaver(tmp_path / "x.db") as saver:
        ended = run(network, "go", checkpointer=saver, thread_id="t")
    assert (ended.state.data.done, ended.state.data.files) == (True, ["a", "b"])
    assert not network.default_state.data.files


def test_the_state_of_a_run_replaces_the_networks_and_is_not_changed(run: Runner) -> None:
    def put(state: State[Any]) -> None:
        """Put."""
        state.data.number = 2

    given: State[Any] = State({"number": 5})
    network = Network(
        "n", agents=[named("a", ToolCall("1", "put"), tools=[put])], router=once("a"), state={"number": 1}
    )
    assert run(network, "go", state=given).state.data.number == 2
    assert (given.data.number, network.default_state.data.number) == (5, 1)


@pytest.mark.parametrize("schema", [Typed, Plain, Model])
def test_a_field_that_the_data_does_not_have_is_not_dropped_in_silence(schema: Any, run: Runner) -> None:
    state: Any = State(schema=Typed) if schema is Typed else schema
    network = Network("n", agents=[named("a")], router=once("a"), state=state)
    with pytest.raises(StatewrightError, match="dome"):
        run(network, "go", state={"dome": True})


@pytest.mark.parametrize("how", ["context", "field", "whole"])
def test_tools_that_reach_the_state_by_another_way_do_not_break_the_run(how: str, run: Runner) -> None:
    """Two calls of one answer write to one list, which is none of the names `network` and `state`."""

    def context(item: str, here: ToolContext) -> None:
        """Add an item."""
        here.state.data.notes.append(item)

    def field(item: str, notes: Annotated[list[str], InjectedState("notes")]) -> None:
        """Add an item."""
        notes.append(item)

    def whole(item: str, found: Annotated[Any, InjectedState]) -> None:
        """Add an item."""
        found.data.notes.append(item)

    asked = [ToolCall("1", how, {"item": "x"}), ToolCall("2", how, {"item": "y"})]
    agent = named("a", asked, tools=[context, field, whole])
    ended = run(Network("n", agents=[agent], router=once("a"), state={"notes": []}), "go")
    assert [one.metadata for one in ended.results[0].tool_calls] == [None, None]
    assert ended.state.data.notes in ([], ["x", "y"])


def test_a_value_that_cannot_be_saved_is_reported_to_the_model_and_nothing_is_lost(run: Runner, tmp_path: Any) -> None:
    def spoil(network: NetworkRun[Any]) -> str:
        """Write what no database takes."""
        network.state.data.good = 2
        network.state.data.bad = lambda: None
        return "done"

    agent = named("a", ToolCall("1", "spoil"), "I see", tools=[spoil], max_iter=2)
    network = Network("n", agents=[agent], router=once("a"), state={"kept": [1], "good": 1})
    with SqliteSaver(tmp_path / "x.db") as saver:
        ended = run(network, "go", checkpointer=saver, thread_id="t")
        again = run(network, "once more", checkpointer=saver, thread_id="t")
    (told,) = ended.results[0].tool_calls
    assert told.metadata == {"status": "error"}
    assert "bad" in told.text
    assert dict(ended.state.data) == dict(again.state.data) == {"kept": [1], "good": 1}


def test_what_a_router_writes_and_cannot_be_saved_is_named(run: Runner, tmp_path: Any) -> None:
    def router(state: State[Any]) -> None:
        state.data.bad = lambda: None

    with SqliteSaver(tmp_path / "x.db") as saver, pytest.raises(SerdeError, match=r"bad"):
        run(Network("n", router=router, state={"kept": [1]}), "go", checkpointer=saver, thread_id="t")


# -- ends


def test_a_condition_ends_it_after_an_agent(run: Runner) -> None:
    seen: list[Any] = []

    def stop_when(result: Any, state: Any, network: Any) -> bool:
        seen.append((result.agent_name, network.call_count))
        return len(state.results) == 2

    ended = run(Network("n", agents=[named("a")], router=lambda: "a", stop_when=stop_when), "go")
    assert seen == [("a", 1), ("a", 2)]
    assert (ended.call_count, ended.stop_reason) == (2, "stop_when")


def test_max_iter_leaves_the_queue(run: Runner) -> None:
    agents = [named(name) for name in "abc"]
    network = Network("n", agents=agents, router=lambda call_count: [] if call_count else agents, max_iter=2)
    ended = run(network, "go")
    assert [one.agent_name for one in ended.results] == ["a", "b"]
    assert ([one.name for one in ended.stack], ended.stop_reason) == (["c"], "max_iter")


@pytest.mark.parametrize("limits", [{"requests": 2}, {"output_tokens": 2}, {"tokens": 4}])
def test_a_usage_limit_ends_it(limits: dict[str, int], run: Runner) -> None:
    agent = named("a", "four")
    ended = run(Network("n", agents=[agent], router=lambda: "a", usage_limits=UsageLimits(**limits)), "go")
    assert ended.stop_reason == "usage_limit"
    assert len(agent.model.requests) == 2


def test_a_usage_limit_ends_an_agent_in_its_loop(run: Runner) -> None:
    agent = named("a", ToolCall("1", "work"), tools=[tool(name="work")(lambda: 1)], max_iter=50)
    network = Network("n", agents=[agent], router=once("a"), usage_limits=UsageLimits(requests=3))
    ended = run(network, "go")
    assert (ended.stop_reason, ended.results[0].stop_reason, len(agent.model.requests)) == ("usage_limit",) * 2 + (3,)


def test_a_usage_limit_is_that_of_a_turn(run: Runner) -> None:
    saver, agent = InMemorySaver(), named("a")
    network = Network("n", agents=[agent], router=once("a"), usage_limits=UsageLimits(requests=2))
    reasons = [run(network, "go", checkpointer=saver, thread_id="t").stop_reason for _ in range(3)]
    assert reasons == ["completed"] * 3


def test_the_queue_of_one_turn_is_not_that_of_the_next(run: Runner) -> None:
    agents, saver = [named(name) for name in "abc"], InMemorySaver()
    network = Network("n", agents=agents, router=lambda call_count: [] if call_count else agents, max_iter=1)
    found = [run(network, "go", checkpointer=saver, thread_id="t") for _ in range(2)]
    assert [one.agent_name for one in found[1].results] == ["a", "a"]
    assert [one.name for one in found[1].stack] == ["b", "c"]


# -- input


@pytest.mark.parametrize("given", [3, b"x", ["x"], {"role": "assistant", "content": "x"}, Message("x", role="tool")])
def test_an_odd_input_is_refused(given: Any, run: Runner) -> None:
    with pytest.raises(StatewrightError):
        run(named("a").alone(), given)


def test_a_run_without_input_needs_an_unfinished_thread(run: Runner) -> None:
    with pytest.raises(EmptyInputError):
        run(named("a").alone(), None)
    with pytest.raises(EmptyInputError):
        run(named("a").alone(), None, checkpointer=InMemorySaver(), thread_id="t")


def test_a_state_comes_with_an_input_only(run: Runner) -> None:
    with pytest.raises(InvalidConfig, match="Pass state= only together with an input"):
        run(named("a").alone(), Command(resume=1), state={"a": 1}, checkpointer=InMemorySaver(), thread_id="t")


def test_the_compiled_graph_accepts_the_input_of_the_network() -> None:
    agent = named("a")
    for given in (Message("go"), "go", {"role": "user", "content": "go"}):
        values = agent.alone().compile().invoke({"input": given})
        assert values["turns"][-1].text == "a"


def test_a_run_may_have_another_router_and_model(run: Runner) -> None:
    network = Network("n", agents=[Agent("a")], router=lambda: None)
    ended = run(network, "go", router=once("a"), default_model=ScriptedModel(["x"]))
    assert [one.text for one in ended.results] == ["x"]
    assert run(network, "go").results == []


def test_agents_without_a_model_use_that_of_the_network(run: Runner) -> None:
    own, shared = ScriptedModel(["own"]), ScriptedModel(["shared"])
    agents = [Agent("a", model=own), Agent("b")]
    network = Network("n", agents=agents, router=lambda call_count: [] if call_count else agents, default_model=shared)
    assert [one.text for one in run(network, "go").results] == ["own", "shared"]


# -- questions


@tool(approve=True)
def send(to: str, network: NetworkRun[Any]) -> str:
    """Send."""
    network.state.data.sent.append(to)
    return f"sent to {to}"


def asking(*calls: ToolCall) -> Network[Any]:
    agent = named("a", list(calls), "end", tools=[send], max_iter=2)
    return Network("n", agents=[agent], router=once("a"), state={"sent": []})


@pytest.mark.parametrize(
    ("decision", "sent", "told"),
    [
        (True, ["all"], "sent to all"),
        ({"approved": True, "arguments": {"to": "one"}}, ["one"], "sent to one"),
        (False, [], "Error: The call of 'send' was refused."),
        ("too early", [], "Error: The call of 'send' was refused: too early."),
        ({"approved": False, "reason": "late"}, [], "Error: The call of 'send' was refused: late."),
    ],
)
def test_somebody_agrees_changes_or_refuses(decision: Any, sent: list[str], told: str, run: Runner) -> None:
    saver, network = InMemorySaver(), asking(ToolCall("1", "send", {"to": "all"}))
    waiting = run(network, "go", checkpointer=saver, thread_id="t")
    assert [one.value for one in waiting.interrupts] == [
        {"kind": "approval", "tool": "send", "arguments": {"to": "all"}, "tool_call_id": "1"}
    ]
    assert (waiting.stop_reason, waiting.results) == (None, [])
    ended = run(network, Command(resume=decision), checkpointer=saver, thread_id="t")
    assert (ended.state.data.sent, ended.interrupts) == (sent, ())
    assert [one.text for one in ended.results[0].tool_calls] == [told]
    assert ended.results[0].text == "end"


@pytest.mark.parametrize("arguments", ["one", ["one"], 3])
def test_changed_arguments_have_to_be_a_mapping(arguments: Any, run: Runner) -> None:
    """It is the fault of whoever answers: the model has not done anything wrong."""
    saver, network = InMemorySaver(), asking(ToolCall("1", "send", {"to": "all"}))
    run(network, "go", checkpointer=saver, thread_id="t")
    decision = {"approved": True, "arguments": arguments}
    with pytest.raises(StatewrightError, match="arguments"):
        run(network, Command(resume=decision), checkpointer=saver, thread_id="t")


def test_each_call_is_agreed_to_by_itself(run: Runner) -> None:
    @tool(approve=lambda arguments, context: arguments["to"] != "me")
    def post(to: str) -> str:
        """Post."""
        return f"posted to {to}"

    calls = [ToolCall(to, "post", {"to": to}) for to in ("all", "me", "you")]
    network = Network("n", agents=[named("a", calls, tools=[post])], router=once("a"))
    saver = InMemorySaver()
    waiting = run(network, "go", checkpointer=saver, thread_id="t")
    by_call = {one.value["tool_call_id"]: one.id for one in waiting.interrupts}
    assert sorted(by_call) == ["all", "you"]
    answers = {by_call["all"]: False, by_call["you"]: True}
    ended = run(network, Command(resume=answers), checkpointer=saver, thread_id="t")
    assert [one.text for one in ended.results[0].tool_calls] == [
        "Error: The call of 'post' was refused.",
        "posted to me",
        "posted to you",
    ]


def test_a_tool_asks_in_the_middle(run: Runner) -> None:
    def ask(network: NetworkRun[Any]) -> str:
        """Ask twice."""
        first = interrupt("first?")
        network.state.data.answers.append(first)
        second = interrupt("second?")
        network.state.data.answers.append(second)
        return f"{first} {second}"

    saver = InMemorySaver()
    agent = named("a", ToolCall("1", "ask"), "end", tools=[ask], max_iter=2)
    network = Network("n", agents=[agent], router=once("a"), state={"answers": []})
    here = {"checkpointer": saver, "thread_id": "t"}
    asked = [run(network, "go", **here), run(network, Command(resume="one"), **here)]
    assert [[one.value for one in run.interrupts] for run in asked] == [["first?"], ["second?"]]
    ended = run(network, Command(resume="two"), **here)
    assert ended.state.data.answers == ["one", "two"]
    assert len(agent.model.requests) == 2


# -- going on


def test_a_missing_agent_is_an_error_that_lists_the_existing_ones(run: Runner) -> None:
    saver, agent = InMemorySaver(), named("a", ValueError("lost"), "found")
    network = Network("n", agents=[agent], router=once("a"))
    with pytest.raises(ValueError, match="lost"):
        run(network, "go", checkpointer=saver, thread_id="t")
    with pytest.raises(RoutingError, match=r"no agent 'a'\..*Agents: z"):
        run(Network("n", agents=[named("z")], router=once("z")), None, checkpointer=saver, thread_id="t")
    assert run(network, None, checkpointer=saver, thread_id="t").results[0].text == "found"


HIDDEN = named("hidden", ValueError("lost"), "found")


def names_it(call_count: int) -> Any:
    return None if call_count else HIDDEN


def test_an_agent_that_only_the_router_refers_to_is_found_after_a_resume(run: Runner) -> None:
    saver = InMemorySaver()
    HIDDEN.model.requests.clear()
    with pytest.raises(ValueError, match="lost"):
        run(Network("n", router=names_it), "go", checkpointer=saver, thread_id="t")
    ended = run(Network("n", router=names_it), None, checkpointer=saver, thread_id="t")
    assert ended.results[0].text == "found"


def test_an_agent_that_a_router_creates_is_not_found_after_a_resume(run: Runner) -> None:
    def made(call_count: int) -> Any:
        return None if call_count else named("made", ValueError("lost"))

    saver = InMemorySaver()
    with pytest.raises(ValueError, match="lost"):
        run(Network("n", router=made), "go", checkpointer=saver, thread_id="t")
    with pytest.raises(RoutingError, match=r"'made'.*must be declared"):
        run(Network("n", router=made), None, checkpointer=saver, thread_id="t")


@pytest.mark.parametrize("option", ["none", "default_model", "router"])
def test_an_agent_that_a_router_creates_is_found_after_a_resume_of_the_same_network(run: Runner, option: str) -> None:
    failures = [ValueError("lost")]

    def made(call_count: int) -> Any:
        answers = ScriptedModel(lambda request: failures.pop() if failures else "end")
        return None if call_count else Agent("made", model=answers, retries=0)

    options = {"none": {}, "default_model": {"default_model": ScriptedModel([])}, "router": {"router": made}}[option]
    network, saver = Network("n", router=made), InMemorySaver()
    with pytest.raises(ValueError, match="lost"):
        run(network, "go", checkpointer=saver, thread_id="t", **options)
    ended = run(network, None, checkpointer=saver, thread_id="t", **options)
    assert ended.results[0].text == "end"


def test_a_wrong_name_that_a_tool_schedules_goes_back_to_the_model(run: Runner) -> None:
    """Or the thread could never go on: what the agent said is saved, and its end fails again and again."""

    def hand_over(network: NetworkRun[Any]) -> str:
        """Let somebody go on."""
        network.schedule("zoe")
        return "handed over"

    agent = named("a", ToolCall("1", "hand_over"), "end", tools=[hand_over], max_iter=2)
    ended = run(Network("n", agents=[agent], router=once("a")), "go")
    assert ended.results[0].tool_calls[0].metadata == {"status": "error"}
    assert "zoe" in ended.results[0].tool_calls[0].text


def test_failed_calls_of_a_model_are_tried_again_and_the_rest_is_not(run: Runner) -> None:
    calls: list[int] = []

    def work(number: int) -> int:
        """Do it."""
        calls.append(number)
        return number

    model = ScriptedModel([[ToolCall("1", "work", {"number": 1})], ModelUnavailable("busy"), "end"])
    policy = RetryPolicy(initial_interval=0.001, max_attempts=3)
    agent = Agent("a", model=model, tools=[work], max_iter=2, retries=policy)
    routed: list[int] = []
    network = Network("n", agents=[agent], router=lambda call_count: routed.append(call_count) or once("a")(call_count))
    assert run(network, "go").results[0].text == "end"
    assert (calls, routed, len(model.requests)) == ([1], [0, 1], 3)


# -- what others see of it


def streamed(network: Network[Any], driver: str, **options: Any) -> list[Any]:
    async def read() -> list[Any]:
        return [part async for part in network.astream("go", **options)]

    return list(network.stream("go", **options)) if driver == "stream" else asyncio.run(read())


@pytest.mark.parametrize("driver", ["stream", "astream"])
def test_messages_are_streamed_word_by_word(driver: str) -> None:
    work = tool(name="work")(lambda number: number)
    first = named("a", [ToolCall("1", "work", {"number": 3})], "one two", tools=[work], max_iter=2)
    second = named("b", "three four")
    router = RoutingAgent("R", model=ScriptedModel(["ab", ""]), on_route=lambda result: list(result.text))
    parts = streamed(Network("n", agents=[first, second], router=router, max_iter=2), driver)
    texts = [(message.name, message.role, message.text) for message, _ in parts if message.text]
    assert [one for one in texts if one[0] != "R"] == [
        ("work", "tool", "3"),
        ("a", "assistant", "one"),
        ("a", "assistant", " two"),
        ("b", "assistant", "three"),
        ("b", "assistant", " four"),
    ]
    arguments = "".join(
        piece.arguments
        for message, _ in parts
        for piece in getattr(message, "tool_call_chunks", ())
        if message.name == "a"
    )
    assert arguments == '{"number": 3}'
    assert {known["node"] for _, known in parts} >= {"infer", "tool"}


@pytest.mark.parametrize("driver", ["stream", "astream"])
def test_pieces_have_the_id_of_the_message_that_is_kept(driver: str) -> None:
    agent = named("a", "one two")
    parts = streamed(Network("n", agents=[agent], router=once("a")), driver, stream_mode=["messages", "values"])
    pieces = {part[0].id for mode, part in parts if mode == "messages"}
    last = [part for mode, part in parts if mode == "values"][-1]
    assert [message.id for message in last["turns"][-1].messages] == list(pieces)


def test_without_a_reader_nothing_is_streamed(run: Runner) -> None:
    class Model:
        async def complete(self, request: Any) -> Any:
            return await ScriptedModel(["x"]).complete(request)

        def stream(self, request: Any) -> Any:
            raise AssertionError("nobody reads")

    assert run(Agent("a", model=Model()).alone(), "go").results[0].text == "x"


def test_calls_are_in_the_log_of_the_run() -> None:
    def fail() -> None:
        """Fail."""
        raise LookupError("row")

    saver = InMemorySaver()
    agent = named("a", [ToolCall("1", "fail")], "end", tools=[fail], max_iter=2)
    app = agent.alone().compile(saver)
    app.invoke({"input": Message("go")}, thread_id="t")
    told = [
        (one.kind, one.data) for one in app.get_events(thread_id="t") if one.kind in ("model_called", "tool_called")
    ]
    assert [kind for kind, _ in told] == ["model_called", "tool_called", "model_called"]
    assert told[0][1]["agent"] == "a"
    assert told[0][1]["tools"] == ["fail"]
    assert told[1][1] == {"tool": "fail", "call": "1", "agent": "a", "error": "Error: LookupError: row"}
    assert told[2][1]["finish_reason"] == "stop"
    assert {"input_tokens", "output_tokens", "model"} <= set(told[2][1])


def test_the_declared_agents_are_drawn() -> None:
    network = Network("n", agents=[named("Ann"), named("Bob")], router=lambda: None)
    drawn = network.compile().get_graph().draw_mermaid()
    assert "Ann" in drawn
    assert "Bob" in drawn


def test_it_shows_itself_in_few_words() -> None:
    assert repr(Network("n", agents=[named("a")], router=lambda: None)) == "Network('n', agents: a)"
    assert repr(Network("n", router=lambda: None)) == "Network('n', agents: none)"


def test_agents_ask_other_models_and_stay_the_same(run: Runner) -> None:
    """A router may answer with the very objects that it knows."""
    other, third = ScriptedModel(["other"], repeat_last=True), ScriptedModel(["third"], repeat_last=True)
    network = Network(
        "n", agents=[named("a"), named("b")], router=lambda call_count: ["a", "b"] if not call_count else None
    )
    changed = network.with_models(other, b=third)
    assert [result.text for result in run(changed, "go").results] == ["other", "third"]
    assert [result.text for result in run(network, "go", model=third).results] == ["third", "third"]
    assert [result.text for result in run(network, "go").results] == ["a", "b"]
    with pytest.raises(InvalidConfig, match="no agent 'c'"):
        network.with_models(c=other)


def test_runs_beside_each_other_do_not_get_each_others_agents() -> None:
    """A router may make an agent for a user: nobody else may be served by it."""

    def router(call_count: int, input: str) -> Agent | None:  # noqa: A002
        if call_count:
            return None
        return Agent("helper", system=f"for {input}", model=ScriptedModel(lambda request: request.system))

    network = Network("n", router=router)

    async def all_at_once() -> list[str]:
        runs = await asyncio.gather(*(network.arun(f"user {number}") for number in range(20)))
        return [run.results[0].text for run in runs]

    assert asyncio.run(all_at_once()) == [f"for user {number}" for number in range(20)]
    with ThreadPoolExecutor(8) as pool:
        texts = list(pool.map(lambda number: network.run(f"user {number}").results[0].text, range(40)))
    assert texts == [f"for user {number}" for number in range(40)]


def test_agents_can_be_declared_later() -> None:
    network = Network("n", agents=[named("a")], router=lambda call_count: None if call_count else "b")
    network.add_agent(named("b"))
    assert [result.text for result in network.run("go").results] == ["b"]
    assert [agent.name for agent in network.available_agents()] == ["a", "b"]
    with pytest.raises(InvalidConfig, match="two agents named 'b'"):
        network.add_agent(named("b"))


@pytest.mark.parametrize(
    ("odd", "said"),
    [
        ({"max_iter": -1}, "max_iter is -1"),
        ({"max_iter": "3"}, "max_iter is '3'"),
        ({"usage_limits": {"tokens": 3}}, "usage_limits is"),
        ({"history": {}}, "history is"),
        ({"stop_when": 5}, "stop_when is 5"),
        ({"name": " "}, "it has no name"),
    ],
)
def test_what_cannot_be_is_refused_when_it_is_made(odd: dict[str, Any], said: str) -> None:
    with pytest.raises(InvalidConfig, match=said):
        Network(**{"name": "n", "router": lambda: None, **odd})


def test_an_unknown_field_is_refused(run: Runner) -> None:
    app = Network("n", agents=[named("a")], router=once("a")).compile()
    with pytest.raises(StatewrightError, match=r"has no field 'inpt'.*Did you mean 'input'"):
        app.invoke({"inpt": "hello"})


def test_messages_may_have_any_form() -> None:
    saver = InMemorySaver()
    network = Network("n", agents=[named("a", "one", "two")], router=once("a"))
    network.run("hi", checkpointer=saver, thread_id="t")
    app = network.compile(saver)
    app.update_state({"thread_id": "t"}, {"messages": ["before"], "data.x": 1})
    run = network.run("again", checkpointer=saver, thread_id="t")
    assert [message.text for message in run.state.messages] == ["before"]
    assert run.state.data.x == 1
