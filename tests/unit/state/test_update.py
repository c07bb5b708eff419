"""Updates turned into writes."""

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
class Needed:
    x: int | None


class Model(BaseModel):
    x: int | None = None
    y: int = 0


class Refused:
    """An object that no update is."""

    def __repr__(self) -> str:
        return "<" + "refused " * 20 + ">"


class NoIds:
    """Ids that must not be asked for."""

    @property
    def id(self) -> str:
        raise AssertionError("no id was needed")


def reader(**options: Any) -> UpdateReader:
    return UpdateReader(CHANNELS, **{"closed": True, **options})


# -- what an update is


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
        (Needed(None), {"x": None}),
        (Model(), {"y": 0}),
        (Model(x=None), {"x": None, "y": 0}),
        (Model(x=1), {"x": 1, "y": 0}),
        ([("x", 1), ("y", 2)], {"x": 1, "y": 2}),
        ((("x", 1), ("y", 2)), {"x": 1, "y": 2}),
        ([("x", 1), ("x", 2)], {"x": 2}),
    ],
)
def test_what_an_update_means(update: Any, writes: dict[str, Any]) -> None:
    assert reader().read(update, "node", NoIds()) == writes


@pytest.mark.parametrize(
    "update", ["text", 3, 0, False, "", [], (), [3], [("x",)], [("x", 1, 2)], [["x", 1]], Data, {1}]
)
def test_what_no_update_is(update: Any) -> None:
    with pytest.raises(
        InvalidUpdateError, match=rf"Node 'node' returned .*type {type(update).__name__}.*'log', 'x', 'y'"
    ):
        reader().read(update, "node", IDS)


def test_an_input_that_is_no_update_is_told_so() -> None:
    with pytest.raises(InvalidUpdateError, match=r"The input is 'text' of type str\. Pass a mapping"):
        reader().read("text", "__start__", IDS)


def test_a_long_update_is_shown_in_short() -> None:
    with pytest.raises(InvalidUpdateError, match=r"<refused .*\.\.\. of type Refused") as caught:
        reader().read(Refused(), "node", IDS)
    assert repr(Refused()) not in str(caught.value)


def test_where_there_are_no_fields_the_error_says_so() -> None:
    with pytest.raises(InvalidUpdateError, match="Fields: none"):
        UpdateReader({}, closed=True).read("text", "node", IDS)


def test_every_refused_update_is_counted() -> None:
    counting = reader(unknown_keys="error")
    counting.read({"x": 1}, "node", IDS)
    assert counting.refused == 0
    for update in ("text", {"z": 1}):
        with pytest.raises(InvalidUpdateError):
            counting.read(update, "node", IDS)
    assert counting.refused == 2


# -- unknown keys


@pytest.mark.parametrize("update", [{"xx": 1, "x": 2}, [("xx", 1), ("x", 2)], UserDict(xx=1, x=2)])
def test_an_unknown_key_is_dropped_with_a_warning_that_helps(update: Any) -> None:
    with pytest.warns(
        UnknownKeyWarning, match=r"node 'node' .*unknown key 'xx'. Did you mean 'x'\?.*log, x, y.*dropped"
    ):
        assert reader().read(update, "node", IDS) == {"x": 2}


def test_an_unknown_key_of_the_input_is_warned_of_as_such() -> None:
    with pytest.warns(UnknownKeyWarning, match="The input has the unknown key 'z'"):
        reader().read({"z": 1}, "__start__", IDS)


def test_a_warning_comes_once_for_each_node_and_key() -> None:
    warned = reader()
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        for node, key in [("a", "z"), ("a", "z"), ("b", "z"), ("a", "w"), ("b", "z")]:
            assert warned.read({key: 1}, node, IDS) == {}
    assert len(caught) == 3


def test_unknown_keys_can_be_refused() -> None:
    with pytest.raises(InvalidUpdateError, match="unknown key 'z'"):
        reader(unknown_keys="error").read({"x": 1, "z": 1}, "node", IDS)


def test_unknown_keys_can_be_dropped_in_silence() -> None:
    assert reader(unknown_keys="drop").read({"x": 1, "z": 1}, "node", IDS) == {"x": 1}


def test_a_key_that_is_no_text_is_as_unknown_as_another() -> None:
    assert reader(unknown_keys="drop").read({1: 1, None: 2, "x": 3}, "node", IDS) == {"x": 3}


def test_dropping_a_key_leaves_the_callers_mapping_alone() -> None:
    update = {"x": 1, "z": 1}
    reader(unknown_keys="drop").read(update, "node", IDS)
    assert update == {"x": 1, "z": 1}


