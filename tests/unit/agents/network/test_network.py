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
    InvalidUpdateError,
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


def make_agent(name: str, *script: Any, **options: Any) -> Agent:
    return Agent(name, model=ScriptedModel(list(script) or [name], repeat_last=True), **options)


def route_once_to(name: str) -> Callable[..., Any]:
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


# -- definition


def test_a_network_without_a_router_is_refused() -> None:
    with pytest.raises(InvalidConfig, match="'n' is invalid: it has no router"):
        Network("n", agents=[make_agent("a")])


def test_duplicate_agent_names_are_refused() -> None:
    with pytest.raises(InvalidConfig, match="two agents named 'a'"):
        Network("n", agents=[make_agent("a"), make_agent("a")], router=lambda: None)


@pytest.mark.parametrize("agents", ["a", ["a"], [None], [3]])
def test_only_agents_are_accepted(agents: Any) -> None:
    with pytest.raises(InvalidConfig):
        Network("n", agents=agents, router=lambda: None)


@pytest.mark.parametrize("router", [3, "a", ["a"], make_agent("a")])
def test_an_invalid_router_is_refused_when_the_network_is_created(router: Any) -> None:
    with pytest.raises(InvalidConfig, match="router"):
        Network("n", agents=[make_agent("a")], router=router)


@pytest.mark.parametrize("state", [3, "text", [1]])
def test_invalid_data_is_refused(state: Any) -> None:
    with pytest.raises(InvalidConfig):
        Network("n", router=lambda: None, state=state)


def test_a_router_function_can_return_undeclared_agents(run: Runner) -> None:
    hidden = make_agent("hidden")
    ended = run(Network("n", router=lambda call_count: None if call_count else hidden), "go")
    assert [result.agent_name for result in ended.results] == ["hidden"]
    assert dict(ended.agents) == {}


# -- routers


@pytest.mark.parametrize("answer", [3, False, True, {"a": 1}, [None], object(), "zoe", ["a", 3]])
def test_an_invalid_answer_of_a_router_is_an_error_and_no_agent_is_called(answer: Any, run: Runner) -> None:
    agent = make_agent("a")
    with pytest.raises(RoutingError, match="'n'"):
        run(Network("n", agents=[agent], router=lambda: answer), "go")
    assert agent.model.requests == []


def test_an_exception_of_a_router_is_raised_and_the_run_can_be_resumed(run: Runner) -> None:
    agent, saver, failures = make_agent("a"), InMemorySaver(), [ZeroDivisionError("router"), None]

    def router(call_count: int) -> Any:
        error = failures.pop(0) if call_count and failures else None
        if error is not None:
            raise error
        return None if call_count else agent

    network = Network("n", agents=[agent], router=router)
    with pytest.raises(ZeroDivisionError, match="router"):
        run(network, "go", checkpointer=saver, thread_id="t")
    ended = run(network, None, checkpointer=saver, thread_id="t")
    assert [result.text for result in ended.results] == ["a"]
    assert len(agent.model.requests) == 1


def test_an_unknown_parameter_of_a_router_is_an_error_that_lists_the_known_ones(run: Runner) -> None:
    with pytest.raises(InvalidConfig, match=r"'lastResult'.*last_result"):
        run(Network("n", router=lambda state, lastResult: None), "go")  # noqa: N803  # the name of another library


def test_a_router_can_be_a_coroutine_function_or_take_one_object(run: Runner) -> None:
    async def later(call_count: int) -> Any:
        await asyncio.sleep(0)
        return None if call_count else "a"

    routers = [later, lambda known: None if known.call_count else "a", partial(lambda name, call_count: name, "a")]
    counts = [
        len(run(Network("n", agents=[make_agent("a")], router=router, max_iter=1), "go").results) for router in routers
    ]
    assert counts == [1, 1, 1]


def test_an_endless_router_reaches_the_recursion_limit(run: Runner) -> None:
    with pytest.raises(GraphRecursionError):
        run(Network("n", agents=[make_agent("a")], router=lambda: "a"), "go", recursion_limit=10)


def test_writes_of_a_router_are_saved(run: Runner) -> None:
    def router(state: Any, network: Any, call_count: int) -> Any:
        state.data.asked.append(call_count)
        return None if call_count else "a"

    assert run(Network("n", agents=[make_agent("a")], router=router, state={"asked": []}), "go").state.data.asked == [
        0,
        1,
    ]


