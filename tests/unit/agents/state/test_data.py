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
class WithRequiredField:
    name: str


class Model(BaseModel):
    done: bool = False
    files: list[str] = []


class Incomparable:
    """An object that cannot be compared."""

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


def test_the_source_of_data_is_never_changed() -> None:
    values: dict[str, Any] = {"deep": {"list": [1]}}
    data = Data(values)
    data.deep["list"].append(2)
    data.new = 1
    assert values == {"deep": {"list": [1]}}
    assert data.deep == {"list": [1, 2]}


def test_mutable_fields_are_touched_when_they_are_read() -> None:
    data = Data({"number": 1, "was_read": [1], "unread": [2]})
    assert (data.number, data.was_read) == (1, [1])
    data.number = 2
    assert touched_fields(data) == {"was_read": [1], "number": 2}


def test_only_the_attribute_of_an_unset_declared_field_is_none() -> None:
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
    """`state.data.items` is an obvious name for a field."""
    data = Data({name: ["x"]}, (name,))
    assert getattr(data, name) == ["x"]


def test_keys_that_are_not_strings_are_refused() -> None:
    with pytest.raises((TypeError, AttributeError)):
        Data({})[3] = "three"  # type: ignore[index]


# -- forms


@pytest.mark.parametrize("source", [Typed, Plain, Slotted, Model])
def test_the_fields_of_a_class_become_fields_of_a_graph(source: type) -> None:
    assert set(DataSchema(source).entries) == {f"{PREFIX}done", f"{PREFIX}files"}
    assert DataSchema(source).names == ("done", "files")
    assert DataSchema().names is None


@pytest.mark.parametrize("source", [Plain, Slotted, Model])
def test_changes_of_an_instance_are_found(source: type) -> None:
    schema = DataSchema(source)
    values = {"done": False, "files": ["a"]}
    instance = schema.build(values)
    assert type(instance) is source
    instance.files.append("b")
    instance.done = True
    assert schema.changes(instance, values) == {"done": True, "files": ["a", "b"]}
    assert values["files"] == ["a"]


@pytest.mark.parametrize("source", [Typed, Plain, Slotted, Model, None])
def test_reading_fields_is_not_a_change(source: type | None) -> None:
    schema = DataSchema(source)
    values = {"done": False, "files": ["a"]}
    instance = schema.build(values)
    assert instance.files == ["a"]
    assert schema.changes(instance, values) == {}


def test_a_value_of_another_type_is_a_change() -> None:
    schema = DataSchema()
    data = schema.build({"flag": 1})
    data.flag = True
    assert schema.changes(data, {"flag": 1}) == {"flag": True}


def test_values_that_cannot_be_compared_count_as_changed() -> None:
    schema, incomparable = DataSchema(), Incomparable()
    data = schema.build({"odd": incomparable})
    data.odd = Incomparable()
    assert list(schema.changes(data, {"odd": incomparable})) == ["odd"]
    unchanged = schema.build({"odd": 1})
    unchanged.odd = incomparable
    assert schema.changes(unchanged, {"odd": incomparable}) == {}


def test_a_misspelt_attribute_of_an_instance_is_refused() -> None:
    """A TypedDict and a pydantic model refuse it at once; a dataclass at the latest when the changes are read."""
    values: dict[str, Any] = {"done": False, "files": []}
    schema = DataSchema(Plain)

    def write() -> None:
        data = schema.build(values)
        data.dome = True
        schema.changes(data, values)

    with pytest.raises((AttributeError, StatewrightError), match="dome"):
        write()


@pytest.mark.parametrize("source", [int, list[str], dict[str, int]])
def test_a_class_without_fields_is_refused(source: Any) -> None:
    with pytest.raises((InvalidSchema, InvalidConfig)):
        DataSchema(source)


# -- input


@pytest.mark.parametrize(
    ("source", "values"),
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
def test_data_is_read_from_many_forms(source: Any, values: Any) -> None:
    assert read_data(source)[1] == values


@pytest.mark.parametrize("source", [3, "text", [1], object()])
def test_other_sources_are_refused(source: Any) -> None:
    with pytest.raises(InvalidConfig, match="Pass a mapping"):
        read_data(source)


def test_a_class_with_required_fields_is_refused() -> None:
    with pytest.raises(InvalidConfig, match=r"WithRequiredField.*Pass an instance"):
        read_data(WithRequiredField)


def test_a_mapping_is_checked_against_its_schema() -> None:
    assert read_data({"done": True}, Typed)[1] == {"done": True}
    with pytest.raises(InvalidConfig, match=r"'dome'.*Did you mean 'done'"):
        read_data({"dome": True}, Typed)


@pytest.mark.parametrize("data", [{"a": 1}, Data({"a": 1})])
def test_field_values_returns_a_copy(data: Any) -> None:
    copied = field_values(data)
    copied["a"] = 2
    assert dict(data) == {"a": 1}
