"""The data of a network: read and written in any form, and compared afterwards."""

from __future__ import annotations

import copy
from dataclasses import dataclass, field
from typing import Any, TypedDict

import pytest
from pydantic import BaseModel

from statewright.agents.state.data import PREFIX, Data, DataSchema, field_values, read_data, touched_fields
from statewright.errors import InvalidConfig, InvalidSchema, StatewrightError


class Typed(TypedDict, total=False):
    done: bool
    files: list[str]


@dataclass
class Plain:
    done: bool = False
    files: list[str] = field(default_factory=list[str])


@dataclass(frozen=True)
class Frozen:
    done: bool = False


@dataclass(slots=True)
class Slotted:
    done: bool = False
    files: list[str] = field(default_factory=list[str])


@dataclass
class Needy:
    name: str


class Model(BaseModel):
    done: bool = False
    files: list[str] = []


class Odd:
    """Cannot be compared."""

    def __eq__(self, other: object) -> bool:
        raise ValueError("ambiguous")

    __hash__ = None  # type: ignore[assignment]


# -- Data


def test_fields_are_read_and_written_by_attribute_and_by_key() -> None:
    data = Data({"a": 1})
    data.b = [1]
    data["c"] = 3
    data.b.append(2)
    assert (data.a, data["b"], data.c) == (1, [1, 2], 3)
    assert list(data) == ["a", "b", "c"]
    assert (len(data), "b" in data, data.get("z", "none")) == (3, True, "none")
    assert repr(data) == "Data(a=1, b=[1, 2], c=3)"


def test_what_it_was_made_of_is_never_changed() -> None:
    values: dict[str, Any] = {"deep": {"list": [1]}}
    data = Data(values)
    data.deep["list"].append(2)
    data.new = 1
    assert values == {"deep": {"list": [1]}}
    assert data.deep == {"list": [1, 2]}


def test_what_was_looked_at_has_been_touched() -> None:
    data = Data({"number": 1, "looked_at": [1], "alone": [2]})
    assert (data.number, data.looked_at) == (1, [1])
    data.number = 2
    assert touched_fields(data) == {"looked_at": [1], "number": 2}


def test_declared_fields_without_a_value_are_none_as_attributes_only() -> None:
    data = Data({}, ("done",))
    assert data.done is None
    assert "done" not in data
    with pytest.raises(KeyError):
        data["done"]


@pytest.mark.parametrize("write", [lambda data: setattr(data, "dome", 1), lambda data: data.update(dome=1)])
def test_an_undeclared_field_cannot_be_written(write: Any) -> None:
    with pytest.raises(AttributeError, match=r"no field 'dome'\. Did you mean 'done'\? Fields: done\."):
        write(Data({}, ("done",)))


def test_an_undeclared_field_cannot_be_read() -> None:
    with pytest.raises(AttributeError, match="Did you mean 'done'"):
        _ = Data({}, ("done",)).dome
    with pytest.raises(AttributeError, match=r"no field 'dome' yet.*get\('dome'\)"):
        _ = Data({"done": 1}).dome


def test_fields_cannot_be_removed() -> None:
    with pytest.raises(TypeError, match="Set it to None"):
        del Data({"a": 1})["a"]
    with pytest.raises(TypeError, match="Set it to None"):
        Data({"a": 1}).pop("a")


def test_copies_are_independent() -> None:
    data = Data({"a": [1]}, ("a",))
    other = copy.deepcopy(data)
    other.a.append(2)
    assert (data.a, other.a) == ([1], [1, 2])


@pytest.mark.parametrize("name", ["items", "keys", "values"])
def test_a_field_named_like_a_method_of_mappings_can_be_read_back(name: str) -> None:
    """`state.data.items` is what a program writes first that has items."""
    data = Data({name: ["x"]}, (name,))
    assert getattr(data, name) == ["x"]


def test_keys_are_names() -> None:
    with pytest.raises((TypeError, AttributeError)):
        Data({})[3] = "three"  # type: ignore[index]


# -- forms


