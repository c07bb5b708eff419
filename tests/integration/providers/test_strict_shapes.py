"""Every shape of agents, with providers that reject what the real ones reject.

Agents, networks, prebuilt groups, memory strategies, questions, edits, forks: each is run against all four endpoints.
The name of a model selects its script.
"""

from __future__ import annotations

import asyncio
import json
import os
import random
import threading
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import Any

import pytest
from pydantic import BaseModel
from tests.conversations import random_conversation
from tests.integration.providers.conftest import NAMES
from tests.provider_server import Answer, Call, ProviderServer, Request

from statewright import Command, InMemorySaver, RemoveMessage
from statewright.agents import (
    Agent,
    AgentResult,
    Network,
    RoutingAgent,
    State,
    ThreadHistory,
    create_agent,
    create_handoff_tool,
    create_planner,
    create_reflection,
    create_supervisor,
    create_swarm,
    tool,
)
from statewright.agents.memory import Buffer, KeepAll, SlidingWindow, Summarizing
from statewright.messages import Message, ToolCall
from statewright.models import ChatModel, ModelRequest, prepare_request
from statewright.models.providers import connect_model

COUNT = 190 if os.environ.get("STATEWRIGHT_FULL") else 20
"""The number of random conversations."""
Scripted = str | Answer | Callable[[Request], "str | Answer"]


class Crew:
    """Models of one strict provider, each with a script whose last answer is repeated."""

    def __init__(self, server: ProviderServer, provider: str) -> None:
        self.server = server
        self.provider = provider
        self._scripts: dict[str, list[Scripted]] = {}
        self._lock = threading.Lock()

    def model(self, name: str, *script: Scripted) -> ChatModel:
        self._scripts[f"model-{name}"] = list(script or (f"{name} speaks",))
        prefix = NAMES[self.provider].partition(":")[0]
        url = self.server.openai_url if self.provider.startswith("openai") else self.server.url
        return connect_model(f"{prefix}:model-{name}", base_url=url, api_key="k")

    def answer(self, request: Request) -> Answer:
        name = request.body.get("model") or request.path.rpartition("models/")[2].partition(":")[0]
        with self._lock:
            script = self._scripts[name]
            scripted = script.pop(0) if len(script) > 1 else script[0]
        answer = scripted(request) if callable(scripted) else scripted
        return Answer(answer) if isinstance(answer, str) else answer

    def sent(self, number: int = -1) -> str:
        """Return the body of a request as text."""
        return json.dumps(self.server.requests[number].body, ensure_ascii=False)


@pytest.fixture(params=NAMES)
def crew(request: pytest.FixtureRequest) -> Iterator[Crew]:
    with ProviderServer(strict=True) as server:
        models = Crew(server, request.param)
        server.script([models.answer] * 200)
        yield models


def calls(*names: str, **arguments: Any) -> Answer:
    """Create tool calls; the server uses the same ids in every answer, as some providers do."""
    return Answer(calls=[Call(name, arguments) for name in names])


@tool
def save(text: str = "") -> str:
    """Save a text."""
    return f"saved {text}"


class Verdict(BaseModel):
    good: bool


VERDICT = json.dumps({"good": True})


def is_after_tools(request: Request) -> bool:
    return any(
        word in json.dumps(request.body) for word in ('"tool_result"', '"role": "tool"', "_output", "functionResp")
    )


# -- networks


def in_order(*agents: Agent) -> Callable[[int], Agent | None]:
    return lambda call_count: [*agents, None][call_count]


def test_agents_run_one_after_another(crew: Crew) -> None:
    writer = Agent("Writer", model=crew.model("writer", "a draft"))
    critic = Agent("Critic", system="Criticise.", model=crew.model("critic", "too long"))
    run = Network("pair", agents=[writer, critic], router=in_order(writer, critic, writer)).run("Write.")
    assert [result.text for result in run.results] == ["a draft", "too long", "a draft"]
    assert "[Critic] too long" in crew.sent()
    assert "[Writer]" not in crew.sent()
    assert "[Writer] a draft" in crew.sent(1)


def test_agents_with_tools_run_one_after_another(crew: Crew) -> None:
    pair = [Agent(name, tools=[save], model=crew.model(name, calls("save", "save", text="x"))) for name in ("P", "Q")]
    run = Network("pair", agents=pair, router=in_order(*pair)).run("Go.")
    assert [len(result.tool_results) for result in run.results] == [2, 2]


