"""Start a run of a network: read the user's message and load the earlier conversation."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, cast

from statewright.agents.network.definition import NetworkDefinition
from statewright.agents.network.state import Values, build_run_view
from statewright.agents.state.data import PREFIX
from statewright.agents.state.state import user_turn
from statewright.channels import Overwrite
from statewright.errors import InvalidConfig
from statewright.graph import Runtime
from statewright.messages import Message, as_message


async def start_run(network: NetworkDefinition[Any], state: Values, runtime: Runtime[Any]) -> dict[str, Any]:
    """Return the first update of a run."""
    message = as_user_message(state["input"])
    update: dict[str, Any] = {"message": message, "call_count": 0, "queue": [], "routed": Overwrite([])}
    update.update({"routing": None, "stop_reason": None, "summary": None})
    if network.default_state.thread_id is not None and not state.get("history_thread"):
        update["history_thread"] = network.default_state.thread_id
    turns = list(state.get("turns", ()))
    if "position" not in state:
        update.update(_default_update(network, state))
        turns = turns or network.default_state.turns
    if network.history is not None:
        now = {**state, **update, "turns": turns, "routed": []}
        kwargs = {**build_run_view(network, now, runtime).kwargs, "input": message.text}
        turns, thread = await _load_history(network, state, turns, kwargs, runtime)
        update["history_thread"] = thread
        await network.history.save_message(thread, message, kwargs, runtime)
    if message.content:
        turns = [*turns, user_turn(message)]
    return {**update, "turns": turns[len(state.get("turns", ())) :], "first": len(turns)}


def with_start_update(state: Values, update: Values) -> Values:
    """Return the state after the first update of a run."""
    return {**state, **update, "turns": [*state.get("turns", ()), *update["turns"]], "routed": []}


def _default_update(network: NetworkDefinition[Any], state: Values) -> dict[str, Any]:
    """Return the defaults of a new conversation for fields that its caller did not pass."""
    defaults = {f"{PREFIX}{name}": value for name, value in network.defaults.items()}
    messages = {} if state.get("messages") else {"messages": network.default_state.messages}
    return {"position": 0, **messages, **{name: value for name, value in defaults.items() if name not in state}}


async def _load_history(
    network: NetworkDefinition[Any], state: Values, turns: list[Any], kwargs: Mapping[str, Any], runtime: Runtime[Any]
) -> tuple[list[Any], str | None]:
    """Return the earlier turns, and the id of the thread in the user's storage."""
    assert network.history is not None
    thread_id = state.get("history_thread") or network.default_state.thread_id or runtime.execution_info.thread_id
    thread = await network.history.resolve_thread(thread_id, kwargs, runtime)
    if thread_id is not None and not turns and not kwargs["state"].messages:
        turns = await network.history.load_results(thread_id, kwargs, runtime)
    return turns, thread


# -- the user's message


def as_user_message(value: Any) -> Message:
    """Convert text, a message or the JSON of a web page to a user message.

    A mapping may have `systemPrompt`, which is added to the system prompt of this turn. Raises InvalidConfig for
    anything that is not a user message.
    """
    metadata: dict[str, Any] = {}
    if isinstance(value, Mapping):
        fields = dict(cast("Mapping[str, Any]", value))
        prompt = fields.pop("systemPrompt", fields.pop("system_prompt", None))
        if prompt is not None and not isinstance(prompt, str):
            raise InvalidConfig(f"systemPrompt of a user message is {prompt!r}. Pass text.")
        timestamp = fields.pop("clientTimestamp", fields.pop("client_timestamp", None))
        optional = {"system_prompt": prompt, "client_timestamp": timestamp, "client_state": fields.pop("state", None)}
        metadata = {key: item for key, item in optional.items() if item is not None}
        value = {"role": "user", **fields}
    message = as_message(value)
    if not isinstance(message, Message) or message.role != "user":
        raise InvalidConfig(f"The input of a network is {value!r}. Pass text, or a user message.")
    if metadata:
        message.metadata = {**(message.metadata or {}), **metadata}
    return message
