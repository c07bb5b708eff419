"""A supervisor that delegates to other agents."""

from __future__ import annotations

import asyncio
import threading
from dataclasses import dataclass
from typing import Annotated, Any, TypedDict

import pytest

from statewright import START, Command, Instrument, StateGraph, add_messages
from statewright.agents import Agent, AgentState, create_agent, tool
from statewright.agents.prebuilt.handoff import create_handoff_tool
from statewright.agents.prebuilt.supervisor import create_supervisor
from statewright.agents.tools import InjectedToolCallId
from statewright.checkpoint import Checkpointer
from statewright.errors import GraphRecursionError, InvalidConfig
from statewright.messages import Message, ToolCall
from statewright.models import ModelRequest, ModelResponse, ScriptedModel

HI = {"messages": ["hi"]}


def handoff(number: int, agent: str, **arguments: Any) -> ToolCall:
    return ToolCall(f"c{number}", f"transfer_to_{agent}", arguments)


def agent(name: str, *script: Any, tools: Any = ()) -> Any:
    return create_agent(ScriptedModel(list(script)), tools, name=name)


def texts(result: Any) -> list[str]:
    return [message.text for message in result["messages"]]


# -- handoffs


def test_a_worker_reports_to_the_supervisor_which_then_answers() -> None:
    model = ScriptedModel([handoff(1, "research"), "It is the Rhine."])
    result = create_supervisor([agent("research", "The Rhine.")], model=model).invoke(HI)

    assert texts(result) == [
        "hi",
        "",
        "Handed over to research.",
        "The Rhine.",
        "",
        "Handed back to supervisor.",
        "It is the Rhine.",
    ]
    assert [message.name for message in result["messages"] if message.text] == [
        None,
        "transfer_to_research",
        "research",
        "transfer_back_to_supervisor",
        "supervisor",
    ]


def test_an_answer_without_a_handoff_ends_the_run() -> None:
    worker = ScriptedModel([])
    app = create_supervisor([create_agent(worker, name="research")], model=ScriptedModel(["At once."]))

    assert texts(app.invoke(HI)) == ["hi", "At once."]
    assert worker.requests == []


def test_a_worker_without_a_task_sees_the_whole_conversation() -> None:
    worker = ScriptedModel(["ok"])
    create_supervisor(
        [create_agent(worker, name="research")], model=ScriptedModel([handoff(1, "research"), "done"])
    ).invoke(HI)

    assert [message.text for message in worker.requests[0].messages] == ["hi", "", "Handed over to research."]


def test_a_worker_with_a_task_sees_only_that() -> None:
    worker = ScriptedModel(["ok"])
    model = ScriptedModel([handoff(1, "research", task=" find rivers "), "done"])
    create_supervisor([create_agent(worker, name="research")], model=model).invoke(HI)

    assert [message.text for message in worker.requests[0].messages] == ["find rivers"]


class BarrierModel:
    """A model that answers only when the expected number of calls is running."""

    def __init__(self, parties: int) -> None:
        self._barrier = asyncio.Barrier(parties)

    async def complete(self, request: ModelRequest) -> ModelResponse:
        await asyncio.wait_for(self._barrier.wait(), 600)
        return ModelResponse(Message(f"about {request.messages[-1].text}", "assistant"))


def test_several_handoffs_of_one_answer_run_concurrently() -> None:
    model_of_workers = BarrierModel(3)
    workers = [create_agent(model_of_workers, name=name) for name in ("a", "b")]
    model = ScriptedModel([[handoff(1, "a", task="x"), handoff(2, "b", task="y"), handoff(3, "a", task="z")], "done"])
    result = create_supervisor(workers, model=model, add_handoff_messages=False).invoke(HI)

    assert texts(result) == ["hi", "about x", "about y", "about z", "done"]
    assert [message.name for message in result["messages"]][1:4] == ["a", "b", "a"]


def test_reports_are_in_the_order_of_the_handoffs() -> None:
    model = ScriptedModel([[handoff(1, "a", task="x"), handoff(2, "b")], "done"])
    workers = [agent("b", "from b"), agent("a", "from a")]
    result = create_supervisor(workers, model=model, add_handoff_messages=False).invoke(HI)

    assert texts(result) == ["hi", "from a", "from b", "done"]