def test_an_agent_runs_after_one_that_ended_with_tool_calls(crew: Crew) -> None:
    first = Agent("P", tools=[save], model=crew.model("p", calls("save"), "done"), max_iter=1)
    second = Agent("Q", model=crew.model("q"))
    assert Network("pair", agents=[first, second], router=in_order(first, second)).run("Go.").stop_reason == "completed"


def test_an_agent_calls_tools_in_a_loop(crew: Crew) -> None:
    script = [calls("save"), calls("save", "nonsense"), calls("save"), "done"]
    agent = Agent("P", tools=[save], model=crew.model("p", *script), max_iter=9)
    result = agent.run("Go.")
    assert (result.text, len(result.tool_results)) == ("done", 4)
    assert len({call.id for message in result.messages for call in message.tool_calls}) == 4


def test_a_model_routes_between_agents(crew: Crew) -> None:
    router = crew.model("router", calls("select_agent", name="nobody"), calls("select_agent", name="A"), calls("done"))
    network = Network("n", agents=[Agent("A", model=crew.model("a"))], default_model=router)
    assert network.run("Go.").stop_reason == "done"


def test_a_routing_agent_selects_agents(crew: Crew) -> None:
    router = RoutingAgent(
        "R", model=crew.model("r", "A", "nobody"), on_route=lambda result: "A" if result.text == "A" else None
    )
    run = Network("n", agents=[Agent("A", model=crew.model("a"))], router=router).run("Go.")
    assert [result.agent_name for result in run.results] == ["A"]


def test_a_thread_has_several_turns(crew: Crew) -> None:
    saver = InMemorySaver()
    agent = Agent("A", tools=[save], model=crew.model("a", calls("save"), "one", "two"), max_iter=3)
    network = agent.alone()
    for text in ("Go.", "Again."):
        run = network.run(text, checkpointer=saver, thread_id="t")
    assert run.last_result is not None
    assert run.last_result.text == "two"


def test_a_stored_history_can_begin_with_the_assistant(crew: Crew) -> None:
    greeting = AgentResult.from_json(
        {"agentName": "A", "messages": [{"role": "assistant", "content": "Welcome!"}], "createdAt": "2026-01-01T00:00"}
    )
    agent = Agent("A", model=crew.model("a"), history=ThreadHistory(get=lambda thread_id: [greeting]))
    assert agent.run("Hi.", thread_id="t").text == "a speaks"


def test_a_state_can_begin_with_the_assistant(crew: Crew) -> None:
    agent = Agent("A", model=crew.model("a"))
    state = State({}, messages=[Message("Welcome!", role="assistant")])
    assert agent.alone().run("", state=state).results[-1].text == "a speaks"


def test_an_empty_input_gets_an_answer(crew: Crew) -> None:
    assert Agent("A", system="Speak.", model=crew.model("a")).run("").text == "a speaks"


# -- prebuilt


def test_an_agent_returns_a_structured_response(crew: Crew) -> None:
    app = create_agent(crew.model("m", "It is good.", "well", VERDICT), response_format=Verdict)
    assert app.invoke({"messages": ["x"]})["structured_response"] == Verdict(good=True)


def test_an_agent_returns_a_structured_response_after_tool_calls(crew: Crew) -> None:
    model = crew.model("m", calls("save"), "It is good.", VERDICT)
    app = create_agent(model, [save], response_format=Verdict)
    assert app.invoke({"messages": ["x"]})["structured_response"] == Verdict(good=True)


@pytest.mark.parametrize("add_handoff_messages", [True, False])
def test_a_supervisor_delegates_to_its_members(crew: Crew, add_handoff_messages: bool) -> None:
    members = [create_agent(crew.model(name), name=name) for name in ("ann", "bob")]
    boss = crew.model("boss", calls("transfer_to_ann"), calls("transfer_to_bob"), "done")
    app = create_supervisor(members, model=boss, add_handoff_messages=add_handoff_messages)
    assert app.invoke({"messages": ["x"]})["messages"][-1].text == "done"


def test_a_supervisor_delegates_to_several_members_at_once(crew: Crew) -> None:
    members = [create_agent(crew.model(name), name=name) for name in ("ann", "bob")]
    boss = crew.model("boss", calls("transfer_to_ann", "transfer_to_bob"), "done")
    app = create_supervisor(members, model=boss, output_mode="full_history")
    assert app.invoke({"messages": ["x"]})["messages"][-1].text == "done"


