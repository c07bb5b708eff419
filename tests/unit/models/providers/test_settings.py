"""Requests as settings and parameters of pydantic-ai."""

from typing import Any

import pytest
from pydantic_ai.models.test import TestModel
from pydantic_ai.profiles import ModelProfile

from statewright.errors import ModelError
from statewright.messages import Message
from statewright.models import ModelRequest, OutputForm, ToolSpec
from statewright.models.providers.outgoing import request_parameters, request_settings

TOOL = ToolSpec("add", "adds", {"type": "object", "properties": {}}, strict=True)
FORM = OutputForm({"type": "object", "properties": {}}, name="sum")


def request(**wanted: Any) -> ModelRequest:
    return ModelRequest([Message("hi")], **wanted)


def test_the_libraries_of_vendors_never_try_again() -> None:
    assert request_settings(request(extra={"max_retries": 3}), {}) == {"max_retries": 0}


def test_settings_have_their_names() -> None:
    asked = request(temperature=0.0, max_tokens=9, top_p=0.5, stop=["x"], seed=1, timeout=2.5)
    assert request_settings(asked, {}) == {
        "temperature": 0.0,
        "max_tokens": 9,
        "top_p": 0.5,
        "stop_sequences": ["x"],
        "seed": 1,
        "request_timeout": 2.5,
        "max_retries": 0,
    }


def test_a_request_wins_over_extra_and_extra_over_the_connection() -> None:
    settings = request_settings(
        request(seed=3, extra={"seed": 2, "top_k": 2}), {"seed": 1, "top_k": 1, "max_tokens": 1}
    )
    assert settings == {"seed": 3, "top_k": 2, "max_tokens": 1, "max_retries": 0}


def test_headers_of_both_are_sent() -> None:
    settings = request_settings(request(extra={"extra_headers": {"b": "2"}}), {"extra_headers": {"a": "1", "b": "1"}})
    assert settings.get("extra_headers") == {"a": "1", "b": "2"}


@pytest.mark.parametrize(("choice", "sent"), [("auto", None), ("any", "required"), ("none", "none"), ("add", ["add"])])
def test_the_choice_of_a_tool(choice: str, sent: object) -> None:
    assert request_settings(request(tools=[TOOL], tool_choice=choice), {}).get("tool_choice") == sent


def test_without_tools_nothing_is_said_of_them() -> None:
    assert request_settings(request(tool_choice="any", parallel_tool_calls=False), {}) == {"max_retries": 0}


def test_a_chosen_tool_has_to_be_offered() -> None:
    with pytest.raises(ModelError, match=r"'ad', which is not one of its tools. Did you mean 'add'\?"):
        request_settings(request(tools=[TOOL], tool_choice="ad"), {})


def test_tools_are_defined_by_their_schema() -> None:
    (tool,) = request_parameters(request(tools=[TOOL]), TestModel()).function_tools
    assert (tool.name, tool.description, tool.strict) == ("add", "adds", True)
    assert tool.parameters_json_schema == TOOL.parameters


@pytest.mark.parametrize(("able", "mode"), [(True, "native"), (False, "prompted")])
def test_a_form_is_sent_or_told(able: bool, mode: str) -> None:
    model = TestModel(profile=ModelProfile(supports_json_schema_output=able))
    parameters = request_parameters(request(output=FORM), model)
    assert parameters.output_mode == mode
    assert parameters.output_object is not None
    assert (parameters.output_object.name, parameters.output_object.json_schema) == ("sum", FORM.schema)