def test_a_router_can_schedule_agents(run: Runner) -> None:
    def router(network: Any, call_count: int) -> None:
        if not call_count:
            network.schedule("b")
            network.schedule(network.agents["a"])

    ended = run(Network("n", agents=[make_agent("a"), make_agent("b")], router=router), "go")
    assert [result.agent_name for result in ended.results] == ["b", "a"]


# -- data in every form


EMPTY = {"done": False, "files": []}


@pytest.mark.parametrize("source", [EMPTY, State(EMPTY, schema=Typed), Plain, Plain(), Model, Model()])
def test_tools_write_to_data_of_every_form(source: Any, run: Runner, tmp_path: Any) -> None:
    def add(name: str, network: NetworkRun[Any]) -> None:
        """Add a file."""
        network.state.data.files.append(name)
        network.state.data.done = len(network.state.data.files) > 1

    calls = [ToolCall("1", "add", {"name": "a"}), ToolCall("2", "add", {"name": "b"})]
    agent = make_agent("a", calls, tools=[add])
    network = Network("n", agents=[agent], router=lambda state: None if state.data.done else agent, state=source)
    with SqliteSaver(tmp_path / "x.db") as saver:
        ended = run(network, "go", checkpointer=saver, thread_id="t")
    assert (ended.state.data.done, ended.state.data.files) == (True, ["a", "b"])
    assert not network.default_state.data.files


def test_the_state_of_a_run_replaces_the_default_and_is_not_changed(run: Runner) -> None:
    def put(state: State[Any]) -> None:
        """Put."""
        state.data.number = 2

    override: State[Any] = State({"number": 5})
    network = Network(
        "n", agents=[make_agent("a", ToolCall("1", "put"), tools=[put])], router=route_once_to("a"), state={"number": 1}
    )
    assert run(network, "go", state=override).state.data.number == 2
    assert (override.data.number, network.default_state.data.number) == (5, 1)


@pytest.mark.parametrize("schema", [Typed, Plain, Model])
def test_an_unknown_field_of_the_data_is_refused(schema: Any, run: Runner) -> None:
    state: Any = State(schema=Typed) if schema is Typed else schema
    network = Network("n", agents=[make_agent("a")], router=route_once_to("a"), state=state)
    with pytest.raises(StatewrightError, match="dome"):
        run(network, "go", state={"dome": True})


@pytest.mark.parametrize(("form", "notes"), [("context", ["x", "y"]), ("field", []), ("whole", ["x", "y"])])
def test_tools_with_other_access_to_the_state_do_not_break_the_run(form: str, notes: list[str], run: Runner) -> None:
    """Two calls of one answer write to one list; a list that is injected as a field is a copy."""

    def context(item: str, tool_context: ToolContext) -> None:
        """Add an item."""
        tool_context.state.data.notes.append(item)

    def field(item: str, notes: Annotated[list[str], InjectedState("notes")]) -> None:
        """Add an item."""
        notes.append(item)

    def whole(item: str, values: Annotated[Any, InjectedState]) -> None:
        """Add an item."""
        values.data.notes.append(item)

    calls = [ToolCall("1", form, {"item": "x"}), ToolCall("2", form, {"item": "y"})]
    agent = make_agent("a", calls, tools=[context, field, whole])
    ended = run(Network("n", agents=[agent], router=route_once_to("a"), state={"notes": []}), "go")
    assert [call.metadata for call in ended.results[0].tool_calls] == [None, None]
    assert ended.state.data.notes == notes


def test_a_value_that_cannot_be_saved_is_reported_and_changes_nothing(run: Runner, tmp_path: Any) -> None:
    def spoil(network: NetworkRun[Any]) -> str:
        """Write a value that cannot be saved."""
        network.state.data.good = 2
        network.state.data.bad = lambda: None
        return "done"

    agent = make_agent("a", ToolCall("1", "spoil"), "I see", tools=[spoil], max_iter=2)
    network = Network("n", agents=[agent], router=route_once_to("a"), state={"kept": [1], "good": 1})
    with SqliteSaver(tmp_path / "x.db") as saver:
        ended = run(network, "go", checkpointer=saver, thread_id="t")
        second = run(network, "once more", checkpointer=saver, thread_id="t")
    (answer,) = ended.results[0].tool_calls
    assert answer.metadata == {"status": "error"}
    assert "bad" in answer.text
    assert dict(ended.state.data) == dict(second.state.data) == {"kept": [1], "good": 1}