def test_a_supervisor_returns_a_structured_response(crew: Crew) -> None:
    members = [create_agent(crew.model("ann"), name="ann")]
    boss = crew.model("boss", calls("transfer_to_ann"), "done", VERDICT)
    app = create_supervisor(members, model=boss, response_format=Verdict)
    assert app.invoke({"messages": ["x"]})["structured_response"] == Verdict(good=True)


def test_agents_of_a_swarm_hand_over_to_each_other(crew: Crew) -> None:
    ann = create_agent(crew.model("ann", calls("transfer_to_bob")), [create_handoff_tool(agent_name="bob")], name="ann")
    bob = create_agent(
        crew.model("bob", "I am bob", calls("transfer_to_ann")), [create_handoff_tool(agent_name="ann")], name="bob"
    )
    app = create_swarm([ann, bob], default_active_agent="ann", checkpointer=InMemorySaver())
    for text in ("x", "y"):
        answer = app.invoke({"messages": [text]}, thread_id="t")["messages"][-1].text
        assert answer == "I am bob"
        questions = [message for message in app.get_state(thread_id="t").values["messages"] if message.role == "user"]
        assert questions[-1].text == text
        if text == "x":
            crew.model("bob", "I am bob")


def test_a_planner_executes_its_plan(crew: Crew) -> None:
    plan, end = json.dumps({"steps": [{"id": "1", "task": "t"}]}), json.dumps({"response": "r"})
    planner = crew.model("planner", plan, end)
    worker = create_agent(crew.model("worker", calls("save"), "worked"), [save], name="worker")
    assert create_planner(planner, executor=worker).invoke({"input": "x"})["response"] == "r"


def test_a_reflection_revises_up_to_its_limit(crew: Crew) -> None:
    critic = crew.model("critic", json.dumps({"satisfied": False, "critique": "longer"}))
    app = create_reflection(crew.model("writer"), critic_model=critic, max_iterations=3)
    assert app.invoke({"messages": ["x"]})["messages"][-1].text == "writer speaks"


def test_an_agent_continues_the_messages_of_another(crew: Crew) -> None:
    first = create_agent(crew.model("first"), name="first")
    second = create_agent(crew.model("second"), name="second")
    messages = second.invoke({"messages": first.invoke({"messages": ["x"]})["messages"]})["messages"]
    assert [message.text for message in messages] == ["x", "first speaks", "second speaks"]


# -- memory


@pytest.mark.parametrize(
    "memory",
    [
        lambda model: None,
        lambda model: KeepAll(),
        lambda model: SlidingWindow(1),
        lambda model: SlidingWindow(4),
        lambda model: Buffer(3),
        lambda model: Buffer(4, summarize=model),
        lambda model: Summarizing(model, keep=1, after=3),
    ],
    ids=["none", "all", "window-1", "window-4", "buffer", "buffer-summary", "summary"],
)
def test_long_conversations_work_with_every_memory_strategy(crew: Crew, memory: Callable[[Any], Any]) -> None:
    strategy = memory(crew.model("summary", "a summary"))
    script = [answer for turn in range(5) for answer in (calls("save", "save"), calls("save"), f"answer {turn}")]
    app = create_agent(
        crew.model("m", *script), [save], memory=strategy, prompt="Be kind.", checkpointer=InMemorySaver()
    )
    for turn in range(5):
        values = app.invoke({"messages": [f"question {turn}"]}, thread_id="t")
        assert values["messages"][-1].text == f"answer {turn}"


@pytest.mark.parametrize("removed", ["call", "result", "user", "answer", "all but one"])
def test_a_conversation_continues_after_messages_were_removed(crew: Crew, removed: str) -> None:
    script = [calls("save", "save"), "one", "two"]
    app = create_agent(crew.model("m", *script), [save], checkpointer=InMemorySaver())
    messages = app.invoke({"messages": ["x"]}, thread_id="t")["messages"]
    user, call, result, _, answer = messages
    to_remove = {"call": [call], "result": [result], "user": [user], "answer": [answer], "all but one": messages[:2]}[
        removed
    ]
    app.update_state({"thread_id": "t"}, {"messages": [RemoveMessage(message.id) for message in to_remove]})
    assert app.invoke({"messages": ["y"]}, thread_id="t")["messages"][-1].text == "two"


# -- questions, edits, forks


@tool(approve=True)
def pay(text: str = "") -> str:
    """Pay."""
    return "paid"


