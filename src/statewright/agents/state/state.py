"""The state shared by the agents of a network: typed data, the results so far, and the initial messages."""

from __future__ import annotations

import copy
import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any, ClassVar, Generic, TypeVar, cast

from statewright.agents.state.data import DataSchema, field_values, read_data
from statewright.agents.state.result import USER, AgentResult
from statewright.errors import InvalidConfig, InvalidUpdateError
from statewright.messages import Message, as_message
from statewright.state import type_adapter

T = TypeVar("T")
Formatter = Callable[[AgentResult], Iterable[Message]]
"""The messages by which a result stands in the history that models are shown."""


class State(Generic[T]):
    """The state of a network, or of an agent alone.

    `data` is a mapping, or an instance of a dataclass or pydantic model, or such a class; `schema` is the TypedDict
    that says which fields a mapping has. Results under the name `user` are the user's turns; `turns` has them all.
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
        self.form, values = read_data(data, schema)
        self._data: Any = self.form.build(values)
        self._messages = [cast(Message, as_message(one)) for one in messages]
        self._turns = list(results)
        self.thread_id = thread_id

    @property
    def data(self) -> T:
        """The data, to be read and written: by attribute, and in the case of a mapping by key."""
        return self._data

    @property
    def messages(self) -> list[Message]:
        """The messages that the conversation began with."""
        return list(self._messages)

    @property
    def turns(self) -> list[AgentResult]:
        """Everything that was said since, the user's turns included."""
        return list(self._turns)

    @property
    def results(self) -> list[AgentResult]:
        """What agents have said."""
        return [result for result in self._turns if result.agent_name != USER]

    def results_from(self, place: int) -> list[AgentResult]:
        """The results from the one at a place on."""
        return self.results[place:]

    def append_result(self, result: AgentResult) -> None:
        """Add a result."""
        self._turns.append(result)

    def set_results(self, results: Iterable[AgentResult]) -> None:
        """Replace all results."""
        self._turns = list(results)

    def format_history(self, formatter: Formatter | None = None) -> list[Message]:
        """The conversation so far, as a model is shown it: the first messages, and then those of each result."""
        formatted = formatter or result_messages
        return [*self._messages, *(message for result in self._turns for message in formatted(result))]

    def clone(self) -> State[T]:
        """A copy whose data is independent."""
        values = copy.deepcopy(field_values(self._data))
        return self.of(self.form, values, self._messages, self._turns, self.thread_id)

    @classmethod
    def of(
        cls,
        form: DataSchema,
        values: Mapping[str, Any],
        messages: Iterable[Message],
        turns: Iterable[AgentResult],
        thread_id: str | None,
    ) -> State[Any]:
        """A state whose data is made of values; it copies them as they are looked at."""
        state = cast("State[Any]", cls(messages=messages, results=turns, thread_id=thread_id))
        state.form, state._data = form, form.build(values)
        return state

    def to_json(self) -> dict[str, Any]:
        """The state as plain JSON, its thread included. Raises InvalidConfig for data that JSON cannot say."""
        return {
            "data": {name: _to_json_value(name, value) for name, value in field_values(self._data).items()},
            "messages": [message.to_dict() for message in self._messages],
            "results": [result.to_json() for result in self._turns],
            **({"threadId": self.thread_id} if self.thread_id is not None else {}),
        }

    @classmethod
    def from_json(cls, value: Mapping[str, Any], data: type[T] | None = None) -> State[T]:
        """The state that `to_json` wrote; `data` is the class of its data. Raises InvalidConfig for anything else."""
        try:
            results = [AgentResult.from_json(one) for one in value.get("results", value.get("_results", ()))]
            state: State[T] = State(
                _read_data(value.get("data") or {}, data),
                schema=data,
                messages=value.get("messages", value.get("_messages", ())),
                results=results,
                thread_id=value.get("threadId"),
            )
        except (KeyError, TypeError, ValueError, AttributeError, InvalidUpdateError) as error:
            raise InvalidConfig(
                f"This is no state of a network, or not of the class {data!r}: {error!r}. Give what to_json made."
            ) from error
        return state

    def __repr__(self) -> str:
        return f"State({self._data!r}, {len(self.results)} results)"


def _to_json_value(name: str, value: Any) -> Any:
    """A value as JSON has it; what is not finite becomes None, as in answers of tools."""
    from pydantic_core import PydanticSerializationError, to_json

    try:
        return json.loads(to_json(value, inf_nan_mode="null"))
    except (PydanticSerializationError, ValueError) as error:
        raise InvalidConfig(f"Field {name!r} of the data cannot be written as JSON: {error}") from error


def result_messages(result: AgentResult) -> Sequence[Message]:
    """The messages of a result, as they were said."""
    return result.messages


def user_turn(message: Message) -> AgentResult:
    """The user's turn as a result."""
    return AgentResult(agent_name=USER, messages=[message], created_at=datetime.now(UTC), id=message.id)


def _read_data(value: Any, data: type[Any] | None) -> Any:
    if data is None:
        return value
    return type_adapter(data).validate_python(value)
