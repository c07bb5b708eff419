"""Promises about model calls of agents: paid once, saved, counted, streamed and reported."""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator, Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from pydantic import BaseModel

from statewright import START, Budget, InMemorySaver, MessagesState, RetryPolicy, StateGraph
from statewright.agents import (
    Agent,
    Lifecycle,
    MemoryNotes,
    Network,
    RoutingAgent,
    UsageLimits,
    create_agent,
    create_supervisor,
    create_swarm,
    tool,
)
from statewright.agents.memory import Buffer, Summarizing
from statewright.errors import InvalidUpdateError, ModelUnavailable
from statewright.messages import Message, ToolCall
from statewright.models import (
    FallbackModel,
    ModelEvent,
    ModelRequest,
    ModelResponse,
    ResponseFinished,
    ScriptedModel,
    TextDelta,
    Usage,
)
from statewright.storage.sqlite import SqliteSaver

PRICE = Usage(100, 10, 1.0)


def respond(text: str, usage: Usage = PRICE) -> ModelResponse:
    return ModelResponse(Message(text, role="assistant"), usage)


def call_tools(*names: str, usage: Usage = PRICE, **arguments: Any) -> ModelResponse:
    calls = tuple(ToolCall(f"call-{number}", name, arguments) for number, name in enumerate(names))
    return ModelResponse(Message("", role="assistant", tool_calls=calls), usage)


def always(answer: ModelResponse) -> ScriptedModel:
    return ScriptedModel([answer], repeat_last=True)


QUICK = RetryPolicy(initial_interval=0, max_attempts=5, jitter=False, retry_on=Exception)


# -- summaries are kept with the thread


def turn_functions(summaries: ScriptedModel) -> list[Callable[..., Any]]:
    """Return functions that run a turn on a thread, one for each kind of agent, with a new memory in each turn."""
    memory = lambda: Summarizing(summaries, keep=2, after=4)  # noqa: E731

    def network(text: str, saver: Any) -> Any:
        agent = Agent("A", model=always(respond("a")), memory=memory())
        return agent.alone().run(text, checkpointer=saver, thread_id="t")

    def prebuilt(text: str, saver: Any) -> Any:
        app = create_agent(always(respond("a")), memory=memory(), checkpointer=saver)
        return app.invoke({"messages": [text]}, thread_id="t")

    def supervisor(text: str, saver: Any) -> Any:
        app = create_supervisor(
            [create_agent(always(respond("a")), name="B")],
            model=always(respond("a")),
            supervisor_options={"memory": memory()},
            checkpointer=saver,
        )
        return app.invoke({"messages": [text]}, thread_id="t")

    def swarm(text: str, saver: Any) -> Any:
        agent = create_agent(always(respond("a")), memory=memory(), name="A")
        app = create_swarm([agent], default_active_agent="A", checkpointer=saver)
        return app.invoke({"messages": [text]}, thread_id="t")

    def node(text: str, saver: Any) -> Any:
        agent = create_agent(always(respond("a")), memory=memory(), name="A")
        app = StateGraph(Conversation).add_node("A", agent).add_edge(START, "A").compile(saver)
        return app.invoke({"messages": [text]}, thread_id="t")

    return [network, prebuilt, supervisor, swarm, node]


class Conversation(MessagesState):
    """A custom state that keeps the memory notes of its agents."""

    memory_notes: MemoryNotes


FORMS = ["network", "prebuilt", "supervisor", "swarm", "node"]


@pytest.mark.parametrize("form", range(5), ids=FORMS)
def test_a_summary_is_made_once_over_several_processes(form: int, tmp_path: Path) -> None:
    """Each turn makes a new memory strategy, as a new process does."""
    summaries = always(respond("S"))
    turn = turn_functions(summaries)[form]
    for number in range(12):
        with SqliteSaver(tmp_path / "a.db") as saver:
            turn(f"turn {number}", saver)
    sent = [message.text for request in summaries.requests for message in request.messages]
    assert len(sent) < 12
    summarised = "\n".join(sent)
    for number in range(8):
        assert summarised.count(f"turn {number}\n") == 1, "each message is summarised once"