EDITS: dict[str, Sequence[Any]] = {
    "nothing": [],
    "a message of the user": [Message("By the way: hurry.")],
    "an answer": [Message("I am at it.", role="assistant")],
    "a result": [Message("done by hand", role="tool", name="pay", tool_call_id="call_1")],
    "a result without a call": [Message("?", role="tool", name="pay", tool_call_id="x")],
    "another call": [Message("", role="assistant", tool_calls=(ToolCall("own", "pay", {}),))],
    "a lone surrogate": [Message("\ud83d")],
    "only blanks": [Message(" ")],
}


@pytest.mark.parametrize("edit", EDITS)
@pytest.mark.parametrize("answer", [True, "no"])
def test_a_conversation_continues_after_edits_while_a_question_is_open(crew: Crew, edit: str, answer: Any) -> None:
    app = create_agent(crew.model("m", calls("pay", "save"), "done", "next"), [pay, save], checkpointer=InMemorySaver())
    app.invoke({"messages": ["go"]}, thread_id="t")
    if EDITS[edit]:
        app.update_state({"thread_id": "t"}, {"messages": EDITS[edit]})
    app.invoke(Command(resume=answer), thread_id="t")
    assert app.invoke({"messages": ["next"]}, thread_id="t")["messages"][-1].text == "next"


def test_an_unanswered_question_can_be_discarded(crew: Crew) -> None:
    app = create_agent(crew.model("m", calls("pay"), "next"), [pay], checkpointer=InMemorySaver())
    app.invoke({"messages": ["go"]}, thread_id="t")
    values = app.invoke({"messages": ["something else"]}, thread_id="t", on_unfinished="discard")
    assert values["messages"][-1].text == "next"


def test_a_fork_of_every_checkpoint_continues(crew: Crew) -> None:
    script = [calls("save", "save"), "one", calls("save"), "two", "again"]
    app = create_agent(crew.model("m", *script), [save], checkpointer=InMemorySaver())
    for text in ("x", "y"):
        app.invoke({"messages": [text]}, thread_id="t")
    for number, past in enumerate(list(app.get_state_history(thread_id="t"))):
        forked = app.fork(past.config, branch=f"b{number}")
        end = app.invoke({"messages": ["and?"]}, forked, on_unfinished="discard")
        assert end["messages"][-1].text == "again"


def test_images_of_tools_are_sent_without_base64_in_text(crew: Crew) -> None:
    @tool
    def look() -> list[dict[str, Any]]:
        """Look."""
        pixel = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
        return [
            {"type": "text", "text": "a pixel"},
            {"type": "image", "data": pixel, "mime_type": "image/png"},
            {"type": "resource_link", "uri": "file:///x", "name": "x"},
        ]

    agent = Agent("A", tools=[look], model=crew.model("a", calls("look", "look"), "seen"), max_iter=3)
    assert agent.run("Look.").text == "seen"
    body = crew.server.requests[-1].body
    texts = [text for text in _texts(body) if "iVBORw0KGgo" in text]
    assert len(texts) == 2
    assert all(len(text) < 200 for text in texts), "base64 within other text"


def _texts(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict):
        for item in value.values():
            yield from _texts(item)
    elif isinstance(value, list):
        for item in value:
            yield from _texts(item)


# -- finish reasons


@pytest.mark.parametrize(("case", "reason"), [("length", "length"), ("refused", "refused")])
def test_a_truncated_or_refused_answer_has_its_finish_reason(crew: Crew, case: str, reason: str) -> None:
    finishes = {
        "openai-chat": {"length": "length", "refused": "content_filter"},
        "openai": {"length": "max_output_tokens", "refused": "content_filter"},
        "anthropic": {"length": "max_tokens", "refused": "refusal"},
        "google": {"length": "MAX_TOKENS", "refused": "SAFETY"},
    }
    answer = replace(Answer("The dose is 5"), finish=finishes[crew.provider][case])
    run = Agent("A", model=crew.model("a", answer)).alone().run("Hi.")
    assert run.last_result is not None
    assert (run.last_result.finish_reason, run.last_result.stop_reason, run.stop_reason) == (reason, reason, reason)
    message = create_agent(crew.model("a", answer)).invoke({"messages": ["x"]})["messages"][-1]
    assert message.finish_reason == reason


def test_every_prepared_conversation_is_accepted(crew: Crew) -> None:
    draw = random.Random(f"conversations {crew.provider}")
    model = crew.model("any", "ok")
    for _ in range(COUNT):
        messages = random_conversation(draw)
        answer = asyncio.run(model.complete(prepare_request(ModelRequest(messages, system="Be kind."))))
        assert answer.text == "ok", messages
