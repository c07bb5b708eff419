"""The state that most conversations need."""

from typing import Annotated, Any

import pytest
from pydantic import TypeAdapter, create_model

from statewright.agents import AgentState, PlannerState, ReflectionState
from statewright.channels import MISSING, LastValue, Messages, append
from statewright.messages import Message
from statewright.state import MessagesState, read_schema


class Support(MessagesState):
    """A conversation with more fields."""

    customer: str
    notes: Annotated[list[str], append]


def test_it_has_one_field_that_merges_messages() -> None:
    schema = read_schema(MessagesState)
    assert schema.channels == {"messages": Messages()}
    assert schema.fields["messages"].hint == list[Message]
    assert schema.closed


def test_a_state_that_derives_from_it_keeps_its_messages() -> None:
    channels = read_schema(Support).channels
    assert list(channels) == ["messages", "customer", "notes"]
    assert channels["messages"] == Messages()
    assert channels["customer"] == LastValue()
    assert channels["notes"].start() == []


def test_messages_are_merged_by_id() -> None:
    channel = read_schema(MessagesState).channels["messages"]
    first = channel.apply(MISSING, [channel.prepare([Message("a", id="1")], "t1")])
    then = channel.apply(first, [channel.prepare([Message("A", id="1"), "b"], "t2")])
    assert [message.text for message in then] == ["A", "b"]


class More(MessagesState):
    count: int


@pytest.mark.parametrize("state", [MessagesState, More, AgentState, PlannerState, ReflectionState])
def test_a_class_of_pydantic_may_have_it_as_a_field(state: Any) -> None:
    adapter = TypeAdapter(state)
    message = Message("hi", id="1")
    assert adapter.validate_python({"messages": [message], "count": 1})["messages"] == [message]
    assert create_model("Body", state=(state, ...)).model_json_schema()["properties"]["state"]
