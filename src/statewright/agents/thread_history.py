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
"""The arguments that the functions may name: `state`, `network`, `input`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ThreadHistory:
    """Functions that store conversations. Each may be a coroutine function, and gets the arguments that it names."""

    create_thread: Callable[..., Any] | None = None
    """`(thread_id, state, input) -> id`: creates the thread of a conversation unless it exists."""
    get: Callable[..., Any] | None = None
    """`(thread_id, state, input) -> results`: loads earlier results; not called if the run was given some."""
    append_user_message: Callable[..., Any] | None = None
    """`(thread_id, user_message, state)`: saves the user's message, before an agent is called."""
    append_results: Callable[..., Any] | None = None
    """`(thread_id, new_results, state)`: saves the results of the agents, once, at the end of the run."""

    async def resolve_thread(self, thread_id: str | None, kwargs: Kwargs, runtime: Runtime[Any]) -> str | None:
        """Return the thread of a conversation.

        An id that was passed is returned, after `create_thread` was called with it. Otherwise it is the id that
        `create_thread` returns, or a random one if there is only `get`.
        """
        if self.create_thread is not None:
            created = await self._call("create_thread", runtime, _create_thread, kwargs, thread_id=thread_id)
            return thread_id if thread_id is not None else created
        if thread_id is None and self.get is not None:
            return runtime.step("thread_id", _random_id)
        return thread_id

    async def load_results(self, thread_id: str, kwargs: Kwargs, runtime: Runtime[Any]) -> list[AgentResult]:
        """Return the earlier results of the thread."""
        if self.get is None:
            return []
        return _read_results(await self._call("get", runtime, acall_with_kwargs, kwargs, thread_id=thread_id))

    async def save_message(
        self, thread_id: str | None, message: Message, kwargs: Kwargs, runtime: Runtime[Any]
    ) -> None:
        """Save the user's message."""
        if self.append_user_message is not None:
            call = partial(self._call, "append_user_message", runtime, _call_without_result, kwargs)
            await call(thread_id=thread_id, user_message=message)

    async def save_results(
        self, thread_id: str | None, results: Sequence[AgentResult], kwargs: Kwargs, runtime: Runtime[Any]
    ) -> None:
        """Save the results of this run, if there are any."""
        if self.append_results is not None and results:
            call = partial(self._call, "append_results", runtime, _call_without_result, kwargs)
            await call(thread_id=thread_id, new_results=list(results))

    async def _call(
        self, name: str, runtime: Runtime[Any], call: Callable[..., Any], kwargs: Kwargs, **further: Any
    ) -> Any:
        """Call one of the functions as a journaled step."""
        return await runtime.step(name, partial(call, getattr(self, name), {**kwargs, **further}))


async def _create_thread(function: Callable[..., Any], kwargs: Kwargs) -> str | None:
    thread = await acall_with_kwargs(function, kwargs)
    if isinstance(thread, Mapping):
        fields = cast("Mapping[str, Any]", thread)
        thread = fields.get("thread_id", fields.get("threadId"))
    return None if thread is None else str(thread)


async def _call_without_result(function: Callable[..., Any], kwargs: Kwargs) -> None:
    """Call a function and ignore its answer, which need not be serializable."""
    await acall_with_kwargs(function, kwargs)


def _random_id() -> str:
    return str(uuid4())


def _read_results(values: Any) -> list[AgentResult]:
    if values is None:
        return []
    try:
        results: list[Any] = [_read_result(value) for value in values]
    except (KeyError, TypeError, ValueError, InvalidUpdateError):
        results = [None]
    if not isinstance(values, list | tuple) or not all(isinstance(result, AgentResult) for result in results):
        raise InvalidConfig(
            f"`get` of a ThreadHistory returned {values!r}. Return a list of AgentResults, or of what to_json returned."
        )
    return results


def _read_result(value: Any) -> Any:
    return AgentResult.from_json(cast("Mapping[str, Any]", value)) if isinstance(value, Mapping) else value