def test_an_unsavable_write_of_a_router_is_named_in_the_error(run: Runner, tmp_path: Any) -> None:
    def router(state: State[Any]) -> None:
        state.data.bad = lambda: None

    with SqliteSaver(tmp_path / "x.db") as saver, pytest.raises(SerdeError, match=r"bad"):
        run(Network("n", router=router, state={"kept": [1]}), "go", checkpointer=saver, thread_id="t")


# -- ends


def test_stop_when_ends_the_run_after_an_agent(run: Runner) -> None:
    seen: list[Any] = []

    def stop_when(result: Any, state: Any, network: Any) -> bool:
        seen.append((result.agent_name, network.call_count))
        return len(state.results) == 2

    ended = run(Network("n", agents=[make_agent("a")], router=lambda: "a", stop_when=stop_when), "go")
    assert seen == [("a", 1), ("a", 2)]
    assert (ended.call_count, ended.stop_reason) == (2, "stop_when")


def test_max_iter_ends_the_run_and_keeps_the_queue(run: Runner) -> None:
    agents = [make_agent(name) for name in "abc"]
    network = Network("n", agents=agents, router=lambda call_count: [] if call_count else agents, max_iter=2)
    ended = run(network, "go")
    assert [result.agent_name for result in ended.results] == ["a", "b"]
    assert ([agent.name for agent in ended.stack], ended.stop_reason) == (["c"], "max_iter")


@pytest.mark.parametrize("limits", [{"requests": 2}, {"output_tokens": 2}, {"tokens": 4}])
def test_a_usage_limit_ends_the_run(limits: dict[str, int], run: Runner) -> None:
    agent = make_agent("a", "four")
    ended = run(Network("n", agents=[agent], router=lambda: "a", usage_limits=UsageLimits(**limits)), "go")
    assert ended.stop_reason == "usage_limit"
    assert len(agent.model.requests) == 2


def test_a_usage_limit_ends_the_loop_of_an_agent(run: Runner) -> None:
    agent = make_agent("a", ToolCall("1", "work"), tools=[tool(name="work")(lambda: 1)], max_iter=50)
    network = Network("n", agents=[agent], router=route_once_to("a"), usage_limits=UsageLimits(requests=3))
    ended = run(network, "go")
    assert (ended.stop_reason, ended.results[0].stop_reason, len(agent.model.requests)) == ("usage_limit",) * 2 + (3,)


def test_a_usage_limit_applies_to_each_turn(run: Runner) -> None:
    saver, agent = InMemorySaver(), make_agent("a")
    network = Network("n", agents=[agent], router=route_once_to("a"), usage_limits=UsageLimits(requests=2))
    reasons = [run(network, "go", checkpointer=saver, thread_id="t").stop_reason for _ in range(3)]
    assert reasons == ["completed"] * 3


def test_a_turn_starts_without_the_queue_of_the_previous_one(run: Runner) -> None:
    agents, saver = [make_agent(name) for name in "abc"], InMemorySaver()
    network = Network("n", agents=agents, router=lambda call_count: [] if call_count else agents, max_iter=1)
    runs = [run(network, "go", checkpointer=saver, thread_id="t") for _ in range(2)]
    assert [result.agent_name for result in runs[1].results] == ["a", "a"]
    assert [agent.name for agent in runs[1].stack] == ["b", "c"]


# -- input


@pytest.mark.parametrize("value", [3, b"x", ["x"], {"role": "assistant", "content": "x"}, Message("x", role="tool")])
def test_an_invalid_input_is_refused(value: Any, run: Runner) -> None:
    with pytest.raises(StatewrightError):
        run(make_agent("a").alone(), value)


def test_a_run_without_input_needs_an_unfinished_thread(run: Runner) -> None:
    with pytest.raises(EmptyInputError):
        run(make_agent("a").alone(), None)
    with pytest.raises(EmptyInputError):
        run(make_agent("a").alone(), None, checkpointer=InMemorySaver(), thread_id="t")


def test_a_state_without_an_input_is_refused(run: Runner) -> None:
    with pytest.raises(InvalidConfig, match="Pass state= only together with an input"):
        run(make_agent("a").alone(), Command(resume=1), state={"a": 1}, checkpointer=InMemorySaver(), thread_id="t")