@pytest.mark.parametrize("form", [0, 1], ids=["network", "prebuilt"])
def test_a_summary_of_a_changed_conversation_is_not_used(form: int) -> None:
    summaries, saver = ScriptedModel(lambda request: respond(f"S{len(summaries.requests)}")), InMemorySaver()
    turn = turn_functions(summaries)[form]
    for number in range(4):
        turn(f"turn {number}", saver)
    if form == 1:
        app = create_agent(always(respond("a")), memory=Summarizing(summaries, keep=2, after=4), checkpointer=saver)
        first = app.get_state(thread_id="t").values["messages"][0]
        app.update_state({"thread_id": "t"}, {"messages": [Message("changed", id=first.id)]})
        before = len(summaries.requests)
        app.invoke({"messages": ["go on"]}, thread_id="t")
        summarised = "".join(message.text for request in summaries.requests[before:] for message in request.messages)
        assert "changed" in summarised
        assert "turn 0" not in summarised


# -- everything is counted


def test_the_usage_of_a_run_includes_routers_and_summaries() -> None:
    routes = ScriptedModel(
        lambda request: call_tools("select_agent", name="A") if len(routes.requests) < 3 else call_tools("done")
    )
    work = always(respond("x"))
    run = Network("n", agents=[Agent("A", model=work)], default_model=routes).run("q")
    assert (len(routes.requests), len(work.requests)) == (3, 2)
    assert run.usage == Usage(500, 50, 5.0)

    summaries, work, saver = always(respond("S")), always(respond("y" * 200)), InMemorySaver()
    network = Agent("A", model=work, memory=Buffer(4, summarize=summaries)).alone()
    for _ in range(8):
        run = network.run("u" * 200, checkpointer=saver, thread_id="t")
    calls = len(work.requests) + len(summaries.requests)
    assert len(summaries.requests) > 0
    assert run.usage.cost == calls
    assert sum(result.requests for result in run.results) == calls


def test_the_usage_of_a_run_includes_routers_of_earlier_runs() -> None:
    router = RoutingAgent("R", model=always(respond("A")), on_route=lambda network: None if network.call_count else "A")
    network, saver = Network("n", agents=[Agent("A", model=always(respond("x")))], router=router), InMemorySaver()
    for number in range(1, 4):
        run = network.run("q", checkpointer=saver, thread_id="t")
        assert run.usage.cost == 3 * number


def test_summaries_count_against_usage_limits() -> None:
    saver = InMemorySaver()
    agent = Agent("A", model=always(respond("y" * 200)), memory=Summarizing(always(respond("S")), keep=1, after=1))
    network = agent.alone(usage_limits=UsageLimits(cost=1.5))
    assert network.run("u", checkpointer=saver, thread_id="t").stop_reason == "completed"
    run = network.run("u", checkpointer=saver, thread_id="t")
    assert run.last_result is not None
    assert (run.last_result.usage.cost, run.stop_reason) == (2.0, "usage_limit")


@pytest.mark.parametrize("limit", ["budget", "usage limits"])
def test_a_cost_limit_for_a_model_without_a_price_is_logged(limit: str, caplog: pytest.LogCaptureFixture) -> None:
    free = always(respond("x", Usage(100, 10)))
    agent = Agent("A", model=free)
    router = lambda call_count: agent if call_count < 3 else None  # noqa: E731
    with caplog.at_level(logging.WARNING, "statewright"):
        if limit == "budget":
            Network("n", agents=[agent], router=router).run("q", budget=Budget(max_cost=1))
        else:
            Network("n", agents=[agent], router=router, usage_limits=UsageLimits(cost=1)).run("q")
    assert any("whose price is unknown" in record.getMessage() for record in caplog.records)


# -- model calls are not repeated


def fail(*_: Any, **__: Any) -> Any:
    raise RuntimeError("a bug")


class Typed(BaseModel):
    count: int = 0


def write_invalid(network: Any, result: Any) -> None:
    network.state.data.count = "many"


AFTER_THE_MODEL: dict[str, dict[str, Any]] = {
    "on_response": {"lifecycle": Lifecycle(on_response=lambda result: fail())},
    "invalid result of on_response": {"lifecycle": Lifecycle(on_response=lambda result: 3)},
    "invalid write of on_response": {"lifecycle": Lifecycle(on_response=write_invalid)},
    "stop_when": {"stop_when": lambda result: fail(), "tools": [lambda: 1], "max_iter": 3},
    "on_finish": {"lifecycle": Lifecycle(on_finish=lambda result: fail())},
}


