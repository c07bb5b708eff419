"""Every shape of agents, sent to providers that refuse what the real ones refuse.

Agents, networks, prebuilt groups, memory strategies, questions, edits, forks: each is run against all four endpoints.
Models are told apart by their names, so that each has a script of its own.
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
from tests.provider_server import Answer, Asked, Call, ProviderServer

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
"""How many random conversations are sent."""
Say = str | Answer | Callable[[Asked], "str | Answer"]


class Crew:
    """Models at one strict provider, each with a script; the last answer of a script serves all further requests."""

    def __init__(self, server: ProviderServer, provider: str) -> None:
        self.server = server
        self.provider = provider
        self._scripts: dict[str, list[Say]] = {}
        self._lock = threading.Lock()

    def model(self, name: str, *script: Say) -> ChatModel:
        self._scripts[f"model-{name}"] = list(script or (f"{name} speaks",))
        prefix = NAMES[self.provider].partition(":")[0]
        url = self.server.openai_url if self.provider.startswith("openai") else self.server.url
        return connect_model(f"{prefix}:model-{name}", base_url=url, api_key="k")

    def answer(self, asked: Asked) -> Answer:
        name = asked.body.get("model") or asked.path.rpartition("models/")[2].partition(":")[0]
        with self._lock:
            script = self._scripts[name]
            said = script.pop(0) if len(script) > 1 else script[0]
        answer = said(asked) if callable(said) else said
        return Answer(answer) if isinstance(answer, str) else answer

    def sent(self, number: int = -1) -> str:
        """The body of a request, as text."""
        return json.dumps(self.server.requests[number].body, ensure_ascii=False)


@pytest.fixture(params=NAMES)
def crew(request: pytest.FixtureRequest) -> Iterator[Crew]:
    with ProviderServer(strict=True) as server:
        made = Crew(server, request.param)
        server.script([made.answer] * 200)
        yield made


def calls(*names: str, **arguments: Any) -> Answer:
    """Tool calls with the ids that the server gives to all answers alike, as some do."""
    return Answer(calls=[Call(name, arguments) for name in names])


@tool
def save(text: str = "") -> str:
    """Save a text."""
    return f"saved {text}"


class Verdict(BaseModel):
    good: bool


VERDICT = json.dumps({"good": True})


def is_after_tools(asked: Asked) -> bool:
    return any(
        word in json.dumps(asked.body) for word in ('"tool_result"', '"role": "tool"', "_output", "functionResp")
    )


# -- networks


def order(*agents: Agent) -> Callable[[int], Agent | None]:
    return lambda call_count: [*agents, None][call_count]


def test_agents_that_follow_each_other(crew: Crew) -> None:
    writer = Agent("Writer", model=crew.model("writer", "a draft"))
    critic = Agent("Critic", system="Criticise.", model=crew.model("critic", "too long"))
    run = Network("pair", agents=[writer, critic], router=order(writer, critic, writer)).run("Write.")
    assert [result.text for result in run.results] == ["a draft", "too long", "a draft"]
    assert "[Critic] too long" in crew.sent()
    assert "[Writer]" not in crew.sent()
    assert "[Writer] a draft" in crew.sent(1)


def test_agents_that_call_tools_follow_each_other(crew: Crew) -> None:
    pair = [Agent(name, tools=[save], model=crew.model(name, calls("save", "save", text="x"))) for name in ("P", "Q")]
    run = Network("pair", agents=pair, router=order(*pair)).run("Go.")
    assert [len(result.tool_results) for result in run.results] == [2, 2]


def test_tools_and_then_another_agent(crew: Crew) -> None:
    first = Agent("P", tools=[save], model=crew.model("p", calls("save"), "done"), max_iter=1)
    second = Agent("Q", model=crew.model("q"))
    assert Network("pair", agents=[first, second], router=order(first, second)).run("Go.").stop_reason == "completed"


def test_a_loop_of_tools(crew: Crew) -> None:
    script = [calls("save"), calls("save", "nonsense"), calls("save"), "done"]
    agent = Agent("P", tools=[save], model=crew.model("p", *script), max_iter=9)
    result = agent.run("Go.")
    assert (result.text, len(result.tool_results)) == ("done", 4)
    assert len({call.id for message in result.messages for call in message.tool_calls}) == 4


def test_a_model_that_routes(crew: Crew) -> None:
    router = crew.model("router", calls("select_agent", name="nobody"), calls("select_agent", name="A"), calls("done"))
    network = Network("n", agents=[Agent("A", model=crew.model("a"))], default_model=router)
    assert network.run("Go.").stop_reason == "done"


def test_a_routing_agent(crew: Crew) -> None:
    router = RoutingAgent(
        "R", model=crew.model("r", "A", "nobody"), on_route=lambda result: "A" if result.text == "A" else None
    )
    run = Network("n", agents=[Agent("A", model=crew.model("a"))], router=router).run("Go.")
    assert [result.agent_name for result in run.results] == ["A"]


def test_turns_of_a_thread(crew: Crew) -> None:
    saver = InMemorySaver()
    agent = Agent("A", tools=[save], model=crew.model("a", calls("save"), "one", "two"), max_iter=3)
    network = agent.alone()
    for text in ("Go.", "Again."):
        run = network.run(text, checkpointer=saver, thread_id="t")
    assert run.last_result is not None
    assert run.last_result.text == "two"


def test_a_conversation_from_elsewhere(crew: Crew) -> None:
    greeting = AgentResult.from_json(
        {"agentName": "A", "messages": [{"role": "assistant", "content": "Welcome!"}], "createdAt": "2026-01-01T00:00"}
    )
    agent = Agent("A", model=crew.model("a"), history=ThreadHistory(get=lambda thread_id: [greeting]))
    assert agent.run("Hi.", thread_id="t").text == "a speaks"


def test_a_state_that_begins_with_the_assistant(crew: Crew) -> None:
    agent = Agent("A", model=crew.model("a"))
    state = State({}, messages=[Message("Welcome!", role="assistant")])
    assert agent.alone().run("", state=state).results[-1].text == "a speaks"


def test_no_words_at_all(crew: Crew) -> None:
    assert Agent("A", system="Speak.", model=crew.model("a")).run("").text == "a speaks"


# -- prebuilt


def test_an_answer_in_a_form(crew: Crew) -> None:
    app = create_agent(crew.model("m", "It is good.", "well", VERDICT), response_format=Verdict)
    assert app.invoke({"messages": ["x"]})["structured_response"] == Verdict(good=True)


def test_an_answer_in_a_form_after_tools(crew: Crew) -> None:
    model = crew.model("m", calls("save"), "It is good.", VERDICT)
    app = create_agent(model, [save], response_format=Verdict)
    assert app.invoke({"messages": ["x"]})["structured_response"] == Verdict(good=True)


@pytest.mark.parametrize("shows_handoffs", [True, False])
def test_a_supervisor(crew: Crew, shows_handoffs: bool) -> None:
    members = [create_agent(crew.model(name), name=name) for name in ("ann", "bob")]
    boss = crew.model("boss", calls("transfer_to_ann"), calls("transfer_to_bob"), "done")
    app = create_supervisor(members, model=boss, add_handoff_messages=shows_handoffs)
    assert app.invoke({"messages": ["x"]})["messages"][-1].text == "done"


def test_a_supervisor_that_sends_to_several_at_once(crew: Crew) -> None:
    members = [create_agent(crew.model(name), name=name) for name in ("ann", "bob")]
    boss = crew.model("boss", calls("transfer_to_ann", "transfer_to_bob"), "done")
    app = create_supervisor(members, model=boss, output_mode="full_history")
    assert app.invoke({"messages": ["x"]})["messages"][-1].text == "done"


def test_a_supervisor_with_a_form(crew: Crew) -> None:
    members = [create_agent(crew.model("ann"), name="ann")]
    boss = crew.model("boss", calls("transfer_to_ann"), "done", VERDICT)
    app = create_supervisor(members, model=boss, response_format=Verdict)
    assert app.invoke({"messages": ["x"]})["structured_response"] == Verdict(good=True)


def test_a_swarm(crew: Crew) -> None:
    ann = create_agent(crew.model("ann", calls("transfer_to_bob")), [create_handoff_tool(agent_name="bob")], name="ann")
    bob = create_agent(
        crew.model("bob", "I am bob", calls("transfer_to_ann")), [create_handoff_tool(agent_name="ann")], name="bob"
    )
    app = create_swarm([ann, bob], default_active_agent="ann", checkpointer=InMemorySaver())
    for text in ("x", "y"):
        said = app.invoke({"messages": [text]}, thread_id="t")["messages"][-1].text
        assert said == "I am bob"
        bob_again = [message for message in app.get_state(thread_id="t").values["messages"] if message.role == "user"]
        assert bob_again[-1].text == text
        if text == "x":
            crew.model("bob", "I am bob")


def test_a_planner(crew: Crew) -> None:
    plan, end = json.dumps({"steps": [{"id": "1", "task": "t"}]}), json.dumps({"response": "r"})
    planner = crew.model("planner", plan, end)
    worker = create_agent(crew.model("worker", calls("save"), "worked"), [save], name="worker")
    assert create_planner(planner, executor=worker).invoke({"input": "x"})["response"] == "r"


def test_a_reflection(crew: Crew) -> None:
    critic = crew.model("critic", json.dumps({"satisfied": False, "critique": "longer"}))
    app = create_reflection(crew.model("writer"), critic_model=critic, max_iterations=3)
    assert app.invoke({"messages": ["x"]})["messages"][-1].text == "writer speaks"


def test_an_agent_after_an_agent(crew: Crew) -> None:
    first = create_agent(crew.model("first"), name="first")
    second = create_agent(crew.model("second"), name="second")
    said = second.invoke({"messages": first.invoke({"messages": ["x"]})["messages"]})["messages"]
    assert [message.text for message in said] == ["x", "first speaks", "second speaks"]


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
def test_long_conversations(crew: Crew, memory: Callable[[Any], Any]) -> None:
    strategy = memory(crew.model("summary", "what was said"))
    script = [one for turn in range(5) for one in (calls("save", "save"), calls("save"), f"answer {turn}")]
    app = create_agent(
        crew.model("m", *script), [save], memory=strategy, prompt="Be kind.", checkpointer=InMemorySaver()
    )
    for turn in range(5):
        values = app.invoke({"messages": [f"question {turn}"]}, thread_id="t")
        assert values["messages"][-1].text == f"answer {turn}"


@pytest.mark.parametrize("drops", ["call", "result", "user", "answer", "all but one"])
def test_messages_that_were_removed(crew: Crew, drops: str) -> None:
    script = [calls("save", "save"), "one", "two"]
    app = create_agent(crew.model("m", *script), [save], checkpointer=InMemorySaver())
    messages = app.invoke({"messages": ["x"]}, thread_id="t")["messages"]
    user, call, result, _, answer = messages
    gone = {"call": [call], "result": [result], "user": [user], "answer": [answer], "all but one": messages[:2]}[drops]
    app.update_state({"thread_id": "t"}, {"messages": [RemoveMessage(message.id) for message in gone]})
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
    "a result of nobody's call": [Message("?", role="tool", name="pay", tool_call_id="x")],
    "another call": [Message("", role="assistant", tool_calls=(ToolCall("own", "pay", {}),))],
    "half a character": [Message("\ud83d")],
    "nothing but blanks": [Message(" ")],
}


@pytest.mark.parametrize("edit", EDITS)
@pytest.mark.parametrize("answer", [True, "no"])
def test_edits_while_a_question_is_open(crew: Crew, edit: str, answer: Any) -> None:
    app = create_agent(crew.model("m", calls("pay", "save"), "done", "next"), [pay, save], checkpointer=InMemorySaver())
    app.invoke({"messages": ["go"]}, thread_id="t")
    if EDITS[edit]:
        app.update_state({"thread_id": "t"}, {"messages": EDITS[edit]})
    app.invoke(Command(resume=answer), thread_id="t")
    assert app.invoke({"messages": ["next"]}, thread_id="t")["messages"][-1].text == "next"


def test_a_question_that_is_never_answered(crew: Crew) -> None:
    app = create_agent(crew.model("m", calls("pay"), "next"), [pay], checkpointer=InMemorySaver())
    app.invoke({"messages": ["go"]}, thread_id="t")
    values = app.invoke({"messages": ["something else"]}, thread_id="t", on_unfinished="discard")
    assert values["messages"][-1].text == "next"


def test_a_fork_of_every_checkpoint(crew: Crew) -> None:
    script = [calls("save", "save"), "one", calls("save"), "two", "again"]
    app = create_agent(crew.model("m", *script), [save], checkpointer=InMemorySaver())
    for text in ("x", "y"):
        app.invoke({"messages": [text]}, thread_id="t")
    for number, past in enumerate(list(app.get_state_history(thread_id="t"))):
        forked = app.fork(past.config, branch=f"b{number}")
        end = app.invoke({"messages": ["and?"]}, forked, on_unfinished="discard")
        assert end["messages"][-1].text == "again"


def test_a_tool_that_shows_an_image(crew: Crew) -> None:
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


# -- what answers say


@pytest.mark.parametrize(("finish", "reason"), [("length", "length"), ("refused", "refused")])
def test_an_answer_that_was_cut_off_or_refused_says_so(crew: Crew, finish: str, reason: str) -> None:
    words = {
        "openai-chat": {"length": "length", "refused": "content_filter"},
        "openai": {"length": "max_output_tokens", "refused": "content_filter"},
        "anthropic": {"length": "max_tokens", "refused": "refusal"},
        "google": {"length": "MAX_TOKENS", "refused": "SAFETY"},
    }
    answer = replace(Answer("The dose is 5"), finish=words[crew.provider][finish])
    run = Agent("A", model=crew.model("a", answer)).alone().run("Hi.")
    assert run.last_result is not None
    assert (run.last_result.finish_reason, run.last_result.stop_reason, run.stop_reason) == (reason, reason, reason)
    message = create_agent(crew.model("a", answer)).invoke({"messages": ["x"]})["messages"][-1]
    assert message.finish_reason == reason


def test_any_conversation_is_taken_once_it_is_prepared(crew: Crew) -> None:
    draw = random.Random(f"conversations {crew.provider}")
    model = crew.model("any", "ok")
    for _ in range(COUNT):
        messages = random_conversation(draw)
        answer = asyncio.run(model.complete(prepare_request(ModelRequest(messages, system="Be kind."))))
        assert answer.text == "ok", messages
