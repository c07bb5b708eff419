"""Reading updates as writes."""

import warnings
from collections import UserDict
from dataclasses import dataclass, field
from types import MappingProxyType, SimpleNamespace
from typing import Any

import pytest
from pydantic import BaseModel

from statewright.channels import Append, LastValue, Messages
from statewright.errors import InvalidUpdateError, UnknownKeyWarning
from statewright.messages import Message
from statewright.state import ROOT, UpdateReader, instance_values

IDS = SimpleNamespace(id="task")
CHANNELS = {"log": Append(), "x": LastValue(), "y": LastValue()}


@dataclass
class Data:
    x: int | None = None
    y: Any = 0
    log: list[str] = field(default_factory=list)


@dataclass
class Required:
    x: int | None


class Model(BaseModel):
    x: int | None = None
    y: int = 0


class Unreadable:
    """An object that is not an update, with a long repr."""

    def __repr__(self) -> str:
        return "<" + "refused " * 20 + ">"


class NoIds:
    """Ids that must not be read."""

    @property
    def id(self) -> str:
        raise AssertionError("no id was needed")


def reader(**options: Any) -> UpdateReader:
    return UpdateReader(CHANNELS, **{"closed": True, **options})


# -- forms of updates


@pytest.mark.parametrize(
    ("update", "writes"),
    [
        (None, {}),
        ({}, {}),
        ({"x": 1, "log": ["a"]}, {"x": 1, "log": ["a"]}),
        ({"x": None}, {"x": None}),
        (MappingProxyType({"x": 1}), {"x": 1}),
        (UserDict(x=1), {"x": 1}),
        (Data(x=1, y=2, log=["a"]), {"x": 1, "y": 2, "log": ["a"]}),
        (Data(), {"y": 0, "log": []}),
        (Data(y=None), {"y": None, "log": []}),
        (Required(None), {"x": None}),
        (Model(), {"y": 0}),
        (Model(x=None), {"x": None, "y": 0}),
        (Model(x=1), {"x": 1, "y": 0}),
        ([("x", 1), ("y", 2)], {"x": 1, "y": 2}),
        ((("x", 1), ("y", 2)), {"x": 1, "y": 2}),
        ([("x", 1), ("x", 2)], {"x": 2}),
    ],
)
def test_reading_an_update_returns_its_writes(update: Any, writes: dict[str, Any]) -> None:
    assert reader().read(update, "node", NoIds()) == writes


@pytest.mark.parametrize(
    "update", ["text", 3, 0, False, "", [], (), [3], [("x",)], [("x", 1, 2)], [["x", 1]], Data, {1}]
)
def test_an_invalid_update_is_refused(update: Any) -> None:
    with pytest.raises(
        InvalidUpdateError, match=rf"Node 'node' returned .*type {type(update).__name__}.*'log', 'x', 'y'"
    ):
        reader().read(update, "node", IDS)


def test_an_invalid_input_is_refused_as_input() -> None:
    with pytest.raises(InvalidUpdateError, match=r"The input is 'text' of type str\. Pass a mapping"):
        reader().read("text", "__start__", IDS)


def test_the_error_shortens_a_long_update() -> None:
    with pytest.raises(InvalidUpdateError, match=r"<refused .*\.\.\. of type Unreadable") as caught:
        reader().read(Unreadable(), "node", IDS)
    assert repr(Unreadable()) not in str(caught.value)


def test_the_error_of_a_schema_without_fields_says_so() -> None:
    with pytest.raises(InvalidUpdateError, match="Fields: none"):
        UpdateReader({}, closed=True).read("text", "node", IDS)


def test_refused_updates_are_counted() -> None:
    counting = reader(unknown_keys="error")
    counting.read({"x": 1}, "node", IDS)
    assert counting.refused == 0
    for update in ("text", {"z": 1}):
        with pytest.raises(InvalidUpdateError):
            counting.read(update, "node", IDS)
    assert counting.refused == 2


# -- unknown keys


@pytest.mark.parametrize("update", [{"xx": 1, "x": 2}, [("xx", 1), ("x", 2)], UserDict(xx=1, x=2)])
def test_an_unknown_key_is_dropped_with_a_warning_and_a_suggestion(update: Any) -> None:
    with pytest.warns(
        UnknownKeyWarning, match=r"node 'node' .*unknown key 'xx'. Did you mean 'x'\?.*log, x, y.*dropped"
    ):
        assert reader().read(update, "node", IDS) == {"x": 2}


