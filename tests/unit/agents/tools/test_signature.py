"""The arguments of a function: their schema, and their validation."""

from __future__ import annotations

from collections.abc import Callable
from datetime import date
from enum import Enum
from typing import TYPE_CHECKING, Annotated, Any, Literal

import pytest
from pydantic import BaseModel, Field

from statewright.agents import ToolContext
from statewright.agents.tools.signature import Signature
from statewright.errors import ToolError

if TYPE_CHECKING:
    from nowhere import Unknown  # pyright: ignore


class Level(Enum):
    LOW = "low"
    HIGH = "high"


class Point(BaseModel):
    x: int
    y: int = 0


def find(key: str, limit: int = 10, *, context: ToolContext) -> None: ...


def read(function: Callable[..., Any], **arguments: Any) -> dict[str, Any]:
    return Signature("find", function, {}).read(arguments)


def test_the_schema_describes_an_object_without_the_context() -> None:
    signature = Signature("find", find, {"key": "Which one."})
    assert signature.injected_kwargs(ToolContext(idempotency_key="k")) == {"context": ToolContext(idempotency_key="k")}
    assert signature.schema == {
        "type": "object",
        "additionalProperties": False,
        "properties": {
            "key": {"type": "string", "description": "Which one."},
            "limit": {"type": "integer", "default": 10},
        },
        "required": ["key"],
    }


def test_missing_optional_arguments_are_not_passed() -> None:
    assert read(find, key="a") == {"key": "a"}


def test_numbers_and_text_are_converted() -> None:
    assert read(find, key=5, limit="3") == {"key": "5", "limit": 3}


def test_a_mapping_or_list_for_a_text_becomes_json() -> None:
    def write(content: str, note: str | None = None, tag: Annotated[str, Field(min_length=1)] = "x") -> None: ...

    arguments_read = read(write, content={"a": ["é"]}, note=[1], tag=True)
    assert arguments_read == {"content": '{"a": ["é"]}', "note": "[1]", "tag": "true"}
    assert read(write, content="a", note=None) == {"content": "a", "note": None}
    assert Signature("write", write, {}).schema["properties"]["content"] == {"type": "string"}
    with pytest.raises(ToolError, match="'many' is"):
        read(_many, many={"a": 1})


def _many(many: list[str]) -> None: ...


def test_values_are_converted_to_the_annotated_types() -> None:
    def mixed(level: Level, day: date, point: Point, pair: tuple[int, int]) -> None: ...

    arguments_read = read(mixed, level="high", day="2026-01-02", point={"x": 1}, pair=[1, 2])
    assert arguments_read == {"level": Level.HIGH, "day": date(2026, 1, 2), "point": Point(x=1), "pair": (1, 2)}


def test_2_7_a_mismatch_names_what_is_expected_and_what_was_found() -> None:
    with pytest.raises(ToolError) as caught:
        read(find, kei="a", limit="soon")
    assert str(caught.value) == (
        "Tool 'find' was called with wrong arguments: 'key' is missing; 'limit' is 'soon': Input should "
        "be a valid integer, unable to parse string as an integer; argument 'kei' does not exist "
        "(Did you mean 'key'?). "
        "It takes key (string), limit (integer, optional)."
    )


def test_2_7_an_unknown_argument_is_named() -> None:
    with pytest.raises(ToolError, match=r"argument 'zzz' does not exist\. It takes nothing\."):
        read(lambda: None, zzz=1)


def test_a_long_value_is_not_quoted_in_full() -> None:
    with pytest.raises(ToolError) as caught:
        read(find, key="a", limit="x" * 10_000)
    assert len(str(caught.value)) < 500


def test_the_error_describes_the_expected_types() -> None:
    def mixed(level: Literal["a", "b"], point: Point, either: int | str, anything: Any, plain) -> None: ...  # pyright: ignore

    with pytest.raises(ToolError) as caught:
        read(mixed)
    expected = (
        "It takes level (a, b), point (object), either (integer or string), anything (anything), plain (anything)."
    )
    assert str(caught.value).endswith(expected)


def test_a_function_with_kwargs_accepts_further_arguments() -> None:
    def more(key: str, **rest: Any) -> None: ...

    assert read(more, key="a", unused="b") == {"key": "a", "unused": "b"}


def test_arguments_can_have_names_of_pydantic_or_private_names() -> None:
    def odd(schema: str, model_config: str, _path: str, copy: int = 1) -> None: ...

    arguments_read = read(odd, schema="a", model_config="b", _path="c")
    assert arguments_read == {"schema": "a", "model_config": "b", "_path": "c"}
    assert list(Signature("odd", odd, {}).schema["properties"]) == ["schema", "model_config", "_path", "copy"]


def test_descriptions_of_annotations_are_kept() -> None:
    def described(key: Annotated[str, Field(description="Which one.", min_length=2)]) -> None: ...

    assert Signature("described", described, {}).schema["properties"]["key"]["description"] == "Which one."
    with pytest.raises(ToolError, match="at least 2 characters"):
        read(described, key="a")


def test_a_default_that_is_not_json_is_omitted() -> None:
    nothing = object()

    def odd(key: Any = nothing) -> None: ...

    assert "default" not in Signature("odd", odd, {}).schema["properties"]["key"]


def test_signatures_without_a_schema_are_refused() -> None:
    def by_position(one: int, /) -> None: ...
    def several(*many: int) -> None: ...
    def unknown(one: Unknown) -> None: ...
    def strange(one: Callable.__class__) -> None: ...  # pyright: ignore

    for function in (by_position, several):
        with pytest.raises(ToolError, match="by position only"):
            Signature("odd", function, {})
    with pytest.raises(ToolError, match="cannot be read: name 'Unknown' is not defined"):
        Signature("odd", unknown, {})

    class Strange: ...

    def of_strange(one) -> None: ...  # pyright: ignore

    of_strange.__annotations__["one"] = Strange
    with pytest.raises(ToolError, match="types that JSON cannot express"):
        Signature("odd", of_strange, {})
