"""Structured output: answers that are validated by a class or a JSON Schema, and requested again if invalid."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Final, get_origin

from statewright.agents.loop.model_call import ask
from statewright.agents.tools.signature import ValueSchema
from statewright.data.json_schema import UnusableSchema
from statewright.errors import InvalidConfig, MissingLibrary, ModelAnswerInvalid
from statewright.graph import Runtime
from statewright.messages import Message
from statewright.models import ChatModel, ModelRequest, OutputForm
from statewright.models.adapters.conversion import without_fence

ATTEMPTS: Final = 3
"""Maximum number of requests for one valid answer."""

_ANSWER_NOW: Final = "Now give your final answer to the conversation above, in the requested form."
_CUT_OFF: Final = "it was cut off at the token limit. Raise max_tokens, or request less."


class StructuredOutput:
    """Requests answers in the form of a pydantic model, a dataclass, a TypedDict, or a JSON Schema.

    Raises InvalidConfig for any other form.
    """

    def __init__(self, response_format: Any) -> None:
        self._schema = _value_schema(response_format)
        schema = self._schema.schema
        is_json_schema = isinstance(response_format, Mapping)
        name = schema.get("title", "answer") if is_json_schema else getattr(response_format, "__name__", "answer")
        self.output = OutputForm(schema, str(name))

    async def ask(self, model: ChatModel, request: ModelRequest, runtime: Runtime[Any]) -> Any:
        """Request an answer, and return it parsed: an instance of the class, or plain JSON for a JSON Schema.

        Raises ModelAnswerInvalid if the model refuses to answer, or if none of `ATTEMPTS` answers is valid.
        """
        messages = list(request.messages)
        if messages and messages[-1].role == "assistant":
            messages.append(Message(_ANSWER_NOW))
        request = replace(request, messages=messages, output=self.output, tools=(), tool_choice="auto")
        problem = ""
        for position in range(ATTEMPTS):
            response = await ask(model, request, runtime, position=position, show=False)
            if response.finish_reason == "refused":
                raise _final_error(f"The model refused to answer as {self.output.name!r}: {response.text[:200]}")
            if response.finish_reason == "length":  # invalid even if it happens to be valid JSON
                problem = _CUT_OFF
            else:
                try:
                    return self._schema.read_json(without_fence(response.text))
                except ValueError as error:
                    problem = str(error)
            feedback = f"Your answer does not have the requested form: {problem}\nAnswer with nothing but the JSON."
            request = replace(request, messages=[*request.messages, response.message, Message(feedback)])
        raise _final_error(
            f"The model gave no valid {self.output.name!r} in {ATTEMPTS} answers. The last one is invalid: {problem}"
        )


def _value_schema(response_format: Any) -> ValueSchema:
    """Return the schema of a `response_format`. Raises InvalidConfig if it has no schema."""
    cause: Exception | None = None
    try:
        if isinstance(response_format, Mapping | type) or get_origin(response_format) is not None:
            return ValueSchema(response_format)
    except MissingLibrary:
        raise
    except UnusableSchema as error:
        raise InvalidConfig(f"response_format cannot be used as a JSON Schema: {error}") from error
    except Exception as error:
        cause = error
    raise InvalidConfig(
        f"response_format is {response_format!r}. Pass a pydantic model, a dataclass, a TypedDict or a JSON Schema."
    ) from cause


def _final_error(message: str) -> ModelAnswerInvalid:
    """Return an error that is marked as final, so that retry policies do not run the task again."""
    error = ModelAnswerInvalid(message)
    error.is_final = True
    return error
