"""The state of a network's graph, and what is derived from it.

This module defines the fields of the state; builds the context of agent calls, and the view of the run that routers and
hooks receive; and builds the first update of a run. That update has the user's message, and the earlier conversation if
a `ThreadHistory` supplies it.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from typing import Annotated, Any, Final, cast

from statewright.agents.agent import Agent
from statewright.agents.loop.model_call import usage_in_journal
from statewright.agents.loop.run import AgentCall, NetworkRun, RunBuilder, RunView
from statewright.agents.network.definition import NetworkDefinition, RunAgents
from statewright.agents.state.data import PREFIX, data_fields, with_prefix
from statewright.agents.state.result import USER, AgentResult, total_usage
from statewright.agents.state.state import State, user_turn
from statewright.channels import Ephemeral, Overwrite
from statewright.checkpoint import SavedCheckpoint
from statewright.data.mappings import without_none
from statewright.errors import InvalidConfig, suggestion
from statewright.graph import Runtime
from statewright.messages import Message, as_message
from statewright.models import Usage

Values = Mapping[str, Any]


def _as_messages(current: Any, update: Any) -> list[Any]:
    """Return the new messages, converted, which replace the current ones: a list, or a single one. A reducer."""
    one: list[Any] = [update]
    several = cast(list[Any], update) if isinstance(update, list | tuple) else one
    is_pair = isinstance(update, tuple) and all(isinstance(part, str) for part in several)  # (role, text)
    return [as_message(value) for value in (one if is_pair else several)]


NETWORK_STATE: Final[Mapping[str, Any]] = {
    "input": Annotated[Any, Ephemeral()],
    "message": Message,
    "messages": Annotated[list[Message], _as_messages],
    "turns": Annotated[list[AgentResult], operator.add],
    "routed": Annotated[list[AgentResult], operator.add],
    "queue": list[str],
    "routing": str,
    "routing_usage": list,
    "discarded_usage": list,
    "notes": dict,
    "position": int,
    "call_count": int,
    "first": int,
    "stop_reason": str,
    "summary": str,
    "history_thread": str,
}
"""The fields besides the fields of the network's data:

- `input` is the new input of a run, and `message` is the user message to which it was converted;
- `messages` are the initial messages of the conversation, before all turns;
- `turns` are all turns of the conversation; `first` is the index in `turns` of the first result of this run;
- `routed` are the results of routing agents in this run, and `routing_usage` is their usage in all runs;
- `discarded_usage` is the usage of interrupted agent calls that were discarded because of new input;
- `queue` are the names of the agents to call next, and `routing` is the name of a routing agent to call before them;
- `notes` are the notes of memory strategies, by agent name;
- `position` is the number of agent calls in all runs, and `call_count` is the number in this run;
- `history_thread` is the id of the conversation's thread in the user-supplied storage.
"""


def unknown_field_problems(values: Values, declared: Sequence[str]) -> dict[str, str]:
    """Return a message for each unknown field of a state or an input, by name.

    `declared` are the fields of the data that the network declares, which have the prefix `data.`; without any, all
    fields with the prefix are permitted.
    """
    problems: dict[str, str] = {}
    for name in values:
        is_data = _is_data(name)
        if name in NETWORK_STATE or (is_data and (not declared or name in declared)):
            continue
        fields = declared if is_data else [*NETWORK_STATE, *(declared or filter(_is_data, values))]
        message = f"The state of the network has no field {name!r}. {suggestion(name, fields, noun='Fields')}"
        if not is_data and (not declared or PREFIX + name in declared):
            message += f" A field of the data is written as {PREFIX + name!r}."
        problems[name] = message
    return problems


def _is_data(name: str) -> bool:
    return name.startswith(PREFIX)


def run_agents(network: NetworkDefinition[Any], runtime: Runtime[Any]) -> RunAgents:
    """Return the agents of the current run, identified by its workspace, its thread or run id, and its namespace."""
    info = runtime.execution_info
    return RunAgents(network.registry, f"{info.workspace!r}|{info.thread_id or info.run_id}|{info.namespace}")


def build_run(
    network: NetworkDefinition[Any],
    state: Values,
    thread_id: str | None,
    stack: Sequence[Agent],
    find: Callable[[str], Agent] | None,
    data: Mapping[str, Any],
    usage: Usage,
) -> NetworkRun[Any]:
    """Return the run in a state of the network's graph.

    `data` replaces the state's fields of the data, and `usage` is added to the usage in the state.
    """
    return NetworkRun(
        network.name,
        State.from_values(network.data_schema, data, state.get("messages", ()), state.get("turns", ()), thread_id),
        network.agents,
        message=state.get("message"),
        stack=stack,
        call_count=state.get("call_count", 0),
        find=find,
        further_usage=further_usage(state) + usage,
    )


def _run_builder(network: NetworkDefinition[Any], state: Values, runtime: Runtime[Any]) -> RunBuilder:
    """Return the function that builds the current run from its data and its additional usage; see `build_run`."""
    agents = run_agents(network, runtime)
    thread_id = state.get("history_thread") or runtime.execution_info.thread_id
    stack = [agents.find(name) for name in state.get("queue", ())]
    return partial(build_run, network, state, thread_id, stack, agents.find)


def build_agent_call(network: NetworkDefinition[Any], state: Values, runtime: Runtime[Any], agent: Agent) -> AgentCall:
    """Return the context of the next call of an agent."""
    usage, requests = usage_of_run(state)
    model = network.model_for(agent)
    needs_default = agent.model is None and model is None
    return AgentCall(
        network=network.name,
        build_run=_run_builder(network, state, runtime),
        schema=network.data_schema,
        values=data_fields(state),
        model=model,
        default_model=network.default_chat_model if needs_default else None,
        limits=network.usage_limits,
        usage=usage,
        requests=requests,
        notes=state.get("notes", {}),
        formatter=network.formatter,
    )


def build_run_view(network: NetworkDefinition[Any], state: Values, runtime: Runtime[Any]) -> RunView:
    """Return the view of the run that routers and other user-defined functions of the network receive."""
    values = data_fields(state)
    return RunView(_run_builder(network, state, runtime)(values, Usage()), network.data_schema, values)


def further_usage(state: Values) -> Usage:
    """Return the usage that is not part of the agents' results: that of routing agents and of discarded calls."""
    return Usage(*state.get("routing_usage") or ()) + Usage(*state.get("discarded_usage") or ())