def test_the_warning_of_an_unknown_input_key_names_the_input() -> None:
    with pytest.warns(UnknownKeyWarning, match="The input has the unknown key 'z'"):
        reader().read({"z": 1}, "__start__", IDS)


def test_each_node_and_key_is_warned_about_once() -> None:
    warning_reader = reader()
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        for node, key in [("a", "z"), ("a", "z"), ("b", "z"), ("a", "w"), ("b", "z")]:
            assert warning_reader.read({key: 1}, node, IDS) == {}
    assert len(caught) == 3


def test_unknown_keys_can_be_refused() -> None:
    with pytest.raises(InvalidUpdateError, match="unknown key 'z'"):
        reader(unknown_keys="error").read({"x": 1, "z": 1}, "node", IDS)


def test_unknown_keys_can_be_dropped_without_a_warning() -> None:
    assert reader(unknown_keys="drop").read({"x": 1, "z": 1}, "node", IDS) == {"x": 1}


def test_keys_that_are_not_strings_are_unknown() -> None:
    assert reader(unknown_keys="drop").read({1: 1, None: 2, "x": 3}, "node", IDS) == {"x": 3}


def test_dropping_a_key_does_not_change_the_callers_mapping() -> None:
    update = {"x": 1, "z": 1}
    reader(unknown_keys="drop").read(update, "node", IDS)
    assert update == {"x": 1, "z": 1}


@pytest.mark.parametrize("unknown_keys", ["warn", "error", "drop"])
def test_an_open_state_accepts_every_key(unknown_keys: str) -> None:
    assert reader(closed=False, unknown_keys=unknown_keys).read({"z": 1}, "node", IDS) == {"z": 1}


# -- checking and preparing values


def test_a_mapping_that_needs_no_change_is_not_copied() -> None:
    update = {"x": 1}
    assert reader().read(update, "node", IDS) is update


def test_a_check_can_convert_values() -> None:
    update = {"x": "1"}
    checked = reader(check=lambda values: {name: int(value) for name, value in values.items()})
    assert checked.read(update, "node", IDS) == {"x": 1}
    assert update == {"x": "1"}


def test_unknown_keys_are_dropped_before_the_check() -> None:
    seen: list[dict[str, Any]] = []

    def check(values: dict[str, Any]) -> dict[str, Any]:
        seen.append(values)
        return values

    reader(check=check, unknown_keys="drop").read({"x": 1, "z": 2}, "node", IDS)
    assert seen == [{"x": 1}]


def test_messages_get_ids_of_the_task_and_the_update_does_not_change() -> None:
    message_reader = UpdateReader({"messages": Messages(), "x": LastValue()}, closed=True)
    update = {"messages": ["a", "b"], "x": 1}

    writes = message_reader.read(update, "node", IDS)
    assert [message.id for message in writes["messages"].items] == ["task-0", "task-1"]
    assert (writes["x"], update["messages"]) == (1, ["a", "b"])


def test_the_task_id_is_read_only_for_channels_that_need_it() -> None:
    message_reader = UpdateReader({"messages": Messages(), "x": LastValue()}, closed=True)
    assert message_reader.read({"x": 1}, "node", NoIds()) == {"x": 1}


@pytest.mark.parametrize(
    ("update_reader", "plain_keys"),
    [
        (reader(), {"log", "x", "y"}),
        (UpdateReader({}, closed=True), set()),
        (reader(closed=False), None),
        (reader(check=dict), None),
        (reader(bare_messages="log"), None),
        (UpdateReader({"messages": Messages()}, closed=True), None),
        (UpdateReader({ROOT: LastValue()}, closed=True), None),
    ],
)
def test_plain_keys_are_the_keys_that_need_no_reading(update_reader: UpdateReader, plain_keys: set[str] | None) -> None:
    assert update_reader.plain_keys == plain_keys


# -- bare values and bare messages


@pytest.mark.parametrize("update", [3, 0, "", [1, 2], {"a": 1}, {}, Data(x=1), ("x", 1)])
def test_a_bare_value_is_the_update_of_a_root_state(update: Any) -> None:
    assert UpdateReader({ROOT: LastValue()}, closed=True).read(update, "node", IDS) == {ROOT: update}


def test_none_writes_nothing_to_a_root_state() -> None:
    assert UpdateReader({ROOT: LastValue()}, closed=True).read(None, "node", IDS) == {}


def conversation() -> UpdateReader:
    channels = {"messages": Messages(), "x": LastValue()}
    return UpdateReader(channels, closed=True, unknown_keys="error", bare_messages="messages")


