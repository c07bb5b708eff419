"""Conversion of requests to settings and parameters of pydantic-ai."""

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


def request(**options: Any) -> ModelRequest:
    return ModelRequest([Message("hi")], **options)


def test_vendor_libraries_never_retry() -> None:
    assert request_settings(request(extra={"max_retries": 3}), {}) == {"max_retries": 0}


def test_settings_are_renamed_for_pydantic_ai() -> None:
    all_settings = request(temperature=0.0, max_tokens=9, top_p=0.5, stop=["x"], seed=1, timeout=2.5)
    assert request_settings(all_settings, {}) == {
        "temperature": 0.0,
        "max_tokens": 9,
        "top_p": 0.5,
        "stop_sequences": ["x"],
        "seed": 1,
        "request_timeout": 2.5,
        "max_retries": 0,
    }


def test_settings_of_the_request_override_extra_and_the_connection() -> None:
    settings = request_settings(
        request(seed=3, extra={"seed": 2, "top_k": 2}), {"seed": 1, "top_k": 1, "max_tokens": 1}
    )
    assert settings == {"seed": 3, "top_k": 2, "max_tokens": 1, "max_retries": 0}


def test_headers_of_request_and_connection_are_merged() -> None:
    settings = request_settings(request(extra={"extra_headers": {"b": "2"}}), {"extra_headers": {"a": "1", "b": "1"}})
    assert settings.get("extra_headers") == {"a": "1", "b": "2"}


@pytest.mark.parametrize(("choice", "sent"), [("auto", None), ("any", "required"), ("none", "none"), ("add", ["add"])])
def test_tool_choice_is_converted(choice: str, sent: object) -> None:
    assert request_settings(request(tools=[TOOL], tool_choice=choice), {}).get("tool_choice") == sent


def test_tool_settings_are_omitted_without_tools() -> None:
    assert request_settings(request(tool_choice="any", parallel_tool_calls=False), {}) == {"max_retries": 0}


def test_an_unknown_chosen_tool_is_rejected() -> None:
    with pytest.raises(ModelError, match=r"'ad', which is not one of its tools. Did you mean 'add'\?"):
        request_settings(request(tools=[TOOL], tool_choice="ad"), {})


def test_tools_are_defined_by_their_schema() -> None:
    (tool,) = request_parameters(request(tools=[TOOL]), TestModel()).function_tools
    assert (tool.name, tool.description, tool.strict) == ("add", "adds", True)
    assert tool.parameters_json_schema == TOOL.parameters


@pytest.mark.parametrize(("supported", "mode"), [(True, "native"), (False, "prompted")])
def test_an_output_schema_is_sent_natively_or_in_the_prompt(supported: bool, mode: str) -> None:
    model = TestModel(profile=ModelProfile(supports_json_schema_output=supported))
    parameters = request_parameters(request(output=FORM), model)
    assert parameters.output_mode == mode
    assert parameters.output_object is not None
    assert (parameters.output_object.name, parameters.output_object.json_schema) == ("sum", FORM.schema)
