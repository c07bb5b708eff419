"""User-supplied storage for conversations: four optional functions that a network calls.

The result of each function is saved with the run, so a resumed run does not repeat a call that has succeeded.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, cast
from uuid import uuid4

from statewright.agents.kwargs_injection import acall_with_kwargs
from statewright.agents.state.result import AgentResult
from statewright.errors import InvalidConfig, InvalidUpdateError
from statewright.graph import Runtime
from statewright.messages import Message

Kwargs = Mapping[str, Any]
"""The arguments that are available to all four functions: `state`, `network`, `input`. Each function also has arguments
of its own, such as `thread_id`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ThreadHistory:
    """Functions that store conversations. Each gets the arguments that its parameters name, and may be a coroutine
    function."""

    create_thread: Callable[..., Any] | None = None
    """`(thread_id, state, input) -> id`: creates the conversation's thread if it does not exist yet."""
    get: Callable[..., Any] | None = None
    """`(thread_id, state, input) -> results`: loads the earlier results of a thread. It is not called if the state
    already has results or messages."""
    append_user_message: Callable[..., Any] | None = None
    """`(thread_id, user_message, state)`: saves the user's message, before an agent is called."""
    append_results: Callable[..., Any] | None = None
    """`(thread_id, new_results, state)`: saves the results of the agents, once, at the end of the run."""

    async def resolve_thread(self, thread_id: str | None, kwargs: Kwargs, runtime: Runtime[Any]) -> str | None:
        """Call `create_thread`, and return the id of the thread.

        An id that was passed is kept. Otherwise the id is the one that `create_thread` returns; without
        `create_thread`, it is random if there is a `get`, else None.
        """
        created = await self._call("create_thread", _read_thread_id, runtime, kwargs, thread_id=thread_id)
        if thread_id is None and self.create_thread is None and self.get is not None:
            return runtime.step("thread_id", lambda: str(uuid4()))
        return thread_id if thread_id is not None else created

    async def load_results(self, thread_id: str, kwargs: Kwargs, runtime: Runtime[Any]) -> list[AgentResult]:
        """Return the earlier results of the thread, which `get` loads; an empty list without a `get`."""
        return _read_results(await self._call("get", lambda values: values, runtime, kwargs, thread_id=thread_id))

    async def save_message(
        self, thread_id: str | None, message: Message, kwargs: Kwargs, runtime: Runtime[Any]
    ) -> None:
        """Save the user's message."""
        extra = {"thread_id": thread_id, "user_message": message}
        await self._call("append_user_message", _discard_value, runtime, kwargs, **extra)

    async def save_results(
        self, thread_id: str | None, results: Sequence[AgentResult], kwargs: Kwargs, runtime: Runtime[Any]
    ) -> None:
        """Save the results of this run, unless there are none."""
        if results:
            extra = {"thread_id": thread_id, "new_results": list(results)}
            await self._call("append_results", _discard_value, runtime, kwargs, **extra)

    async def _call(
        self, name: str, convert: Callable[[Any], Any], runtime: Runtime[Any], kwargs: Kwargs, **extra: Any
    ) -> Any:
        """Call the function `name` in a journaled step, and return its converted return value.

        Return None if no such function was supplied.
        """
        function = getattr(self, name)
        if function is None:
            return None

        async def call() -> Any:
            return convert(await acall_with_kwargs(function, {**kwargs, **extra}))

        return await runtime.step(name, call)


def _discard_value(value: Any) -> None:
    """Return None in place of a return value that is not needed: the journal might be unable to store the value."""


def _read_thread_id(thread: Any) -> str | None:
    if isinstance(thread, Mapping):
        fields = cast("Mapping[str, Any]", thread)
        thread = fields.get("thread_id", fields.get("threadId"))
    return None if thread is None else str(thread)


def _read_results(values: Any) -> list[AgentResult]:
    if values is None:
        return []
    with suppress(KeyError, TypeError, ValueError, InvalidUpdateError):
        results: list[Any] = [
            AgentResult.from_json(cast("Mapping[str, Any]", value)) if isinstance(value, Mapping) else value
            for value in values
        ]
        if isinstance(values, list | tuple) and all(isinstance(result, AgentResult) for result in results):
            return results
    raise InvalidConfig(
        f"`get` of a ThreadHistory returned {values!r}. Return a list of AgentResults, or of the dicts that "
        f"their `to_json()` returns."
    )