@pytest.mark.parametrize("hook", AFTER_THE_MODEL)
@pytest.mark.parametrize("retries", [4, QUICK], ids=["usual", "policy"])
def test_an_error_in_a_hook_does_not_repeat_the_model_call(hook: str, retries: Any) -> None:
    options = dict(AFTER_THE_MODEL[hook])
    if hook == "stop_when":

        @tool
        def look() -> str:
            """Look."""
            return "seen"

        options["tools"] = [look]
    model = always(call_tools("look") if hook == "stop_when" else respond("x"))
    agent = Agent("A", model=model, retries=retries, **options)
    with pytest.raises(Exception, match=r"a bug|returned 3|count"):
        agent.alone(state=Typed).run("x")
    assert len(model.requests) == 1


def test_a_failed_model_call_is_retried() -> None:
    model = ScriptedModel([ModelUnavailable("busy"), ModelUnavailable("busy"), "x"])
    assert Agent("A", model=model, retries=QUICK).run("x").text == "x"


# -- streams


class BreakingModel:
    """A model whose stream breaks off the first few times."""

    def __init__(self, times: int) -> None:
        self.failures_left = times

    async def complete(self, request: ModelRequest) -> ModelResponse:
        raise NotImplementedError

    async def stream(self, request: ModelRequest) -> AsyncIterator[ModelEvent]:
        yield TextDelta("The answer ")
        if self.failures_left:
            self.failures_left -= 1
            raise ModelUnavailable("broke off")
        yield TextDelta("is 42.")
        yield ResponseFinished(respond("The answer is 42."))


def texts_by_id(parts: Iterator[Any]) -> dict[str, str]:
    texts: dict[str, str] = {}
    for chunk, _ in parts:
        texts[chunk.id] = texts.get(chunk.id, "") + chunk.text
    return texts


def stream_texts(model: Any) -> tuple[dict[str, str], str | None]:
    """Return the streamed texts by message id, and the id of the message in the state."""
    app = create_agent(model, retries=QUICK, checkpointer=InMemorySaver())
    texts = texts_by_id(app.stream({"messages": ["x"]}, thread_id="t", stream_mode="messages"))
    return texts, app.get_state(thread_id="t").values["messages"][-1].id


@pytest.mark.parametrize("times", [0, 1, 3])
def test_a_repeated_stream_has_a_new_message_id(times: int) -> None:
    texts, last = stream_texts(BreakingModel(times))
    assert [text for text in texts.values() if text != "The answer is 42."] == ["The answer "] * times
    assert texts[str(last)] == "The answer is 42."
    assert list(texts)[-1] == last


def test_a_restarted_fallback_has_a_new_message_id() -> None:
    texts, last = stream_texts(FallbackModel(BreakingModel(9), BreakingModel(0), restart=True))
    assert list(texts.values()) == ["The answer ", "The answer is 42."]
    assert list(texts)[-1] == last


# -- finish reasons


@pytest.mark.parametrize("reason", ["length", "refused"])
def test_an_incomplete_answer_has_a_finish_reason(reason: Any) -> None:
    model = always(ModelResponse(Message("The dose is 5", role="assistant"), PRICE, None, reason))
    run = Agent("A", model=model).alone().run("x")
    assert run.last_result is not None
    assert (run.last_result.finish_reason, run.last_result.stop_reason, run.stop_reason) == (reason, reason, reason)
    saver = InMemorySaver()
    app = create_agent(model, checkpointer=saver)
    app.invoke({"messages": ["x"]}, thread_id="t")
    assert app.get_state(thread_id="t").values["messages"][-1].finish_reason == reason


def test_a_complete_answer_stores_no_finish_reason() -> None:
    message = create_agent(always(respond("x"))).invoke({"messages": ["x"]})["messages"][-1]
    assert (message.metadata, message.finish_reason) == (None, "stop")
    assert Message("x").finish_reason is None
    assert Message("", role="assistant", tool_calls=(ToolCall("1", "look"),)).finish_reason == "tools"


