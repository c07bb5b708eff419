"""`MessagesState` and the states of agents."""

from typing import Annotated, Any

import pytest
from pydantic import TypeAdapter, create_model

from statewright.agents import AgentState, PlannerState, ReflectionState
from statewright.channels import MISSING, LastValue, Messages, append
from statewright.messages import Message
from statewright.state import read_schema
from statewright.state.prebuilt import MessagesState


class Support(MessagesState):
    """A conversation with more fields."""

    customer: str
    notes: Annotated[list[str], append]


def test_messages_state_has_one_field_that_merges_messages() -> None:
    schema = read_schema(MessagesState)
    assert schema.channels == {"messages": Messages()}
    assert schema.fields["messages"].hint == list[Message]
    assert schema.closed


def test_a_subclass_of_messages_state_keeps_its_messages() -> None:
    channels = read_schema(Support).channels
    assert list(channels) == ["messages", "customer", "notes"]
    assert channels["messages"] == Messages()
    assert channels["customer"] == LastValue()
    assert channels["notes"].start() == []


def test_messages_are_merged_by_id() -> None:
    channel = read_schema(MessagesState).channels["messages"]
    first = channel.apply(MISSING, [channel.prepare([Message("a", id="1")], "t1")])
    second = channel.apply(first, [channel.prepare([Message("A", id="1"), "b"], "t2")])
    assert [message.text for message in second] == ["A", "b"]


class CountedState(MessagesState):
    count: int


@pytest.mark.parametrize("state", [MessagesState, CountedState, AgentState, PlannerState, ReflectionState])
def test_a_pydantic_model_can_have_a_messages_state_as_a_field(state: Any) -> None:
    adapter = TypeAdapter(state)
    message = Message("hi", id="1")
    assert adapter.validate_python({"messages": [message], "count": 1})["messages"] == [message]
    assert create_model("Body", state=(state, ...)).model_json_schema()["properties"]["state"]