def test_a_tool_can_hand_over_with_a_command_for_the_parent_graph() -> None:
    def go(call_id: Annotated[str, InjectedToolCallId]) -> Any:
        """Go to a."""
        return Command(goto="a", graph=Command.PARENT, update={"messages": ["gone"]})

    model = ScriptedModel([ToolCall("1", "go"), "done"])
    result = create_supervisor([agent("a", "ok")], model=model, tools=[go], add_handoff_messages=False).invoke(HI)

    assert texts(result) == ["hi", "gone", "ok", "done"]


def test_two_handoffs_to_one_agent_without_a_task_call_it_once() -> None:
    model = ScriptedModel([[handoff(1, "a"), handoff(2, "a")], "done"])
    worker = ScriptedModel(["ok"])
    create_supervisor([create_agent(worker, name="a")], model=model).invoke(HI)

    assert len(worker.requests) == 1


def test_tools_called_together_with_a_handoff_are_executed() -> None:
    model = ScriptedModel([[ToolCall("t", "look"), handoff(1, "a")], "done"])

    def look() -> str:
        """Look."""
        return "seen"

    result = create_supervisor([agent("a", "ok")], model=model, tools=[look]).invoke(HI)
    assert texts(result)[2:5] == ["seen", "Handed over to a.", "ok"]
    assert len(model.requests) == 2, "the supervisor is not called in between"


def test_the_supervisor_calls_its_own_tools_and_continues() -> None:
    model = ScriptedModel([ToolCall("t", "look"), "done"])

    def look() -> str:
        """Look."""
        return "seen"

    assert texts(create_supervisor([agent("a")], model=model, tools=[look]).invoke(HI)) == ["hi", "", "seen", "done"]


# -- saved messages


def busy_agent(name: str = "research") -> Any:
    def look() -> str:
        """Look."""
        return "seen"

    return agent(name, ToolCall("t", "look"), "found", tools=[look])


@pytest.mark.parametrize(("mode", "expected"), [("last_message", ["found"]), ("full_history", ["", "seen", "found"])])
def test_the_output_mode_selects_the_messages_to_keep(mode: Any, expected: list[str]) -> None:
    model = ScriptedModel([handoff(1, "research"), "done"])
    result = create_supervisor([busy_agent()], model=model, output_mode=mode, add_handoff_messages=False).invoke(HI)

    assert texts(result) == ["hi", *expected, "done"]


def test_without_handoff_messages_only_the_text_of_the_answer_is_kept() -> None:
    answer = Message("Let me ask.", "assistant", tool_calls=(handoff(1, "a"), ToolCall("t", "look")))

    def look() -> str:
        """Look."""
        return "seen"

    app = create_supervisor(
        [agent("a", "ok")], model=ScriptedModel([answer, "done"]), tools=[look], add_handoff_messages=False
    )
    result = app.invoke(HI)
    assert texts(result) == ["hi", "Let me ask.", "seen", "ok", "done"]
    assert [call.name for call in result["messages"][1].tool_calls] == ["look"]


def test_the_report_of_a_worker_that_ends_with_a_tool_is_its_own_message() -> None:
    @tool(return_direct=True)
    def look() -> str:
        """Look."""
        return "seen"

    worker = agent("a", ToolCall("t", "look"), tools=[look])
    result = create_supervisor([worker], model=ScriptedModel([handoff(1, "a"), "done"])).invoke(HI)
    report = result["messages"][3]
    assert (report.role, report.text, report.name, report.tool_call_id) == ("assistant", "seen", "a", None)


def test_the_structured_response_is_requested_only_at_the_end() -> None:
    @dataclass
    class Verdict:
        river: str

    model = ScriptedModel([handoff(1, "a"), "It is the Rhine.", '{"river": "Rhine"}'])
    result = create_supervisor([agent("a", "ok")], model=model, response_format=Verdict).invoke(HI)

    assert result["structured_response"] == Verdict("Rhine")
    assert [request.output is not None for request in model.requests] == [False, False, True]


def test_structured_responses_of_workers_are_not_in_the_result() -> None:
    @dataclass
    class Verdict:
        river: str

    def worker(name: str) -> Any:
        return create_agent(ScriptedModel(["ok", '{"river": "Rhine"}']), response_format=Verdict, name=name)

    model = ScriptedModel([[handoff(1, "a"), handoff(2, "b")], "done"])
    result = create_supervisor([worker("a"), worker("b")], model=model).invoke(HI)
    assert "structured_response" not in result


class Team(TypedDict, total=False):
    messages: Annotated[list[Message], add_messages]
    budget: int


