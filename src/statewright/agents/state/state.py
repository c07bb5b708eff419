"""The state shared by the agents of a network: typed data, the initial messages, and the results so far."""

from __future__ import annotations

import copy
import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any, ClassVar, Generic, TypeVar, cast

from pydantic_core import PydanticSerializationError, to_json

from statewright.agents.state.data import DataSchema, field_values, read_data
from statewright.agents.state.result import USER, AgentResult
from statewright.errors import InvalidConfig, InvalidUpdateError
from statewright.messages import Message, as_message
from statewright.state import type_adapter

T = TypeVar("T")
Formatter = Callable[[AgentResult], Iterable[Message]]
"""Converts a result to messages of the history that is sent to models."""


class State(Generic[T]):
    """The state of a network, or of an agent that is run alone.

    `data` is a mapping, an instance of a dataclass or of a pydantic model, or a class; `schema` is the TypedDict that
    declares the fields of a mapping. A result whose `agent_name` is `user` is a message of the user; the property
    `turns` has such results, and the property `results` does not.
    """

    injected_as: ClassVar = "state"

    def __init__(
        self,
        data: T | type[T] | Mapping[str, Any] | None = None,
        *,
        schema: type[T] | None = None,
        messages: Iterable[Any] = (),
        results: Iterable[AgentResult] = (),
        thread_id: str | None = None,
    ) -> None:
        self.data_schema, values = read_data(data, schema)
        self._data: Any = self.data_schema.build(values)
        self._messages = [cast(Message, as_message(message)) for message in messages]
        self._turns = list(results)
        self.thread_id = thread_id

    @property
    def data(self) -> T:
        """The mutable data. Its fields are attributes; the fields of a mapping are keys too."""
        return self._data

    @property
    def messages(self) -> list[Message]:
        """The initial messages of the conversation, before all turns."""
        return list(self._messages)

    @property
    def turns(self) -> list[AgentResult]:
        """All turns after the initial messages, including the user's."""
        return list(self._turns)

    @property
    def results(self) -> list[AgentResult]:
        """The results of the agents, without the user's turns."""
        return [result for result in self._turns if result.agent_name != USER]

    def results_from(self, start: int) -> list[AgentResult]:
        """Return the results from the index `start` on."""
        return self.results[start:]

    def append_result(self, result: AgentResult) -> None:
        """Append a result."""
        self._turns.append(result)

    def set_results(self, results: Iterable[AgentResult]) -> None:
        """Replace all turns, including the user's."""
        self._turns = list(results)

    def format_history(self, formatter: Formatter | None = None) -> list[Message]:
        """Return the conversation to send to a model: the initial messages, and the messages of each turn.

        `formatter` converts a turn to messages; by default, its messages are returned unchanged.
        """
        format_turn = formatter or result_messages
        return [*self._messages, *(message for turn in self._turns for message in format_turn(turn))]

    def clone(self) -> State[T]:
        """Return a copy with independent data."""
        values = copy.deepcopy(field_values(self._data))
        return self.from_values(self.data_schema, values, self._messages, self._turns, self.thread_id)

    @classmethod
    def from_values(
        cls,
        data_schema: DataSchema,
        values: Mapping[str, Any],
        messages: Iterable[Message],
        turns: Iterable[AgentResult],
        thread_id: str | None,
    ) -> State[Any]:
        """Return a state whose data has these values from the state of a graph.

        Values are not changed: the data copies them.
        """
        state = cast("State[Any]", cls(messages=messages, results=turns, thread_id=thread_id))
        state.data_schema, state._data = data_schema, data_schema.build(values)
        return state

    def to_json(self) -> dict[str, Any]:
        """Return the state as plain JSON, with its thread id. Raises InvalidConfig if JSON cannot express the data."""
        return {
            "data": {name: _to_json_value(name, value) for name, value in field_values(self._data).items()},
            "messages": [message.to_dict() for message in self._messages],
            "results": [result.to_json() for result in self._turns],
            **({"threadId": self.thread_id} if self.thread_id is not None else {}),
        }

    @classmethod
    def from_json(cls, value: Mapping[str, Any], data: type[T] | None = None) -> State[T]:
        """Return the state from the output of `to_json`. `data` is the class of its data, if it has one.

        Raises InvalidConfig for any other value.
        """
        try:
            fields: Any = value.get("data") or {}
            results = [AgentResult.from_json(result) for result in value.get("results", value.get("_results", ()))]
            state: State[T] = State(
                fields if data is None else type_adapter(data).validate_python(fields),
                schema=data,
                messages=value.get("messages", value.get("_messages", ())),
                results=results,
                thread_id=value.get("threadId"),
            )
        except (KeyError, TypeError, ValueError, AttributeError, InvalidUpdateError) as error:
            raise InvalidConfig(
                f"The value is not the JSON of a state with data of class {data!r}: {error!r}. Pass the output of "
                f"State.to_json."
            ) from error
        return state

    def __repr__(self) -> str:
        return f"State({self._data!r}, {len(self.results)} results)"


def _to_json_value(name: str, value: Any) -> Any:
    """Convert a value to plain JSON. NaN and infinities become None, as in the answers of tools."""
    try:
        return json.loads(to_json(value, inf_nan_mode="null"))
    except (PydanticSerializationError, ValueError) as error:
        raise InvalidConfig(f"Field {name!r} of the data cannot be written as JSON: {error}") from error


def result_messages(result: AgentResult) -> Sequence[Message]:
    """Return the messages of a result unchanged."""
    return result.messages


def user_turn(message: Message) -> AgentResult:
    """Return a turn with the user's message."""
    return AgentResult(agent_name=USER, messages=[message], created_at=datetime.now(UTC), id=message.id)