def test_the_compiled_graph_accepts_the_input_of_the_network() -> None:
    agent = make_agent("a")
    for value in (Message("go"), "go", {"role": "user", "content": "go"}):
        values = agent.alone().compile().invoke({"input": value})
        assert values["turns"][-1].text == "a"


def test_a_run_can_override_the_router_and_the_model(run: Runner) -> None:
    network = Network("n", agents=[Agent("a")], router=lambda: None)
    ended = run(network, "go", router=route_once_to("a"), default_model=ScriptedModel(["x"]))
    assert [result.text for result in ended.results] == ["x"]
    assert run(network, "go").results == []


def test_agents_without_a_model_use_the_default_model(run: Runner) -> None:
    own, shared = ScriptedModel(["own"]), ScriptedModel(["shared"])
    agents = [Agent("a", model=own), Agent("b")]
    network = Network("n", agents=agents, router=lambda call_count: [] if call_count else agents, default_model=shared)
    assert [result.text for result in run(network, "go").results] == ["own", "shared"]


# -- interrupts and approvals


@tool(approve=True)
def send(to: str, network: NetworkRun[Any]) -> str:
    """Send."""
    network.state.data.sent.append(to)
    return f"sent to {to}"


def network_with_approval(*calls: ToolCall) -> Network[Any]:
    agent = make_agent("a", list(calls), "end", tools=[send], max_iter=2)
    return Network("n", agents=[agent], router=route_once_to("a"), state={"sent": []})


@pytest.mark.parametrize(
    ("decision", "sent", "expected"),
    [
        (True, ["all"], "sent to all"),
        ({"approved": True, "arguments": {"to": "one"}}, ["one"], "sent to one"),
        (False, [], "Error: The call of 'send' was refused."),
        ("too early", [], "Error: The call of 'send' was refused: too early."),
        ({"approved": False, "reason": "late"}, [], "Error: The call of 'send' was refused: late."),
    ],
)
def test_a_call_can_be_approved_changed_or_refused(decision: Any, sent: list[str], expected: str, run: Runner) -> None:
    saver, network = InMemorySaver(), network_with_approval(ToolCall("1", "send", {"to": "all"}))
    waiting = run(network, "go", checkpointer=saver, thread_id="t")
    assert [question.value for question in waiting.interrupts] == [
        {"kind": "approval", "tool": "send", "arguments": {"to": "all"}, "tool_call_id": "1"}
    ]
    assert (waiting.stop_reason, waiting.results) == (None, [])
    ended = run(network, Command(resume=decision), checkpointer=saver, thread_id="t")
    assert (ended.state.data.sent, ended.interrupts) == (sent, ())
    assert [call.text for call in ended.results[0].tool_calls] == [expected]
    assert ended.results[0].text == "end"


@pytest.mark.parametrize("arguments", ["one", ["one"], 3])
def test_changed_arguments_have_to_be_a_mapping(arguments: Any, run: Runner) -> None:
    """The error is that of the person who answers, and not of the model."""
    saver, network = InMemorySaver(), network_with_approval(ToolCall("1", "send", {"to": "all"}))
    run(network, "go", checkpointer=saver, thread_id="t")
    decision = {"approved": True, "arguments": arguments}
    with pytest.raises(StatewrightError, match="arguments"):
        run(network, Command(resume=decision), checkpointer=saver, thread_id="t")


def test_calls_are_approved_separately(run: Runner) -> None:
    @tool(approve=lambda arguments, context: arguments["to"] != "me")
    def post(to: str) -> str:
        """Post."""
        return f"posted to {to}"

    calls = [ToolCall(to, "post", {"to": to}) for to in ("all", "me", "you")]
    network = Network("n", agents=[make_agent("a", calls, tools=[post])], router=route_once_to("a"))
    saver = InMemorySaver()
    waiting = run(network, "go", checkpointer=saver, thread_id="t")
    by_call = {question.value["tool_call_id"]: question.id for question in waiting.interrupts}
    assert sorted(by_call) == ["all", "you"]
    answers = {by_call["all"]: False, by_call["you"]: True}
    ended = run(network, Command(resume=answers), checkpointer=saver, thread_id="t")
    assert [call.text for call in ended.results[0].tool_calls] == [
        "Error: The call of 'post' was refused.",
        "posted to me",
        "posted to you",
    ]


