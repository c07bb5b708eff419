"""Structured output: answers validated by a class or a JSON Schema, and requested again if they do not fit."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any, Final, cast, get_origin

from pydantic import ValidationError

from statewright.agents.loop.model_call import ask
from statewright.agents.tools.tool import describe_problems
from statewright.data.json_schema import UnusableSchema, json_schema_validator
from statewright.errors import InvalidConfig, ModelAnswerInvalid
from statewright.graph import Runtime
from statewright.messages import Message
from statewright.models import ChatModel, ModelRequest, OutputForm
from statewright.models.adapters.conversion import without_fence
from statewright.state import type_adapter

ATTEMPTS: Final = 3
"""Maximum number of requests until an answer fits."""

_NOW_IN_FORM: Final = "Give your final answer to the conversation above now, in the form that is asked for."
_CUT_OFF: Final = "it was cut off at the limit of tokens. Raise max_tokens, or ask for less."


class StructuredOutput:
    """Structured output by a pydantic model, a dataclass, a TypedDict, or a JSON Schema.

    Raises InvalidConfig for anything else.
    """

    def __init__(self, schema_source: Any) -> None:
        read_output = _output_of_schema if isinstance(schema_source, Mapping) else _output_of_class
        self.output, self._read = read_output(schema_source)

    async def ask(self, model: ChatModel, request: ModelRequest, runtime: Runtime[Any]) -> Any:
        """Request an answer and parse it. Raises ModelAnswerInvalid if none of a few attempts fits."""
        messages = list(request.messages)
        if messages and messages[-1].role == "assistant":
            messages.append(Message(_NOW_IN_FORM))
        request = replace(request, messages=messages, output=self.output, tools=(), tool_choice="auto")
        problem = ""
        for position in range(ATTEMPTS):
            response = await ask(model, request, runtime, position=position, show=False)
            if response.finish_reason == "refused":
                raise _final_error(f"The model refused to answer as {self.output.name!r}: {response.text[:200]}")
            if response.finish_reason == "length":  # though it may be JSON by chance
                problem = _CUT_OFF
            else:
                try:
                    return self._read(without_fence(response.text))
                except ValueError as error:
                    problem = _describe_problem(error)
            feedback = (
                f"Your answer does not have the form that was asked for: {problem}\nAnswer with nothing but the JSON."
            )
            request = replace(request, messages=[*request.messages, response.message, Message(feedback)])
        raise _final_error(
            f"The model was asked for {self.output.name!r} {ATTEMPTS} times; its last answer does not fit: {problem}"
        )


def _final_error(message: str) -> ModelAnswerInvalid:
    """Return the error after the last attempt, which no retry policy retries."""
    error = ModelAnswerInvalid(message)
    error.is_final = True
    return error


def _output_of_class(schema_source: Any) -> tuple[OutputForm, Callable[[str], Any]]:
    try:
        if not isinstance(schema_source, type) and get_origin(schema_source) is None:
            raise TypeError(f"{schema_source!r} is not a class")
        adapter = type_adapter(schema_source)
        schema = adapter.json_schema()
    except Exception as error:
        raise InvalidConfig(
            f"response_format is {schema_source!r}. Pass a pydantic model, a dataclass, a TypedDict or a JSON Schema."
        ) from error
    return OutputForm(schema, getattr(schema_source, "__name__", "answer")), adapter.validate_json


def _output_of_schema(schema_source: Any) -> tuple[OutputForm, Callable[[str], Any]]:
    schema = dict(cast("Mapping[str, Any]", schema_source))
    try:
        validator = json_schema_validator(schema, extra="models")
    except UnusableSchema as error:
        raise InvalidConfig(f"response_format cannot be used as a JSON Schema: {error}") from error

    def read(text: str) -> Any:
        value = json.loads(text)
        problem = next(iter(validator.iter_errors(value)), None)
        if problem is not None:
            raise ValueError(str(problem.message))
        return value

    return OutputForm(schema, str(schema.get("title", "answer"))), read


def _describe_problem(error: ValueError) -> str:
    """Describe a validation error, without the URLs that pydantic adds."""
    return describe_problems(error.errors(), "the answer") if isinstance(error, ValidationError) else str(error)
