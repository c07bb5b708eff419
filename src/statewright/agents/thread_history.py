"""User-supplied storage for conversations: four optional functions that a network calls.

Each function is called at most once in a run, however often the run is resumed: its result is saved with the run.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, cast
from uuid import uuid4

from statewright.agents.kwargs_injection import acall_with_kwargs
from statewright.agents.state.result import AgentResult
from statewright.errors import InvalidConfig, InvalidUpdateError
from statewright.graph import Runtime
from statewright.messages import Message

Kwargs = Mapping[str, Any]
"""What the functions may ask for: `state`, `network`, `input`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ThreadHistory:
    """The functions. Each is called with what it asks for by the names of its parameters, and may be a coroutine's."""

    create_thread: Callable[..., Any] | None = None
    """`(thread_id, state, input) -> id`: makes the thread of a conversation, or makes sure that it is there."""
    get: Callable[..., Any] | None = None
    """`(thread_id, state, input) -> results`: what was said before; not asked where results or messages were given."""
    append_user_message: Callable[..., Any] | None = None
    """`(thread_id, user_message, state)`: keeps what the user said, before an agent is called."""
    append_results: Callable[..., Any] | None = None
    """`(thread_id, new_results, state)`: keeps what agents said, once, when the run has ended."""

    async def resolve_thread(self, given: str | None, known: Kwargs, runtime: Runtime[Any]) -> str | None:
        """The thread of a conversation.

        One that was given stays, and is made where it may be missing. Without one, that which `create_thread` makes;
        a random one where there is only `get`.
        """
        if self.create_thread is not None:
            asked = {**known, "thread_id": given}
            made = await runtime.step("create_thread", partial(_create_thread, self.create_thread, asked))
            return given if given is not None else made
        if given is None and self.get is not None:
            return runtime.step("thread_id", _random_id)
        return given

    async def load_results(self, thread_id: str, known: Kwargs, runtime: Runtime[Any]) -> list[AgentResult]:
        """What was said on the thread before."""
        if self.get is None:
            return []
        asked = {**known, "thread_id": thread_id}
        return _read_results(await runtime.step("get", partial(acall_with_kwargs, self.get, asked)))

    async def save_message(self, thread_id: str | None, message: Message, known: Kwargs, runtime: Runtime[Any]) -> None:
        """Keep what the user said."""
        if self.append_user_message is not None:
            asked = {**known, "thread_id": thread_id, "user_message": message}
            await runtime.step("append_user_message", partial(_call_without_result, self.append_user_message, asked))

    async def save_results(
        self, thread_id: str | None, results: Sequence[AgentResult], known: Kwargs, runtime: Runtime[Any]
    ) -> None:
        """Keep what agents said in this run, if they said anything."""
        if self.append_results is not None and results:
            asked = {**known, "thread_id": thread_id, "new_results": list(results)}
            await runtime.step("append_results", partial(_call_without_result, self.append_results, asked))


async def _create_thread(function: Callable[..., Any], asked: Kwargs) -> str | None:
    made = await acall_with_kwargs(function, asked)
    if isinstance(made, Mapping):
        told = cast("Mapping[str, Any]", made)
        made = told.get("thread_id", told.get("threadId"))
    return None if made is None else str(made)


async def _call_without_result(function: Callable[..., Any], asked: Kwargs) -> None:
    """Call a function whose answer says nothing: it need not be one that can be saved."""
    await acall_with_kwargs(function, asked)


def _random_id() -> str:
    return str(uuid4())


def _read_results(found: Any) -> list[AgentResult]:
    if found is None:
        return []
    try:
        results: list[Any] = [_read_result(one) for one in found]
    except (KeyError, TypeError, ValueError, InvalidUpdateError):
        results = [None]
    if not isinstance(found, list | tuple) or not all(isinstance(one, AgentResult) for one in results):
        raise InvalidConfig(
            f"`get` of a history answered {found!r}. Give a list of AgentResults, or of what their to_json made."
        )
    return results


def _read_result(found: Any) -> Any:
    return AgentResult.from_json(cast("Mapping[str, Any]", found)) if isinstance(found, Mapping) else found