# -- tools


def call_tool(function: Any, **arguments: Any) -> tuple[str, ModelRequest]:
    """Call a tool; return its answer and the last request."""
    model = ScriptedModel([call_tools(function.__name__, **arguments), "end"])
    result = Agent("A", model=model, tools=[function], max_iter=2).run("x")
    return result.tool_results[0].text, model.requests[-1]


def test_a_forced_tool_choice_is_satisfied_by_the_first_call() -> None:
    def look() -> str:
        """Look."""
        return "seen"

    for choice in ("any", "look"):
        model = ScriptedModel([call_tools("look"), "end"])
        result = Agent("A", model=model, tools=[look], max_iter=5, tool_choice=choice).run("x")
        assert [request.tool_choice for request in model.requests] == [choice, "auto"]
        assert result.text == "end"


def test_a_tool_that_is_an_async_generator_returns_a_list() -> None:
    async def count(to: int) -> Any:
        """Count."""
        for number in range(to):
            yield number

    assert call_tool(count, to=3)[0] == "[0, 1, 2]"


def test_keyword_arguments_of_a_tool_are_checked_by_their_annotation() -> None:
    def add(first: int, **more: int) -> int:
        """Add."""
        return first + sum(more.values())

    text, request = call_tool(add, first=1, second="2", third=3)
    assert text == "6"
    assert request.tools[0].parameters["additionalProperties"] == {"type": "integer"}
    assert "'second' is 'x'" in call_tool(add, first=1, second="x")[0]


def test_all_errors_of_an_exception_group_are_reported() -> None:
    def work() -> str:
        """Work."""
        raise ExceptionGroup("several", [ValueError("one"), ExceptionGroup("inner", [KeyError("two")])])

    text = call_tool(work)[0]
    assert "ValueError: one" in text
    assert "KeyError: 'two'" in text


def test_invalid_characters_in_the_text_of_a_tool_are_replaced() -> None:
    def read() -> str:
        """Read."""
        return "half \ud83d"

    assert call_tool(read)[0] == "half \ufffd"

    def broken() -> str:
        """Break."""
        raise ValueError("half \ud83d")

    assert call_tool(broken)[0].encode()


def test_tool_calls_with_the_same_id_get_separate_results() -> None:
    def look(at: str = "") -> str:
        """Look."""
        return f"seen {at}"

    same = ModelResponse(
        Message("", role="assistant", tool_calls=tuple(ToolCall("call", "look", {"at": at}) for at in "ab")), PRICE
    )
    result = Agent("A", model=ScriptedModel([same, same, "end"]), tools=[look], max_iter=5).run("x")
    assert [message.text for message in result.tool_results] == ["seen a", "seen b"] * 2
    assert len({message.tool_call_id for message in result.tool_results}) == 4


# -- data


@dataclass
class CountData:
    count: int = 0


@pytest.mark.parametrize("kind", [CountData, Typed])
def test_typed_data_is_checked_when_it_is_written(kind: Any) -> None:
    def router(network: Any, call_count: int) -> Any:
        network.state.data.count = "many"

    agent = Agent("A", model=always(respond("x")))
    with pytest.raises(InvalidUpdateError, match="Field 'count' of the data was set to 'many'"):
        Network("n", agents=[agent], router=router, state=kind()).run("x")

    @tool
    def write(value: Any, state: Any) -> str:
        """Write."""
        state.data.count = value
        return "written"

    model = ScriptedModel([call_tools("write", value="many"), call_tools("write", value=3), "end"])
    run = Agent("A", model=model, tools=[write], max_iter=5).alone(state=kind()).run("x")
    assert run.state.data.count == 3
    assert "does not fit its type" in run.results[-1].tool_results[0].text


def test_parameters_with_defaults_keep_them_in_routers_and_stop_conditions() -> None:
    agent = Agent("A", model=always(respond("x")))
    seen: list[Any] = []
    network = Network(
        "n",
        agents=[agent],
        router=lambda call_count, most=2: agent if call_count < most else None,
        stop_when=lambda limit=7: seen.append(limit),
    )
    network.run("x")
    assert seen == [7, 7]
