"""Structured answers for every kind of schema, from providers that accept only objects."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from dataclasses import dataclass
from enum import Enum
from typing import Any, Generic, Literal, TypeVar

import pytest
from pydantic import BaseModel, TypeAdapter
from tests.integration.providers.conftest import NAMES
from tests.provider_server import Answer, ProviderServer
from typing_extensions import TypedDict

from statewright.agents import create_agent
from statewright.messages import Message
from statewright.models import ModelRequest, OutputForm, ResponseFinished, TextDelta
from statewright.models.providers import PydanticAIModel, connect_model

T = TypeVar("T")


class One(BaseModel):
    a: int


class Other(BaseModel):
    b: str


class Tree(BaseModel):
    name: str
    children: list[Tree] = []


class Box(BaseModel, Generic[T]):
    v: T


class Typed(TypedDict):
    a: int


@dataclass
class Data:
    a: int


class Colour(Enum):
    RED = "red"


class ÄÖ(BaseModel):
    a: int


FORMS: dict[str, tuple[Any, Any]] = {
    "model": (One, {"a": 1}),
    "recursive": (Tree, {"name": "x", "children": [{"name": "y", "children": []}]}),
    "typed dict": (Typed, {"a": 1}),
    "dataclass": (Data, {"a": 1}),
    "generic": (Box[int], {"v": 1}),
    "generic of a list": (Box[list[One]], {"v": [{"a": 1}]}),
    "non-ascii name": (ÄÖ, {"a": 1}),
    "list of anything": (list[Any], [1, {"a": None}]),
    "maps in a model": (Box[dict[str, int]], {"v": {"a": 1}}),
    "map": (dict[str, int], {"a": 1}),
    "list": (list[int], [1, 2]),
    "list of models": (list[One], [{"a": 1}]),
    "list of trees": (list[Tree], [{"name": "x", "children": []}]),
    "tuple": (tuple[int, str], [1, "x"]),
    "number": (int, 3),
    "text": (str, "x ä"),
    "boolean": (bool, False),
    "choice": (Literal["x", "y"], "y"),
    "enum": (Colour, "red"),
    "union": (One | Other, {"b": "x"}),
    "union with a field named value": (list[int] | dict[str, int], {"value": 1}),
    "optional": (One | None, None),
    "schema of a list": ({"type": "array", "items": {"$ref": "#/$defs/N"}, "$defs": {"N": {"type": "integer"}}}, [1]),
    "recursive schema": ({"type": "array", "items": {"$ref": "#"}, "title": "Nested lists!"}, [[[]], []]),
    "schema without a type": ({"properties": {"a": {"type": "integer"}}}, {"a": 1}),
    "schema of an object": ({"type": "object", "title": "x" * 80, "properties": {"a": {"type": "integer"}}}, {"a": 1}),
    "schema of two types": ({"type": ["object", "null"], "properties": {"a": {"type": "integer"}}}, None),
}


@pytest.fixture(scope="module", params=NAMES)
def strict(request: pytest.FixtureRequest) -> Iterator[tuple[ProviderServer, PydanticAIModel]]:
    with ProviderServer(strict=True) as server:
        url = server.openai_url if request.param.startswith("openai") else server.url
        yield server, connect_model(NAMES[request.param], base_url=url, api_key="k")


def conforming(value: Any) -> Any:
    """Create the answer of a model that conforms to the schema it receives, which may wrap the value in a field."""

    def answer(request: Any) -> Answer:
        is_wrapped = '"required": ["value"]' in json.dumps(request.body) or '\\"value\\"]' in json.dumps(request.body)
        return Answer(json.dumps({"value": value} if is_wrapped else value))

    return answer


def parse(form: Any, value: Any) -> Any:
    return value if isinstance(form, dict) else TypeAdapter(form).validate_python(value)


@pytest.mark.parametrize("case", FORMS)
def test_every_form_is_sent_and_parsed(strict: tuple[ProviderServer, PydanticAIModel], case: str) -> None:
    server, model = strict
    form, value = FORMS[case]
    server.script(["free", conforming(value)])
    result = create_agent(model, response_format=form, retries=1).invoke({"messages": ["x"]})
    assert result["structured_response"] == parse(form, value)


@pytest.mark.parametrize("case", FORMS)
def test_streamed_and_whole_answers_are_unwrapped_alike(
    strict: tuple[ProviderServer, PydanticAIModel], case: str
) -> None:
    server, model = strict
    form, value = FORMS[case]
    schema = form if isinstance(form, dict) else TypeAdapter(form).json_schema()
    request = ModelRequest([Message("x")], output=OutputForm(schema, f"the form: {case}"))
    server.script([conforming(value), conforming(value)])

    async def both() -> tuple[str, str, str]:
        events = [event async for event in model.stream(request)]
        last = events[-1]
        assert isinstance(last, ResponseFinished)
        streamed = "".join(event.text for event in events if isinstance(event, TextDelta))
        return streamed, last.response.text, (await model.complete(request)).text

    streamed, finished, whole = asyncio.run(both())
    assert streamed == finished == whole
    assert json.loads(whole) == value


@pytest.mark.parametrize("text", ["[1]", "```json\n[1]\n```", '```json\n{"value": [1]}\n```', '{ "value":[1] }'])
def test_answers_that_deviate_from_the_schema_are_parsed(
    strict: tuple[ProviderServer, PydanticAIModel], text: str
) -> None:
    server, model = strict
    server.script(["free", text])
    result = create_agent(model, response_format=list[int], retries=1).invoke({"messages": ["x"]})
    assert result["structured_response"] == [1]


def test_an_invalid_answer_is_requested_again(strict: tuple[ProviderServer, PydanticAIModel]) -> None:
    server, model = strict
    server.script(["free", '{"value": ["x"]}', '{"value": [1', '{"value": [1]}'])
    result = create_agent(model, response_format=list[int], retries=1).invoke({"messages": ["x"]})
    assert result["structured_response"] == [1]
