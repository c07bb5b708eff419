"""Errors of pydantic as problems of a document."""

from __future__ import annotations

from datetime import date
from typing import Annotated, Any, Literal

import pytest
from pydantic import AfterValidator, BaseModel, ConfigDict, Field, TypeAdapter, ValidationError

from statewright.data.problems import checked, describe_kind, expects, format_json_path, problems_from, suggest_key
from statewright.errors import Problem, ToolError


class Strict(BaseModel):
    model_config = ConfigDict(strict=True, extra="forbid")


class Cat(Strict):
    kind: Literal["cat"]
    lives: Annotated[int, Field(ge=1), expects("a whole number from 1")] = 9


class Dog(Strict):
    kind: Literal["dog"]
    tricks: dict[str, int] = {}


def _refuse(value: str) -> str:
    raise ValueError(f"{value!r} will not do.", "Write another one.")


def _fail(value: str) -> None:
    raise ToolError(f"{value!r} is not a tool.")


class Owner(Strict):
    name: str = Field(alias="ownerName", examples=['ownerName = "Ann"'])
    pets: list[Annotated[Cat | Dog, Field(discriminator="kind")]] = Field(default=[], min_length=1)
    nickname: Annotated[str, AfterValidator(_refuse)] = ""
    tool: Annotated[str, checked(_fail)] | None = None
    size: float | None = None
    favourite: Cat | None = None


def problems(document: Any, **options: Any) -> list[Problem]:
    with pytest.raises(ValidationError) as caught:
        TypeAdapter(Owner).validate_python(document)
    return list(problems_from(caught.value, Owner, **options))


@pytest.mark.parametrize(
    ("document", "expected"),
    [
        (5, "It must be a map, but is a number: 5."),
        ({}, "'ownerName' is missing. Write ownerName = \"Ann\"."),
        (
            {"ownerName": "a", "pet": 1},
            "In 'pet': Unknown key 'pet'. Did you mean 'pets'? Keys: favourite, nickname, ownerName, pets, size, tool.",
        ),
        ({"ownerName": None}, "In 'ownerName': It must be a string, but is null: null."),
        ({"ownerName": "a", "size": "big"}, "In 'size': It must be a number, but is a string: \"big\"."),
        ({"ownerName": "a", "pets": []}, "In 'pets': It must have at least 1 item, but is a list: []."),
        ({"ownerName": "a", "pets": [{}]}, "In 'pets[0]': 'kind' is missing."),
        (
            {"ownerName": "a", "pets": [{"kind": "cta"}]},
            "In 'pets[0].kind': 'cta' is not a valid kind. Did you mean 'cat'? Kinds: cat, dog.",
        ),
        (
            {"ownerName": "a", "pets": [{"kind": "cat", "live": 1}]},
            "In 'pets[0].live': Unknown key 'live'. Did you mean 'lives'? Keys: kind, lives.",
        ),
        (
            {"ownerName": "a", "pets": [{"kind": "cat", "lives": True}]},
            "In 'pets[0].lives': It must be a whole number from 1, but is a boolean: true.",
        ),
        (
            {"ownerName": "a", "pets": [{"kind": "dog", "tricks": {"sit": "x"}}]},
            "In 'pets[0].tricks.sit': It must be a whole number, but is a string: \"x\".",
        ),
        (
            {"ownerName": "a", "favourite": {"kind": "dog"}},
            "In 'favourite.kind': It must be 'cat', but is a string: \"dog\".",
        ),
        ({"ownerName": "a", "nickname": "b"}, "In 'nickname': 'b' will not do. Write another one."),
        ({"ownerName": "a", "tool": "b"}, "In 'tool': 'b' is not a tool."),
    ],
)
def test_a_problem_names_the_path_the_requirement_and_the_value(document: Any, expected: str) -> None:
    assert [str(problem) for problem in problems(document)] == [expected]


def test_all_problems_are_reported() -> None:
    reported = problems({"size": [], "pets": [{"kind": "cat", "lives": 0}, 1]})
    assert [problem.path for problem in reported] == ["", "pets[0].lives", "pets[1]", "size"]


def test_a_list_without_valid_items_is_not_called_empty() -> None:
    reported = problems({"ownerName": "a", "pets": [5]})
    assert [str(problem) for problem in reported] == ["In 'pets[0]': It must be a map, but is a number: 5."]


def test_a_part_of_a_document_has_positions_and_a_notation() -> None:
    (problem,) = problems(
        {"ownerName": "a", "favourite": 1},
        within=("owners", 0),
        position_of=lambda path: (len(path), 7),
        format_path=lambda path: "/".join(map(str, path)),
        map_noun="a table",
    )
    assert problem == Problem("owners/0/favourite", 3, 7, "It must be a table, but is a number: 1.")


def test_4_1_11_secret_values_are_not_quoted() -> None:
    (problem,) = problems({"ownerName": ["hunter2"]}, is_secret=lambda path: path == ("ownerName",))
    assert problem.message == "It must be a string, but is a list."


def test_values_are_named_by_their_type() -> None:
    values = (True, "x", 1, 1.5, [], {}, None, date(2020, 1, 1), {1})
    kinds = "a boolean, a string, a number, a number, a list, a map, null, a date or time, of type set"
    assert ", ".join(map(describe_kind, values)) == kinds
    assert describe_kind({}, "a table") == "a table"


def test_messages_suggest_keys_and_format_paths() -> None:
    assert suggest_key("live", [Cat]) == "Did you mean 'lives'? Keys: kind, lives."
    assert format_json_path(("a", 0, "b", 1, 2)) == "a[0].b[1][2]"