def test_a_tool_can_interrupt_several_times(run: Runner) -> None:
    def ask(network: NetworkRun[Any]) -> str:
        """Ask twice."""
        first = interrupt("first?")
        network.state.data.answers.append(first)
        second = interrupt("second?")
        network.state.data.answers.append(second)
        return f"{first} {second}"

    saver = InMemorySaver()
    agent = make_agent("a", ToolCall("1", "ask"), "end", tools=[ask], max_iter=2)
    network = Network("n", agents=[agent], router=route_once_to("a"), state={"answers": []})
    options = {"checkpointer": saver, "thread_id": "t"}
    runs = [run(network, "go", **options), run(network, Command(resume="one"), **options)]
    assert [[question.value for question in run.interrupts] for run in runs] == [["first?"], ["second?"]]
    ended = run(network, Command(resume="two"), **options)
    assert ended.state.data.answers == ["one", "two"]
    assert len(agent.model.requests) == 2


# -- resuming


def test_a_missing_agent_is_an_error_that_lists_the_existing_ones(run: Runner) -> None:
    saver, agent = InMemorySaver(), make_agent("a", ValueError("lost"), "found")
    network = Network("n", agents=[agent], router=route_once_to("a"))
    with pytest.raises(ValueError, match="lost"):
        run(network, "go", checkpointer=saver, thread_id="t")
    with pytest.raises(RoutingError, match=r"no agent 'a'\..*Agents: z"):
        run(Network("n", agents=[make_agent("z")], router=route_once_to("z")), None, checkpointer=saver, thread_id="t")
    assert run(network, None, checkpointer=saver, thread_id="t").results[0].text == "found"


HIDDEN = make_agent("hidden", ValueError("lost"), "found")


def route_to_hidden(call_count: int) -> Any:
    return None if call_count else HIDDEN


def test_an_agent_that_only_the_router_refers_to_is_found_after_a_resume(run: Runner) -> None:
    saver = InMemorySaver()
    HIDDEN.model.requests.clear()
    with pytest.raises(ValueError, match="lost"):
        run(Network("n", router=route_to_hidden), "go", checkpointer=saver, thread_id="t")
    ended = run(Network("n", router=route_to_hidden), None, checkpointer=saver, thread_id="t")
    assert ended.results[0].text == "found"


def test_an_agent_that_a_router_creates_is_not_found_after_a_resume(run: Runner) -> None:
    def router(call_count: int) -> Any:
        return None if call_count else make_agent("made", ValueError("lost"))

    saver = InMemorySaver()
    with pytest.raises(ValueError, match="lost"):
        run(Network("n", router=router), "go", checkpointer=saver, thread_id="t")
    with pytest.raises(RoutingError, match=r"'made'.*must be declared"):
        run(Network("n", router=router), None, checkpointer=saver, thread_id="t")


@pytest.mark.parametrize("option", ["none", "default_model", "router"])
def test_an_agent_that_a_router_creates_is_found_after_a_resume_of_the_same_network(run: Runner, option: str) -> None:
    failures = [ValueError("lost")]

    def router(call_count: int) -> Any:
        answers = ScriptedModel(lambda request: failures.pop() if failures else "end")
        return None if call_count else Agent("made", model=answers, retries=0)

    options = {"none": {}, "default_model": {"default_model": ScriptedModel([])}, "router": {"router": router}}[option]
    network, saver = Network("n", router=router), InMemorySaver()
    with pytest.raises(ValueError, match="lost"):
        run(network, "go", checkpointer=saver, thread_id="t", **options)
    ended = run(network, None, checkpointer=saver, thread_id="t", **options)
    assert ended.results[0].text == "end"


def test_scheduling_an_unknown_agent_is_reported_to_the_model(run: Runner) -> None:
    """Otherwise the thread could not continue: the answer is saved, and each resume would fail at the same place."""

    def hand_over(network: NetworkRun[Any]) -> str:
        """Let another agent continue."""
        network.schedule("zoe")
        return "handed over"

    agent = make_agent("a", ToolCall("1", "hand_over"), "end", tools=[hand_over], max_iter=2)
    ended = run(Network("n", agents=[agent], router=route_once_to("a")), "go")
    assert ended.results[0].tool_calls[0].metadata == {"status": "error"}
    assert "zoe" in ended.results[0].tool_calls[0].text