@pytest.mark.parametrize("unknown_keys", ["warn", "error", "drop"])
def test_an_open_state_takes_every_key(unknown_keys: str) -> None:
    assert reader(closed=False, unknown_keys=unknown_keys).read({"z": 1}, "node", IDS) == {"z": 1}


# -- what reading does to the values


def test_a_mapping_is_returned_itself_where_nothing_has_to_change() -> None:
    update = {"x": 1}
    assert reader().read(update, "node", IDS) is update


def test_values_are_checked_and_may_be_converted() -> None:
    update = {"x": "1"}
    checked = reader(check=lambda values: {name: int(value) for name, value in values.items()})
    assert checked.read(update, "node", IDS) == {"x": 1}
    assert update == {"x": "1"}


def test_unknown_keys_are_gone_before_values_are_checked() -> None:
    seen: list[dict[str, Any]] = []

    def check(values: dict[str, Any]) -> dict[str, Any]:
        seen.append(values)
        return values

    reader(check=check, unknown_keys="drop").read({"x": 1, "z": 2}, "node", IDS)
    assert seen == [{"x": 1}]


def test_a_channel_that_prepares_gets_the_id_and_the_update_stays_as_it_was() -> None:
    prepared = UpdateReader({"messages": Messages(), "x": LastValue()}, closed=True)
    update = {"messages": ["a", "b"], "x": 1}

    writes = prepared.read(update, "node", IDS)
    assert [message.id for message in writes["messages"].items] == ["task-0", "task-1"]
    assert (writes["x"], update["messages"]) == (1, ["a", "b"])


def test_an_id_is_asked_for_only_where_a_channel_wants_one() -> None:
    prepared = UpdateReader({"messages": Messages(), "x": LastValue()}, closed=True)
    assert prepared.read({"x": 1}, "node", NoIds()) == {"x": 1}


@pytest.mark.parametrize(
    ("made", "known"),
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
def test_which_updates_need_no_reading(made: UpdateReader, known: set[str] | None) -> None:
    assert made.plain_keys == known


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
def test_a_conversation_takes_messages_without_a_mapping(update: Any, texts: list[str]) -> None:
    writes = conversation().read(update, "node", IDS)
    assert [message.text for message in writes["messages"].items] == texts


@pytest.mark.parametrize(("update", "writes"), [(None, {}), ({"x": 1}, {"x": 1})])
def test_a_conversation_takes_other_updates_too(update: Any, writes: dict[str, Any]) -> None:
    assert conversation().read(update, "node", IDS) == writes


@pytest.mark.parametrize("update", [3, {}, {"z": 1}])
def test_what_is_neither_an_update_nor_a_message_is_refused(update: Any) -> None:
    with pytest.raises(InvalidUpdateError):
        conversation().read(update, "node", IDS)


def test_a_list_may_be_an_update_of_bare_values_and_messages_only() -> None:
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
        (Needed(None), {"x": None}),
        (Model(), {"y": 0}),
        (Model(x=None), {"x": None, "y": 0}),
        (Model.model_construct(x=None), {"x": None, "y": 0}),
    ],
)
def test_a_field_that_is_none_by_default_says_nothing(value: Any, values: dict[str, Any]) -> None:
    assert instance_values(value) == values


@pytest.mark.parametrize("value", [Data, Model, {"x": 1}, 3, None, object(), [Data()]])
def test_other_values_are_no_instances(value: Any) -> None:
    assert instance_values(value) is None


def test_the_values_of_an_instance_are_not_copied() -> None:
    log = ["a"]
    values = instance_values(Data(log=log))
    assert values is not None
    assert values["log"] is log


# -- inputs that are looked at before a run


@pytest.mark.parametrize(
    ("options", "update", "said"),
    [
        ({}, {"x": 1, "lgo": 2}, "The input has the unknown key 'lgo'. Did you mean 'log'? Fields: log, x, y."),
        ({"unknown_keys": "error"}, {"z": 1}, "The input has the unknown key 'z'. Fields: log, x, y."),
        ({"unknown_keys": "drop"}, {"z": 1}, None),
        ({"closed": False}, {"z": 1}, None),
        ({}, {"x": 1}, None),
        ({}, 5, None),
        ({}, None, None),
        ({}, [("z", 1)], None),
    ],
)
def test_an_unknown_key_of_an_input_is_found_without_reading_it(options: Any, update: Any, said: str | None) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert reader(**options).unknown_key_message(update) == said


def test_a_bare_message_has_no_unknown_keys() -> None:
    messages = UpdateReader({"messages": Messages()}, closed=True, bare_messages="messages")
    assert messages.unknown_key_message({"role": "user", "content": "hi"}) is None


def test_a_bare_value_has_no_unknown_keys() -> None:
    assert UpdateReader({ROOT: LastValue()}, closed=True).unknown_key_message({"z": 1}) is None
