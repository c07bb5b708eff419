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


class RecordedHistory:
    """The functions of a history, which record their calls."""

    def __init__(self, created: Any = "made", loaded: Any = ()) -> None:
        self.calls: list[Any] = []
        self._created, self._loaded = created, loaded

    def create(self, thread_id: Any) -> Any:
        self.calls.append(("create", thread_id))
        return self._created

    async def get(self, thread_id: Any) -> Any:
        self.calls.append(("get", thread_id))
        return self._loaded

    def user(self, thread_id: Any, user_message: Message) -> None:
        self.calls.append(("user", thread_id, user_message.text))

    async def results(self, thread_id: Any, new_results: Any) -> object:
        self.calls.append(("results", thread_id, [new_result.text for new_result in new_results]))
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


# -- creating and loading threads


@pytest.mark.parametrize("get", [True, False])
def test_create_thread_is_called_with_a_given_thread_id(get: bool) -> None:
    log = RecordedHistory(created="other")
    ended = network(log.history(get=get)).run("hi", state=State(thread_id="t"))
    get_calls = [("get", "t")] if get else []
    assert log.calls == [("create", "t"), *get_calls, ("user", "t", "hi"), ("results", "t", ["x"])]
    assert ended.state.thread_id == "t"


@pytest.mark.parametrize("get", [True, False])
def test_a_given_thread_id_is_used_without_create_thread(get: bool) -> None:
    log = RecordedHistory()
    ended = network(log.history(create=False, get=get)).run("hi", state=State(thread_id="t"))
    get_calls = [("get", "t")] if get else []
    assert log.calls == [*get_calls, ("user", "t", "hi"), ("results", "t", ["x"])]
    assert ended.state.thread_id == "t"


@pytest.mark.parametrize("get", [True, False])
@pytest.mark.parametrize(
    ("created", "thread"), [("new", "new"), ({"threadId": "new"}, "new"), ({"thread_id": "new"}, "new"), (7, "7")]
)
def test_without_a_thread_id_create_thread_makes_one_and_get_is_not_called(
    get: bool, created: Any, thread: str
) -> None:
    log = RecordedHistory(created=created)
    ended = network(log.history(get=get)).run("hi")
    assert log.calls == [("create", None), ("user", thread, "hi"), ("results", thread, ["x"])]
    assert ended.state.thread_id == thread


def test_without_a_thread_id_and_create_thread_the_id_is_random() -> None:
    log = RecordedHistory()
    ended = network(log.history(create=False)).run("hi")
    created = ended.state.thread_id
    assert UUID(str(created)).version == 4
    assert log.calls == [("user", created, "hi"), ("results", created, ["x"])]


def test_the_thread_id_of_the_checkpointer_counts_as_given() -> None:
    log = RecordedHistory()
    network(log.history()).run("hi", checkpointer=InMemorySaver(), thread_id="T")
    assert log.calls[:2] == [("create", "T"), ("get", "T")]


def test_the_thread_id_of_the_default_state_counts_as_given() -> None:
    log = RecordedHistory()
    ended = network(log.history(create=False), state=State({}, thread_id="D")).run("hi")
    assert log.calls[0] == ("get", "D")
    assert ended.state.thread_id == "D"


def test_the_default_state_keeps_its_thread_id_without_a_history() -> None:
    agent = Agent("a", model=ScriptedModel(["x"]))
    alone = agent.alone(state=State({}, thread_id="D"))
    assert alone.run("hi").state.thread_id == "D"


# -- loaded results


@pytest.mark.parametrize("loaded", [OLD, OLD.to_json()])
def test_loaded_results_are_sent_to_the_model(loaded: Any) -> None:
    log = RecordedHistory(loaded=[loaded])
    agents = network(log.history())
    ended = agents.run("and?", state=State(thread_id="t"))
    (request,) = agents.agents["a"].model.requests
    assert [message.text for message in request.messages] == ["as I said", "and?"]
    assert log.calls[-1] == ("results", "t", ["x"])
    assert [result.text for result in ended.results] == ["as I said", "x"]