def test_a_retry_repeats_only_the_failed_model_call(run: Runner) -> None:
    calls: list[int] = []

    def work(number: int) -> int:
        """Do it."""
        calls.append(number)
        return number

    model = ScriptedModel([[ToolCall("1", "work", {"number": 1})], ModelUnavailable("busy"), "end"])
    policy = RetryPolicy(initial_interval=0.001, max_attempts=3)
    agent = Agent("a", model=model, tools=[work], max_iter=2, retries=policy)
    routed: list[int] = []
    network = Network(
        "n", agents=[agent], router=lambda call_count: routed.append(call_count) or route_once_to("a")(call_count)
    )
    assert run(network, "go").results[0].text == "end"
    assert (calls, routed, len(model.requests)) == ([1], [0, 1], 3)


# -- streams, events and graphs


def stream(network: Network[Any], driver: str, **options: Any) -> list[Any]:
    async def read() -> list[Any]:
        return [part async for part in network.astream("go", **options)]

    return list(network.stream("go", **options)) if driver == "stream" else asyncio.run(read())


@pytest.mark.parametrize("driver", ["stream", "astream"])
def test_messages_are_streamed_word_by_word(driver: str) -> None:
    work = tool(name="work")(lambda number: number)
    first = make_agent("a", [ToolCall("1", "work", {"number": 3})], "one two", tools=[work], max_iter=2)
    second = make_agent("b", "three four")
    router = RoutingAgent("R", model=ScriptedModel(["ab", ""]), on_route=lambda result: list(result.text))
    parts = stream(Network("n", agents=[first, second], router=router, max_iter=2), driver)
    texts = [(message.name, message.role, message.text) for message, _ in parts if message.text]
    assert [entry for entry in texts if entry[0] != "R"] == [
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
def test_chunks_have_the_id_of_the_saved_message(driver: str) -> None:
    agent = make_agent("a", "one two")
    parts = stream(Network("n", agents=[agent], router=route_once_to("a")), driver, stream_mode=["messages", "values"])
    pieces = {part[0].id for mode, part in parts if mode == "messages"}
    last = [part for mode, part in parts if mode == "values"][-1]
    assert [message.id for message in last["turns"][-1].messages] == list(pieces)


def test_a_run_without_a_reader_does_not_stream(run: Runner) -> None:
    class Model:
        async def complete(self, request: Any) -> Any:
            return await ScriptedModel(["x"]).complete(request)

        def stream(self, request: Any) -> Any:
            raise AssertionError("the stream was read without a reader")

    assert run(Agent("a", model=Model()).alone(), "go").results[0].text == "x"


def test_model_and_tool_calls_are_in_the_log_of_the_run() -> None:
    def fail() -> None:
        """Fail."""
        raise LookupError("row")

    saver = InMemorySaver()
    agent = make_agent("a", [ToolCall("1", "fail")], "end", tools=[fail], max_iter=2)
    app = agent.alone().compile(saver)
    app.invoke({"input": Message("go")}, thread_id="t")
    events = [
        (event.kind, event.data)
        for event in app.get_events(thread_id="t")
        if event.kind in ("model_called", "tool_called")
    ]
    assert [kind for kind, _ in events] == ["model_called", "tool_called", "model_called"]
    assert events[0][1]["agent"] == "a"
    assert events[0][1]["tools"] == ["fail"]
    assert events[1][1] == {"tool": "fail", "call": "1", "agent": "a", "error": "Error: LookupError: row"}
    assert events[2][1]["finish_reason"] == "stop"
    assert {"input_tokens", "output_tokens", "model"} <= set(events[2][1])


def test_the_diagram_shows_the_declared_agents() -> None:
    network = Network("n", agents=[make_agent("Ann"), make_agent("Bob")], router=lambda: None)
    diagram = network.compile().get_graph().draw_mermaid()
    assert "Ann" in diagram
    assert "Bob" in diagram


def test_the_repr_shows_the_name_and_the_agents() -> None:
    assert repr(Network("n", agents=[make_agent("a")], router=lambda: None)) == "Network('n', agents: a)"
    assert repr(Network("n", router=lambda: None)) == "Network('n', agents: none)"


def test_with_models_replaces_models_without_changing_the_agents(run: Runner) -> None:
    """A router may return the original agents."""
    other, third = ScriptedModel(["other"], repeat_last=True), ScriptedModel(["third"], repeat_last=True)
    network = Network(
        "n", agents=[make_agent("a"), make_agent("b")], router=lambda call_count: ["a", "b"] if not call_count else None
    )
    changed = network.with_models(other, b=third)
    assert [result.text for result in run(changed, "go").results] == ["other", "third"]
    assert [result.text for result in run(network, "go", model=third).results] == ["third", "third"]
    assert [result.text for result in run(network, "go").results] == ["a", "b"]
    with pytest.raises(InvalidConfig, match="no agent 'c'"):
        network.with_models(c=other)


def test_concurrent_runs_do_not_share_agents_created_by_the_router() -> None:
    """A router may create an agent for one user, which must not be used for others."""

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
    network = Network("n", agents=[make_agent("a")], router=lambda call_count: None if call_count else "b")
    network.add_agent(make_agent("b"))
    assert [result.text for result in network.run("go").results] == ["b"]
    assert [agent.name for agent in network.available_agents()] == ["a", "b"]
    with pytest.raises(InvalidConfig, match="two agents named 'b'"):
        network.add_agent(make_agent("b"))


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"max_iter": -1}, "max_iter is -1"),
        ({"max_iter": "3"}, "max_iter is '3'"),
        ({"usage_limits": {"tokens": 3}}, "usage_limits is"),
        ({"history": {}}, "history is"),
        ({"stop_when": 5}, "stop_when is 5"),
        ({"name": " "}, "it has no name"),
    ],
)
def test_invalid_options_are_refused_at_creation(options: dict[str, Any], message: str) -> None:
    with pytest.raises(InvalidConfig, match=message):
        Network(**{"name": "n", "router": lambda: None, **options})