def test_fields_of_a_custom_state_are_shared_with_agents_and_tools() -> None:
    def spend(call_id: Annotated[str, InjectedToolCallId]) -> Any:
        """Spend."""
        return Command(update={"budget": 3, "messages": [Message("spent", "tool", tool_call_id=call_id)]})

    def work(state: Any) -> Any:
        return {"messages": [Message(f"have {state['budget']}", "assistant")], "budget": state["budget"] - 1}

    worker = StateGraph(Team).add_node("work", work).add_edge(START, "work").compile(name="a")
    model = ScriptedModel([[ToolCall("t", "spend"), handoff(1, "a")], "done"])
    app = create_supervisor([worker], model=model, tools=[spend], state_schema=Team)

    result = app.invoke({**HI, "budget": 9})
    assert (result["budget"], texts(result)[4]) == (2, "have 3")
    assert result["messages"][4].name == "a", "a message without a name has that of its agent"


# -- threads


def test_an_interrupt_in_a_worker_is_resumed_without_repeating_other_calls(saver: Checkpointer) -> None:
    @tool(approve=True)
    def send(text: str) -> str:
        """Send."""
        return f"sent {text}"

    writer = ScriptedModel([ToolCall("s", "send", {"text": "x"}), "was sent"])
    supervisor = ScriptedModel([[handoff(1, "writer", task="write"), handoff(2, "other")], "done"])
    other = ScriptedModel(["ok"])
    agents = [create_agent(writer, [send], name="writer"), create_agent(other, name="other")]
    app = create_supervisor(agents, model=supervisor, checkpointer=saver)

    waiting = app.invoke(HI, thread_id="1")
    assert [question.value["tool"] for question in waiting["__interrupt__"]] == ["send"]
    result = app.invoke(Command(resume="yes"), thread_id="1")

    assert {"was sent", "ok", "done"} <= set(texts(result))
    assert [len(model.requests) for model in (supervisor, other, writer)] == [2, 1, 2], "no model is called again"


def test_a_resume_repeats_only_the_failed_worker(saver: Checkpointer) -> None:
    steady_has_ended = threading.Event()

    class Notices(Instrument):
        def on_task_finished(self, event: Any) -> None:
            if event.node == "b":
                steady_has_ended.set()

    class Flaky:
        calls = 0

        async def complete(self, request: ModelRequest) -> ModelResponse:
            self.calls += 1
            while not steady_has_ended.is_set():
                await asyncio.sleep(0.005)
            if self.calls == 1:
                raise ValueError("no luck")
            return ModelResponse(Message("now", "assistant"))

    flaky, steady = Flaky(), ScriptedModel(["ok"])
    supervisor = ScriptedModel([[handoff(1, "a"), handoff(2, "b")], "done"])
    agents = [create_agent(flaky, name="a"), create_agent(steady, name="b")]
    app = create_supervisor(agents, model=supervisor, checkpointer=saver, instruments=[Notices()])

    with pytest.raises(ValueError, match="no luck"):
        app.invoke(HI, thread_id="1")
    assert texts(app.invoke(None, thread_id="1"))[-1] == "done"
    assert (flaky.calls, len(steady.requests), len(supervisor.requests)) == (2, 1, 2)


def test_a_later_turn_starts_with_the_supervisor(saver: Checkpointer) -> None:
    model = ScriptedModel([handoff(1, "a"), "one", "two"])
    app = create_supervisor([agent("a", "ok")], model=model, checkpointer=saver)
    app.invoke(HI, thread_id="1")

    assert texts(asyncio.run(app.ainvoke({"messages": ["and?"]}, thread_id="1")))[-2:] == ["and?", "two"]
    assert len(model.requests[-1].messages) == 8


# -- graphs


def test_the_diagram_shows_the_supervisor_and_its_agents() -> None:
    app = create_supervisor([agent("a"), agent("b")], model=ScriptedModel([]))
    drawing = app.get_graph()
    arrows = {(edge.source.split(":")[-1], edge.target.split(":")[-1]) for edge in drawing.edges}

    assert {("supervisor", "a"), ("supervisor", "b"), ("a", "supervisor"), ("b", "supervisor")} < arrows
    assert len(app.get_graph(xray=True).nodes) > len(drawing.nodes)