def usage_of_calls(calls: Iterable[SavedCheckpoint]) -> Usage:
    """Return the total usage of unfinished agent calls, from their last checkpoints and their journals."""
    return sum(
        (Usage(*call.checkpoint.values.get("usage") or ()) + usage_in_journal(call.pending) for call in calls), Usage()
    )


def discarded_usage_update(state: Values, calls: Sequence[SavedCheckpoint]) -> dict[str, Any]:
    """Return the update that adds the usage of agent calls that are discarded because of new input."""
    usage = Usage(*state.get("discarded_usage") or ()) + usage_of_calls(calls)
    return {"discarded_usage": usage.to_list()}


def results_of_run(state: Values) -> Sequence[AgentResult]:
    """Return the results of the agents since the user's message."""
    return [turn for turn in state.get("turns", ())[state.get("first", 0) :] if turn.agent_name != USER]


def usage_of_run(state: Values) -> tuple[Usage, int]:
    """Return the usage of the run, including that of routing agents, and its number of model calls."""
    return total_usage([*results_of_run(state), *state.get("routed", ())])


# -- starting a run


async def start_run(network: NetworkDefinition[Any], state: Values, runtime: Runtime[Any]) -> dict[str, Any]:
    """Return the first update of a run."""
    message = as_user_message(state["input"])
    update: dict[str, Any] = {
        "message": message,
        "call_count": 0,
        "queue": [],
        "routed": Overwrite([]),
        "routing": None,
        "stop_reason": None,
        "summary": None,
    }
    if network.default_state.thread_id is not None and not state.get("history_thread"):
        update["history_thread"] = network.default_state.thread_id
    turns = list(state.get("turns", ()))
    if "position" not in state:
        update.update(_default_update(network, state))
        turns = turns or network.default_state.turns
    if network.history is not None:
        current = {**state, **update, "turns": turns, "routed": []}
        kwargs = {**build_run_view(network, current, runtime).kwargs, "input": message.text}
        turns, thread = await _load_history(network, state, turns, kwargs, runtime)
        update["history_thread"] = thread
        await network.history.save_message(thread, message, kwargs, runtime)
    if message.content:
        turns = [*turns, user_turn(message)]
    new_turns = turns[len(state.get("turns", ())) :]  # the reducer appends
    return {**update, "turns": new_turns, "first": len(turns)}


def with_start_update(state: Values, update: Values) -> Values:
    """Return the state after the first update of a run."""
    return {**state, **update, "turns": [*state.get("turns", ()), *update["turns"]], "routed": []}


def _default_update(network: NetworkDefinition[Any], state: Values) -> dict[str, Any]:
    """Return the update of a new conversation with the default values of the fields that the caller did not pass."""
    missing = {name: value for name, value in with_prefix(network.defaults).items() if name not in state}
    messages = {} if state.get("messages") else {"messages": network.default_state.messages}
    return {"position": 0, **messages, **missing}


async def _load_history(
    network: NetworkDefinition[Any], state: Values, turns: list[Any], kwargs: Mapping[str, Any], runtime: Runtime[Any]
) -> tuple[list[Any], str | None]:
    """Return the earlier turns, and the id of the thread in the user-supplied storage."""
    assert network.history is not None
    thread_id = state.get("history_thread") or network.default_state.thread_id or runtime.execution_info.thread_id
    history_thread = await network.history.resolve_thread(thread_id, kwargs, runtime)
    if thread_id is not None and not turns and not kwargs["state"].messages:
        turns = await network.history.load_results(thread_id, kwargs, runtime)
    return turns, history_thread


# -- the user's message


def as_user_message(value: Any) -> Message:
    """Convert text, a message, or a message of AgentKit's web client to a user message.

    A mapping may have a `systemPrompt`, which is added to the agents' system prompts in this turn. Raises InvalidConfig
    for anything that cannot be converted.
    """
    metadata: dict[str, Any] = {}
    if isinstance(value, Mapping):
        fields = dict(cast("Mapping[str, Any]", value))
        prompt = fields.pop("systemPrompt", fields.pop("system_prompt", None))
        if prompt is not None and not isinstance(prompt, str):
            raise InvalidConfig(f"systemPrompt of a user message is {prompt!r}. Pass text.")
        timestamp = fields.pop("clientTimestamp", fields.pop("client_timestamp", None))
        metadata = without_none(
            {"system_prompt": prompt, "client_timestamp": timestamp, "client_state": fields.pop("state", None)}
        )
        value = {"role": "user", **fields}
    message = as_message(value)
    if not isinstance(message, Message) or message.role != "user":
        raise InvalidConfig(f"The input of a network is {value!r}. Pass text, or a user message.")
    if metadata:
        message.metadata = {**(message.metadata or {}), **metadata}
    return message