def test_an_unknown_field_of_the_input_is_refused(run: Runner) -> None:
    app = Network("n", agents=[make_agent("a")], router=route_once_to("a")).compile()
    with pytest.raises(StatewrightError, match=r"has no field 'inpt'.*Did you mean 'input'"):
        app.invoke({"inpt": "hello"})


@pytest.mark.parametrize("schema", [Typed, Plain, Model])
def test_a_field_of_the_data_that_its_class_does_not_declare_is_refused_in_an_input_and_an_update(schema: Any) -> None:
    state: Any = State(schema=Typed) if schema is Typed else schema
    saver = InMemorySaver()
    app = Network("n", agents=[make_agent("a")], router=route_once_to("a"), state=state).compile(saver)
    message = r"has no field 'data.dome'. Did you mean 'data.done'\? Fields: data"
    with pytest.raises(InvalidUpdateError, match=message):
        app.invoke({"input": "hello", "data.dome": True}, thread_id="t")
    with pytest.raises(InvalidUpdateError, match=message):
        app.update_state({"thread_id": "t"}, {"data.dome": True})
    assert saver.load("t") is None
    with pytest.raises(InvalidUpdateError, match=r"has no field 'done'. .*written as 'data.done'"):
        app.invoke({"input": "hello", "done": True}, thread_id="t")
    assert app.invoke({"input": "hello", "data.done": True}, thread_id="t")["data.done"] is True


def test_a_thread_is_continued_after_a_field_was_removed_from_the_class_of_the_data() -> None:
    @dataclass
    class Earlier(Plain):
        removed: str = ""

    saver = InMemorySaver()
    network = Network("n", agents=[make_agent("a", "one", "two")], router=route_once_to("a"), state=Earlier)
    network.compile(saver).invoke({"input": "hello", "data.removed": "x"}, thread_id="t")
    network = Network("n", agents=[make_agent("a", "two")], router=route_once_to("a"), state=Plain)
    assert network.run("again", checkpointer=saver, thread_id="t").state.data == Plain()


def test_update_state_accepts_messages_in_any_form() -> None:
    saver = InMemorySaver()
    network = Network("n", agents=[make_agent("a", "one", "two")], router=route_once_to("a"))
    network.run("hi", checkpointer=saver, thread_id="t")
    app = network.compile(saver)
    app.update_state({"thread_id": "t"}, {"messages": ["before"], "data.x": 1})
    run = network.run("again", checkpointer=saver, thread_id="t")
    assert [message.text for message in run.state.messages] == ["before"]
    assert run.state.data.x == 1


@pytest.mark.parametrize("messages", ["hello", ("user", "hello"), Message("hello"), [Message("hello")]])
def test_a_single_message_as_input_is_one_message(messages: Any) -> None:
    network = Network("n", agents=[make_agent("a")], router=route_once_to("a"))
    assert [message.text for message in network.compile().invoke({"messages": messages})["messages"]][:1] == ["hello"]
