"""Start a run of a network: read the user's message and load the earlier conversation."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, cast

from statewright.agents.network.state import Values, build_run_view
from statewright.agents.state.data import PREFIX
from statewright.agents.state.state import user_turn
from statewright.channels import Overwrite
from statewright.errors import InvalidConfig
from statewright.graph import Runtime
from statewright.messages import Message, as_message

if TYPE_CHECKING:
    from statewright.agents.network.network import Network


async def start_run(network: Network[Any], state: Values, runtime: Runtime[Any]) -> dict[str, Any]:
    """The update with which a run begins."""
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
        known = {**build_run_view(network, now, runtime).kwargs, "input": message.text}
        turns, thread = await _load_history(network, state, turns, known, runtime)
        update["history_thread"] = thread
        await network.history.save_message(thread, message, known, runtime)
    if message.content:
        turns = [*turns, user_turn(message)]
    return {**update, "turns": turns[len(state.get("turns", ())) :], "first": len(turns)}


def with_start_update(state: Values, update: Values) -> Values:
    """The state as it will be after that update."""
    return {**state, **update, "turns": [*state.get("turns", ()), *update["turns"]], "routed": []}


def _default_update(network: Network[Any], state: Values) -> dict[str, Any]:
    """What a new conversation begins with, where its caller has not given it."""
    given = {f"{PREFIX}{name}": value for name, value in network.defaults.items()}
    messages = {} if state.get("messages") else {"messages": network.default_state.messages}
    return {"position": 0, **messages, **{name: value for name, value in given.items() if name not in state}}


async def _load_history(
    network: Network[Any], state: Values, turns: list[Any], known: Mapping[str, Any], runtime: Runtime[Any]
) -> tuple[list[Any], str | None]:
    """What was said before, and the thread of the conversation at its owner's."""
    assert network.history is not None
    given = state.get("history_thread") or network.default_state.thread_id or runtime.execution_info.thread_id
    thread = await network.history.resolve_thread(given, known, runtime)
    if given is not None and not turns and not known["state"].messages:
        turns = await network.history.load_results(given, known, runtime)
    return turns, thread


# -- the user's message


def as_user_message(value: Any) -> Message:
    """The message. A mapping may have `systemPrompt`, which is added to what the model is told in this turn.

    Raises InvalidConfig for what is no message of a user.
    """
    more: dict[str, Any] = {}
    if isinstance(value, Mapping):
        told = dict(cast("Mapping[str, Any]", value))
        prompt = told.pop("systemPrompt", told.pop("system_prompt", None))
        if prompt is not None and not isinstance(prompt, str):
            raise InvalidConfig(f"systemPrompt of a user's message is {prompt!r}. Give text.")
        at = told.pop("clientTimestamp", told.pop("client_timestamp", None))
        found = {"system_prompt": prompt, "client_timestamp": at, "client_state": told.pop("state", None)}
        more = {key: one for key, one in found.items() if one is not None}
        value = {"role": "user", **told}
    message = as_message(value)
    if not isinstance(message, Message) or message.role != "user":
        raise InvalidConfig(f"The input of a network is {value!r}. Give text, or a message of the user.")
    if more:
        message.metadata = {**(message.metadata or {}), **more}
    return message