@pytest.mark.parametrize("state_options", [{"messages": ["earlier"]}, {"results": [OLD]}])
def test_get_is_not_called_if_the_caller_passes_messages_or_results(state_options: Any) -> None:
    log = RecordedHistory(loaded=[OLD, OLD])
    network(log.history()).run("and?", state=State(thread_id="t", **state_options))
    assert ("get", "t") not in log.calls


def test_get_is_not_called_in_the_second_turn_of_a_saved_thread() -> None:
    log, saver = RecordedHistory(loaded=[OLD]), InMemorySaver()
    agents = network(log.history())
    for turn in ("one", "two"):
        agents.run(turn, checkpointer=saver, thread_id="T")
    assert log.calls.count(("get", "T")) == 1
    assert [call for call in log.calls if call[0] == "results"] == [("results", "T", ["x"]), ("results", "T", ["x"])]
    request = agents.agents["a"].model.requests[1]
    assert [message.text for message in request.messages] == ["as I said", "one", "x", "two"]


@pytest.mark.parametrize("loaded", ["text", 5, [3], [None], [{"agentName": "a"}], {"agentName": "a"}, [["a"]]])
def test_invalid_results_of_get_are_refused(loaded: Any) -> None:
    with pytest.raises(InvalidConfig, match="get"):
        network(RecordedHistory(loaded=loaded).history()).run("hi", state=State(thread_id="t"))


@pytest.mark.parametrize("loaded", [None, (), []])
def test_get_can_return_no_results(loaded: Any) -> None:
    assert network(RecordedHistory(loaded=loaded).history()).run("hi", state=State(thread_id="t")).call_count == 1


# -- saving results


def test_results_are_appended_only_at_the_end() -> None:
    log = RecordedHistory()
    with pytest.raises(ModelError, match="no"):
        network(log.history(), ModelError("no")).run("hi", state=State(thread_id="t"))
    assert [call[0] for call in log.calls] == ["create", "get", "user"]


def test_a_resumed_run_appends_everything_once() -> None:
    log, saver = RecordedHistory(), InMemorySaver()
    agents = network(log.history(), ModelError("no"), "yes")
    with pytest.raises(ModelError):
        agents.run("hi", checkpointer=saver, thread_id="T")
    agents.run(None, checkpointer=saver, thread_id="T")
    assert [call[0] for call in log.calls] == ["create", "get", "user", "results"]
    assert log.calls[-1] == ("results", "T", ["yes"])


@pytest.mark.parametrize("fails", ["create_thread", "get", "append_user_message", "append_results"])
def test_an_exception_of_a_function_is_raised_and_the_run_can_be_resumed(fails: str) -> None:
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


def test_functions_receive_the_state() -> None:
    seen: list[Any] = []
    history = ThreadHistory(
        create_thread=lambda state, input: seen.append((state.data.user, input)) or "t",  # noqa: A006
        append_results=lambda state, network: seen.append((state.data.user, state.thread_id, network.name)),
    )
    network(history).run("hi", state={"user": "eve"})
    assert seen == [("eve", "hi"), ("eve", "t", "n")]


def test_an_agent_without_a_network_uses_its_history() -> None:
    log = RecordedHistory()
    Agent("a", model=ScriptedModel(["x"]), history=log.history()).run("hi", state=State(thread_id="t"))
    assert [call[0] for call in log.calls] == ["create", "get", "user", "results"]


def test_a_network_ignores_the_histories_of_its_agents() -> None:
    log = RecordedHistory()
    agent = Agent("a", model=ScriptedModel(["x"]), history=log.history())
    Network("n", agents=[agent], router=lambda call_count: None if call_count else agent).run("hi")
    assert log.calls == []
