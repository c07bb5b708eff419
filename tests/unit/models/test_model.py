"""Requests to models, and their responses."""

from dataclasses import FrozenInstanceError

import pytest

from statewright.messages import Message
from statewright.models import ModelRequest, ModelResponse, OutputForm, Usage


def test_a_request_needs_only_messages() -> None:
    request = ModelRequest((Message("hi"),))
    assert (request.system, request.tools, request.output, request.temperature) == ("", (), None, None)


def test_requests_are_immutable() -> None:
    with pytest.raises(FrozenInstanceError):
        ModelRequest(()).system = "other"  # type: ignore[misc]


def test_tokens_are_the_sum_of_input_and_output() -> None:
    assert Usage(input_tokens=2, output_tokens=3).tokens == 5


def test_the_text_of_a_response_is_that_of_its_message() -> None:
    parts = [{"type": "text", "text": "a"}, {"type": "image"}, {"type": "text", "text": "b"}]
    assert ModelResponse(Message(parts, role="assistant")).text == "ab"


def test_an_output_schema_has_a_default_name() -> None:
    assert OutputForm({"type": "object"}).name == "answer"


def test_usage_is_added_field_by_field() -> None:
    total = Usage(1, 2, 0.25, 3, 4) + Usage(10, 20, 0.5, 30, 40)
    assert total == Usage(11, 22, 0.75, 33, 44)
    assert sum([total, total], Usage()) == total + total


def test_reasoning_is_read_from_the_metadata() -> None:
    message = Message("x", role="assistant", metadata={"reasoning": "hm"})
    assert ModelResponse(message).reasoning == "hm"
    assert ModelResponse(Message("x", role="assistant")).reasoning == ""