@pytest.mark.parametrize(
    ("update", "texts"),
    [
        ("a", ["a"]),
        (["a", "b"], ["a", "b"]),
        (("user", "a"), ["a"]),
        ([("user", "a"), ("assistant", "b")], ["a", "b"]),
        (Message("a"), ["a"]),
        ({"role": "user", "content": "a"}, ["a"]),
        ({"messages": "a"}, ["a"]),
        ({"messages": ["a"], "x": 1}, ["a"]),
        ([], []),
    ],
)
def test_a_conversation_accepts_bare_messages(update: Any, texts: list[str]) -> None:
    writes = conversation().read(update, "node", IDS)
    assert [message.text for message in writes["messages"].items] == texts


@pytest.mark.parametrize(("update", "writes"), [(None, {}), ({"x": 1}, {"x": 1})])
def test_a_conversation_accepts_other_updates(update: Any, writes: dict[str, Any]) -> None:
    assert conversation().read(update, "node", IDS) == writes


@pytest.mark.parametrize("update", [3, {}, {"z": 1}])
def test_a_conversation_refuses_other_values(update: Any) -> None:
    with pytest.raises(InvalidUpdateError):
        conversation().read(update, "node", IDS)


def test_only_bare_values_and_messages_accept_lists() -> None:
    assert conversation().takes_lists
    assert UpdateReader({ROOT: LastValue()}, closed=True).takes_lists
    assert not reader().takes_lists


# -- instances


@pytest.mark.parametrize(
    ("value", "values"),
    [
        (Data(), {"y": 0, "log": []}),
        (Data(x=0), {"x": 0, "y": 0, "log": []}),
        (Data(y=None), {"y": None, "log": []}),
        (Required(None), {"x": None}),
        (Model(), {"y": 0}),
        (Model(x=None), {"x": None, "y": 0}),
        (Model.model_construct(x=None), {"x": None, "y": 0}),
    ],
)
def test_instance_values_omit_fields_left_at_their_default_of_none(value: Any, values: dict[str, Any]) -> None:
    assert instance_values(value) == values


@pytest.mark.parametrize("value", [Data, Model, {"x": 1}, 3, None, object(), [Data()]])
def test_instance_values_of_other_values_are_none(value: Any) -> None:
    assert instance_values(value) is None


def test_instance_values_are_not_copied() -> None:
    log = ["a"]
    values = instance_values(Data(log=log))
    assert values is not None
    assert values["log"] is log


# -- checking inputs before a run


@pytest.mark.parametrize(
    ("options", "update", "problems"),
    [
        (
            {},
            {"lgo": 1, "x": 1, "z": 2},
            {
                "lgo": "The input has the unknown key 'lgo'. Did you mean 'log'? Fields: log, x, y.",
                "z": "The input has the unknown key 'z'. Fields: log, x, y.",
            },
        ),
        ({"unknown_keys": "error"}, {"z": 1}, {"z": "The input has the unknown key 'z'. Fields: log, x, y."}),
        ({}, [{"x": 1}, {"z": 1}], {"z": "The input has the unknown key 'z'. Fields: log, x, y."}),
        ({"unknown_keys": "drop"}, {"z": 1}, {}),
        ({"closed": False}, {"z": 1}, {}),
        ({}, {"x": 1}, {}),
        ({}, 5, {}),
        ({}, None, {}),
        ({}, [("z", 1)], {}),
    ],
)
def test_each_unknown_key_of_an_input_is_a_problem(options: Any, update: Any, problems: dict[str, str]) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert reader(**options).unknown_key_problems(update) == problems


def test_a_problem_of_an_update_names_its_node_if_it_has_one() -> None:
    problems = reader().unknown_key_problems({"z": 1}, "plan")
    assert problems == {"z": "The update from node 'plan' has the unknown key 'z'. Fields: log, x, y."}
    problems = reader().unknown_key_problems({"z": 1}, None)
    assert problems == {"z": "The update has the unknown key 'z'. Fields: log, x, y."}


def test_a_bare_message_has_no_unknown_keys() -> None:
    messages = UpdateReader({"messages": Messages()}, closed=True, bare_messages="messages")
    assert messages.unknown_key_problems({"role": "user", "content": "hi"}) == {}


def test_a_bare_value_has_no_unknown_keys() -> None:
    assert UpdateReader({ROOT: LastValue()}, closed=True).unknown_key_problems({"z": 1}) == {}