def test_streamed_messages_have_the_names_of_their_agents() -> None:
    app = create_supervisor([agent("a", "from a")], model=ScriptedModel([handoff(1, "a"), "from head"]))
    parts = [part for _, part in app.stream(HI, stream_mode="messages", subgraphs=True)]
    chunks = {(chunk.name, chunk.text) for chunk, _ in parts if chunk.text}

    assert {("a", "from"), ("a", " a"), ("supervisor", " head")} <= chunks


def test_a_supervisor_can_be_an_agent_of_another_supervisor() -> None:
    inner = create_supervisor(
        [agent("deep", "found")], model=ScriptedModel([handoff(1, "deep"), "inner done"]), name="research_team"
    )
    model = ScriptedModel([handoff(1, "research_team"), "outer done"])
    app = create_supervisor([inner], model=model, output_mode="full_history")
    result = texts(app.invoke(HI))

    assert result[-1] == "outer done"
    assert {"found", "inner done"} <= set(result)


def test_a_supervisor_can_be_a_node_of_another_graph() -> None:
    team = create_supervisor([agent("a", "ok")], model=ScriptedModel([handoff(1, "a"), "done"]))
    app = StateGraph(AgentState).add_node("team", team).add_edge(START, "team").compile()

    assert texts(app.invoke(HI))[-1] == "done"


# -- errors


def test_a_handoff_to_an_unknown_agent_is_reported_to_the_model() -> None:
    model = ScriptedModel([handoff(1, "nobody"), "then not"])
    result = texts(create_supervisor([agent("a")], model=model).invoke(HI))

    assert "Tool 'transfer_to_nobody' does not exist" in result[2]
    assert result[-1] == "then not"


def test_a_handoff_with_wrong_arguments_is_reported_to_the_model() -> None:
    model = ScriptedModel([handoff(1, "a", tusk="x"), handoff(2, "a"), "done"])
    result = create_supervisor([agent("a", "ok")], model=model).invoke(HI)

    assert result["messages"][2].metadata == {"status": "error"}
    assert texts(result)[-1] == "done"


def test_an_endless_supervisor_reaches_the_recursion_limit() -> None:
    model = ScriptedModel([handoff(1, "a")], repeat_last=True)
    worker = create_agent(ScriptedModel(["ok"], repeat_last=True), name="a")

    with pytest.raises(GraphRecursionError):
        create_supervisor([worker], model=model).invoke(HI, recursion_limit=7)


@pytest.mark.parametrize(
    ("agents", "options", "message"),
    [
        ([], {}, "Supervisor 'team' has no agents"),
        ([agent("a"), agent("a")], {}, "two agents named 'a'"),
        ([Agent("a")], {}, "not a compiled graph.*create_agent"),
        ([StateGraph(AgentState).add_node("n", print).add_edge(START, "n").compile()], {}, "without a name"),
        ([agent("supervisor")], {}, "as is its supervisor"),
        ([agent("a b"), agent("a_b")], {}, "Two tools of the supervisor are named 'transfer_to_a_b'"),
        ([agent("a")], {"output_mode": "last_mesage"}, "Did you mean 'last_message'"),
        ([agent("a")], {"handoff_tool_prefix": "x" * 80}, "tool that hands over to 'a' cannot be created"),
        (
            [agent("a")],
            {"tools": [create_handoff_tool(agent_name="aa")]},
            "'aa', which is not one of the agents.*Did you mean 'a'",
        ),
    ],
)
def test_invalid_definitions_are_refused(agents: Any, options: Any, message: str) -> None:
    with pytest.raises(InvalidConfig, match=message):
        create_supervisor(agents, model=ScriptedModel([]), **options)


def test_a_custom_handoff_tool_replaces_the_default_one() -> None:
    own = create_handoff_tool(agent_name="a", name="ask_a", description="Ask a.")
    model = ScriptedModel([ToolCall("1", "ask_a"), "done"])
    app = create_supervisor([agent("a", "ok"), agent("b")], model=model, tools=[own], handoff_tool_prefix="give_to")

    assert texts(app.invoke(HI))[-1] == "done"
    assert [spec.name for spec in model.requests[0].tools] == ["ask_a", "give_to_b"]


def test_supervisor_options_reach_the_model() -> None:
    model = ScriptedModel(["done"])
    options = {"settings": {"temperature": 0.5}}
    create_supervisor([agent("a")], model=model, prompt="Lead.", supervisor_options=options).invoke(HI)

    assert (model.requests[0].temperature, model.requests[0].system) == (0.5, "Lead.")
