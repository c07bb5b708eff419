"""Type hints that were once handled incorrectly."""

from typing import Annotated, Any, Dict, List, Literal, NotRequired, Optional, Set, TypedDict  # noqa: UP035

import pytest
from pydantic import BaseModel, Field

from statewright import START, StateGraph, StateSchema
from statewright.channels import LastValue
from statewright.errors import InvalidUpdateError
from statewright.state import check_value


class Inner(TypedDict):
    n: Annotated[int, Field(gt=0)]
    note: "NotRequired[str]"


class Tree(TypedDict, total=False):
    value: int
    children: "list[Tree]"


class Outer(TypedDict):
    inners: list[Inner]
    tree: Optional[Tree]  # noqa: UP045


@pytest.mark.parametrize("hint", [list[str], Optional[int], Literal["a"], dict[str, int]])  # noqa: UP045
def test_a_type_in_a_dict_schema_is_not_a_reducer(hint: Any) -> None:
    field = StateSchema({"x": hint}).fields["x"]
    assert type(field.channel) is LastValue
    assert field.hint == hint


@pytest.mark.parametrize(("hint", "value"), [(List, [1]), (Dict, {"a": 1}), (Set, {1})])  # noqa: UP006
def test_bare_collections_of_typing_can_be_checked(hint: Any, value: Any) -> None:
    assert check_value("x", hint, value) == value


@pytest.mark.parametrize("value", [{"n": 1}, {"n": 1, "note": "x"}])
def test_nested_typeddicts_are_checked_with_their_qualifiers(value: Any) -> None:
    assert check_value("x", Inner, value) == value
    assert check_value("x", list[Inner], [value]) == [value]
    assert check_value("x", Outer, {"inners": [value], "tree": None}) == {"inners": [value], "tree": None}


def test_constraints_inside_a_typeddict_are_checked() -> None:
    with pytest.raises(InvalidUpdateError, match="greater than 0"):
        check_value("x", list[Inner], [{"n": -1}])


def test_a_typeddict_can_contain_itself() -> None:
    tree = {"value": 1, "children": [{"value": 2}]}
    assert check_value("x", Tree, tree) == tree
    app = StateGraph(Tree).add_node("n", lambda s: None).add_edge(START, "n").compile()
    assert app.get_input_jsonschema()["type"] == "object"


def test_fields_with_odd_names_and_types_have_a_json_schema() -> None:
    class Odd(TypedDict, total=False):
        _private: int
        model_config: int
        copy: str
        unknown: object

    class Foreign:
        """A class that pydantic does not know."""

    Odd.__annotations__["unknown"] = Foreign
    app = StateGraph(Odd).add_node("n", lambda s: None).add_edge(START, "n").compile()
    assert set(app.get_input_jsonschema()["properties"]) == {"_private", "model_config", "copy", "unknown"}


def test_the_model_computes_a_default_that_depends_on_other_fields() -> None:
    class Model(BaseModel):
        first: str = "Ada"
        greeting: str = Field(default_factory=lambda data: f"Hello, {data['first']}!")

    app = StateGraph(Model).add_node("n", lambda s: {"first": s.greeting}).add_edge(START, "n").compile()
    assert app.invoke({"first": "Bob"})["first"] == "Hello, Bob!"
