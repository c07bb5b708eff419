"""User-supplied storage of conversations: the table of section 1.7, and its failures."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any
from uuid import UUID

import pytest

from statewright import InMemorySaver
from statewright.agents import Agent, AgentResult, Network, State, ThreadHistory
from statewright.errors import InvalidConfig, ModelError
from statewright.messages import Message
from statewright.models import ScriptedModel

OLD = AgentResult(
    agent_name="a", messages=[Message("as I said", role="assistant")], created_at=datetime(2026, 1, 1, tzinfo=UTC)
)


class Log:
    """The functions of a history, which write down how they are called."""

    def __init__(self, made: Any = "made", found: Any = ()) -> None:
        self.calls: list[Any] = []
        self._made, self._found = made, found

    def create(self, thread_id: Any) -> Any:
        self.calls.append(("create", thread_id))
        return self._made

    async def get(self, thread_id: Any) -> Any:
        self.calls.append(("get", thread_id))
        return self._found

    def user(self, thread_id: Any, user_message: Message) -> None:
        self.calls.append(("user", thread_id, user_message.text))

    async def results(self, thread_id: Any, new_results: Any) -> object:
        self.calls.append(("results", thread_id, [one.text for one in new_results]))
        return object()

    def history(self, *, create: bool = True, get: bool = True) -> ThreadHistory:
        return ThreadHistory(
            create_thread=self.create if create else None,
            get=self.get if get else None,
            append_user_message=self.user,
            append_results=self.results,
        )


def network(history: ThreadHistory, *script: Any, **options: Any) -> Network[Any]:
    agent = Agent("a", model=ScriptedModel(list(script) or ["x"], repeat_last=True), retries=0)
    return Network(
        "n", agents=[agent], router=lambda call_count: None if call_count else agent, history=history, **options
    )


# -- the table


@pytest.mark.parametrize("get", [True, False])
def test_given_and_create_makes_sure_that_it_is_there(get: bool) -> None:
    log = Log(made="other")
    ended = network(log.history(get=get)).run("hi", state=State(thread_id="t"))
    looked = [("get", "t")] if get else []
    assert log.calls == [("create", "t"), *looked, ("user", "t", "hi"), ("results", "t", ["x"])]
    assert ended.state.thread_id == "t"


@pytest.mark.parametrize("get", [True, False])
def test_given_without_create_is_used_as_it_is(get: bool) -> None:
    log = Log()
    ended = network(log.history(create=False, get=get)).run("hi", state=State(thread_id="t"))
    looked = [("get", "t")] if get else []
    assert log.calls == [*looked, ("user", "t", "hi"), ("results", "t", ["x"])]
    assert ended.state.thread_id == "t"


@pytest.mark.parametrize("get", [True, False])
@pytest.mark.parametrize(
    ("made", "thread"), [("new", "new"), ({"threadId": "new"}, "new"), ({"thread_id": "new"}, "new"), (7, "7")]
)
def test_not_given_create_makes_one_and_nothing_is_looked_for(get: bool, made: Any, thread: str) -> None:
    log = Log(made=made)
    ended = network(log.history(get=get)).run("hi")
    assert log.calls == [("create", None), ("user", thread, "hi"), ("results", thread, ["x"])]
    assert ended.state.thread_id == thread


def test_not_given_without_create_is_a_random_one() -> None:
    log = Log()
    ended = network(log.history(create=False)).run("hi")
    made = ended.state.thread_id
    assert UUID(str(made)).version == 4
    assert log.calls == [("user", made, "hi"), ("results", made, ["x"])]


def test_the_thread_of_the_checkpointer_is_a_given_one() -> None:
    log = Log()
    network(log.history()).run("hi", checkpointer=InMemorySaver(), thread_id="T")
    assert log.calls[:2] == [("create", "T"), ("get", "T")]


def test_the_thread_of_the_networks_state_is_a_given_one() -> None:
    log = Log()
    ended = network(log.history(create=False), state=State({}, thread_id="D")).run("hi")
    assert log.calls[0] == ("get", "D")
    assert ended.state.thread_id == "D"


def test_a_networks_state_keeps_its_thread_without_a_history() -> None:
    agent = Agent("a", model=ScriptedModel(["x"]))
    alone = agent.alone(state=State({}, thread_id="D"))
    assert alone.run("hi").state.thread_id == "D"


# -- what was said before


@pytest.mark.parametrize("found", [OLD, OLD.to_json()])
def test_what_was_found_is_what_the_model_sees(found: Any) -> None:
    log = Log(found=[found])
    agents = network(log.history())
    ended = agents.run("and?", state=State(thread_id="t"))
    (asked,) = agents.agents["a"].model.requests
    assert [one.text for one in asked.messages] == ["as I said", "and?"]
    assert log.calls[-1] == ("results", "t", ["x"])
    assert [one.text for one in ended.results] == ["as I said", "x"]


@pytest.mark.parametrize("given", [{"messages": ["earlier"]}, {"results": [OLD]}])
def test_nothing_is_looked_for_where_a_client_says_what_was_said(given: Any) -> None:
    log = Log(found=[OLD, OLD])
    network(log.history()).run("and?", state=State(thread_id="t", **given))
    assert ("get", "t") not in log.calls


def test_nothing_is_looked_for_in_the_second_turn_of_a_saved_thread() -> None:
    log, saver = Log(found=[OLD]), InMemorySaver()
    agents = network(log.history())
    for turn in ("one", "two"):
        agents.run(turn, checkpointer=saver, thread_id="T")
    assert log.calls.count(("get", "T")) == 1
    assert [one for one in log.calls if one[0] == "results"] == [("results", "T", ["x"]), ("results", "T", ["x"])]
    asked = agents.agents["a"].model.requests[1]
    assert [one.text for one in asked.messages] == ["as I said", "one", "x", "two"]


@pytest.mark.parametrize("found", ["text", 5, [3], [None], [{"agentName": "a"}], {"agentName": "a"}, [["a"]]])
def test_what_are_no_results_is_refused_with_a_word_on_it(found: Any) -> None:
    with pytest.raises(InvalidConfig, match="get"):
        network(Log(found=found).history()).run("hi", state=State(thread_id="t"))


@pytest.mark.parametrize("found", [None, (), []])
def test_nothing_may_have_been_said(found: Any) -> None:
    assert network(Log(found=found).history()).run("hi", state=State(thread_id="t")).call_count == 1


# -- when it is called


def test_results_are_kept_at_the_end_only() -> None:
    log = Log()
    with pytest.raises(ModelError, match="no"):
        network(log.history(), ModelError("no")).run("hi", state=State(thread_id="t"))
    assert [one[0] for one in log.calls] == ["create", "get", "user"]


def test_a_run_that_goes_on_keeps_everything_once() -> None:
    log, saver = Log(), InMemorySaver()
    agents = network(log.history(), ModelError("no"), "yes")
    with pytest.raises(ModelError):
        agents.run("hi", checkpointer=saver, thread_id="T")
    agents.run(None, checkpointer=saver, thread_id="T")
    assert [one[0] for one in log.calls] == ["create", "get", "user", "results"]
    assert log.calls[-1] == ("results", "T", ["yes"])


@pytest.mark.parametrize("fails", ["create_thread", "get", "append_user_message", "append_results"])
def test_what_a_function_raises_is_raised_and_the_run_can_go_on(fails: str) -> None:
    failures = iter([ConnectionError("the database"), None])

    def function() -> Any:
        error = next(failures)
        if error is not None:
            raise error

    saver = InMemorySaver()
    agents = network(ThreadHistory(**{fails: function}))
    with pytest.raises(ConnectionError, match="the database"):
        agents.run("hi", checkpointer=saver, thread_id="T")
    ended = agents.run(None, checkpointer=saver, thread_id="T")
    assert ended.results[-1].text == "x"
    assert len(agents.agents["a"].model.requests) == 1


def test_functions_see_the_state() -> None:
    seen: list[Any] = []
    history = ThreadHistory(
        create_thread=lambda state, input: seen.append((state.data.user, input)) or "t",  # noqa: A006
        append_results=lambda state, network: seen.append((state.data.user, state.thread_id, network.name)),
    )
    network(history).run("hi", state={"user": "eve"})
    assert seen == [("eve", "hi"), ("eve", "t", "n")]


def test_an_agent_alone_has_its_history_too() -> None:
    log = Log()
    Agent("a", model=ScriptedModel(["x"]), history=log.history()).run("hi", state=State(thread_id="t"))
    assert [one[0] for one in log.calls] == ["create", "get", "user", "results"]


def test_in_a_network_the_history_of_an_agent_is_not_used() -> None:
    log = Log()
    agent = Agent("a", model=ScriptedModel(["x"]), history=log.history())
    Network("n", agents=[agent], router=lambda call_count: None if call_count else agent).run("hi")
    assert log.calls == []