@pytest.mark.parametrize("source", [Typed, Plain, Slotted, Model])
def test_the_fields_of_a_class_become_fields_of_a_graph(source: type) -> None:
    assert set(DataSchema(source).entries) == {f"{PREFIX}done", f"{PREFIX}files"}
    assert DataSchema(source).names == ("done", "files")
    assert DataSchema().names is None


@pytest.mark.parametrize("source", [Plain, Slotted, Model])
def test_an_instance_is_made_of_values_and_read_back(source: type) -> None:
    form = DataSchema(source)
    values = {"done": False, "files": ["a"]}
    made = form.build(values)
    assert type(made) is source
    made.files.append("b")
    made.done = True
    assert form.changes(made, values) == {"done": True, "files": ["a", "b"]}
    assert values["files"] == ["a"]


@pytest.mark.parametrize("source", [Typed, Plain, Slotted, Model, None])
def test_nothing_has_changed_where_nobody_wrote(source: type | None) -> None:
    form = DataSchema(source)
    values = {"done": False, "files": ["a"]}
    made = form.build(values)
    assert made.files == ["a"]
    assert form.changes(made, values) == {}


def test_a_value_of_another_type_is_a_change() -> None:
    form = DataSchema()
    data = form.build({"flag": 1})
    data.flag = True
    assert form.changes(data, {"flag": 1}) == {"flag": True}


def test_what_cannot_be_compared_counts_as_changed() -> None:
    form, odd = DataSchema(), Odd()
    data = form.build({"odd": odd})
    data.odd = Odd()
    assert list(form.changes(data, {"odd": odd})) == ["odd"]
    same = form.build({"odd": 1})
    same.odd = odd
    assert form.changes(same, {"odd": odd}) == {}


def test_a_misspelt_attribute_of_an_instance_is_not_dropped_in_silence() -> None:
    """A TypedDict and a pydantic model refuse it too. Here it is refused at the latest when the changes are taken."""
    values: dict[str, Any] = {"done": False, "files": []}
    form = DataSchema(Plain)

    def write() -> None:
        data = form.build(values)
        data.dome = True
        form.changes(data, values)

    with pytest.raises((AttributeError, StatewrightError), match="dome"):
        write()


@pytest.mark.parametrize("source", [int, list[str], dict[str, int]])
def test_a_class_without_fields_describes_no_data(source: Any) -> None:
    with pytest.raises((InvalidSchema, InvalidConfig)):
        DataSchema(source)


# -- what somebody gives


@pytest.mark.parametrize(
    ("given", "values"),
    [
        (None, {}),
        ({"a": 1}, {"a": 1}),
        (Data({"a": 1}), {"a": 1}),
        (Plain(done=True), {"done": True, "files": []}),
        (Plain, {"done": False, "files": []}),
        (Frozen(True), {"done": True}),
        (Model, {"done": False, "files": []}),
        (Model(files=["x"]), {"done": False, "files": ["x"]}),
        (Typed, {}),
    ],
)
def test_data_is_given_in_many_forms(given: Any, values: Any) -> None:
    assert read_data(given)[1] == values


@pytest.mark.parametrize("given", [3, "text", [1], object()])
def test_anything_else_is_refused(given: Any) -> None:
    with pytest.raises(InvalidConfig, match="Pass a mapping"):
        read_data(given)


def test_a_class_that_needs_values_is_refused() -> None:
    with pytest.raises(InvalidConfig, match=r"Needy.*Pass an instance"):
        read_data(Needy)


def test_a_mapping_is_held_to_its_schema() -> None:
    assert read_data({"done": True}, Typed)[1] == {"done": True}
    with pytest.raises(InvalidConfig, match=r"'dome'.*Did you mean 'done'"):
        read_data({"dome": True}, Typed)


@pytest.mark.parametrize("data", [{"a": 1}, Data({"a": 1})])
def test_values_of_a_mapping_are_a_new_dict(data: Any) -> None:
    found = field_values(data)
    found["a"] = 2
    assert dict(data) == {"a": 1}
