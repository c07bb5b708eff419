"""Codecs of built-in types, of Statewright's types, exceptions and numpy: values and types survive a round trip."""

from __future__ import annotations

import builtins
import copy
import math
import sys
import uuid
from collections import Counter, OrderedDict, deque
from datetime import UTC, date, datetime, time, timedelta, timezone, tzinfo
from decimal import Decimal
from pathlib import Path, PurePosixPath, PureWindowsPath
from types import ModuleType
from typing import Any
from zoneinfo import ZoneInfo

import ormsgpack
import pytest
from hypothesis import given
from hypothesis import strategies as st
from langchain_core.messages import AIMessage

from statewright import Command, Send, errors
from statewright.agents import AgentResult
from statewright.channels import MISSING, Added, Merged, MessageBatch, Overwrite
from statewright.checkpoint import NO_ARG, register_codec
from statewright.errors import (
    CheckpointConflict,
    DamagedDatabase,
    GraphRecursionError,
    InternalError,
    NodeTimeoutError,
    SerdeError,
    StatewrightError,
    StoredError,
)
from statewright.graph.command import ToParent
from statewright.graph.context import NodeError
from statewright.graph.mapping import Indexed
from statewright.graph.policy import TimeoutPolicy
from statewright.messages import REMOVE_ALL_MESSAGES, Message, RemoveMessage, ToolCall, ToolResult
from statewright.models import Usage
from statewright.serde.codecs import BY_TAG, CODECS, codec_of, type_name
from statewright.serde.serde import OBJECT, Serde
from statewright.workflow.states.engine.token import Iteration, Token
from statewright.workflow.states.engine.visit import Effects, ItemRef, Visit

TAGS = {
    2: "builtins.tuple",
    3: "builtins.set",
    4: "builtins.frozenset",
    5: "datetime.datetime",
    6: "datetime.date",
    7: "datetime.time",
    8: "datetime.timedelta",
    9: "decimal.Decimal",
    10: "pathlib.PosixPath",
    11: "pathlib.WindowsPath",
    12: "pathlib.PurePosixPath",
    13: "pathlib.PureWindowsPath",
    14: "uuid.UUID",
    15: "builtins.int",
    16: "builtins.str",
    17: "builtins.dict",
    19: "builtins.complex",
    20: "builtins.range",
    21: "collections.deque",
    22: "collections.OrderedDict",
    23: "collections.Counter",
    24: "numpy.ndarray",
    25: "numpy.generic",
    26: "builtins.BaseException",
    27: "builtins.bytearray",
    40: "statewright.messages.Message",
    41: "statewright.messages.ToolCall",
    42: "statewright.messages.ToolResult",
    43: "statewright.messages.RemoveMessage",
    44: "statewright.channels.messages.MessageBatch",
    45: "statewright.channels.channel.Overwrite",
    46: "statewright.channels.channel._Missing",
    47: "statewright.checkpoint.model._NoArg",
    48: "statewright.channels.delta.Added",
    49: "statewright.channels.delta.Merged",
    50: "statewright.graph.command.Send",
    51: "statewright.graph.context.NodeError",
    52: "statewright.graph.mapping.Indexed",
    53: "statewright.workflow.states.engine.visit.Visit",
    54: "statewright.workflow.states.engine.visit.ItemRef",
    55: "statewright.workflow.states.engine.visit.Effects",
    56: "statewright.workflow.states.engine.token.Token",
    57: "statewright.agents.state.result.AgentResult",
    58: "statewright.graph.command.ToParent",
    59: "langchain_core.messages.base.BaseMessage",
}
"""Stored data contains these numbers, so none of them may ever get another meaning."""

TASK = "0123456789abcdef" * 2
BERLIN = ZoneInfo("Europe/Berlin")


def round_trip(value: Any) -> Any:
    """Return a value after encoding and decoding it."""
    return Serde().decode(Serde().encode(value))


def tag_of(value: Any) -> int:
    """Return the tag of the encoded value."""
    tags: list[int] = []
    ormsgpack.unpackb(Serde().encode(value), ext_hook=lambda tag, _: tags.append(tag))
    return tags[-1]


def encode_with_tag(tag: int, plain: Any) -> bytes:
    """Encode a plain value under a tag."""
    return ormsgpack.packb(ormsgpack.Ext(tag, ormsgpack.packb(plain)))


# -- tags


def test_tags_keep_their_meaning() -> None:
    assert all(codec_of(tag) is not None for tag in TAGS)  # codecs of higher layers are loaded at their first use
    assert {tag: codec.type for tag, codec in BY_TAG.items()} == TAGS
    assert OBJECT == 1
    assert OBJECT not in BY_TAG


def test_codecs_are_found_by_type_name_and_by_tag() -> None:
    assert all(codec.tag == tag for tag, codec in BY_TAG.items())
    assert all(BY_TAG[codec.tag] is codec for codec in CODECS.values())


def test_a_tag_cannot_be_registered_twice() -> None:
    with pytest.raises(InternalError, match=r"tag 2 of 'here\.Other' is taken by 'builtins\.tuple'"):
        register_codec(2, "here.Other", list, list)
    assert "here.Other" not in CODECS


# -- Python's types


VALUES: list[tuple[int, Any]] = [
    (2, ()),
    (2, (1, "a", None)),
    (2, ((1,), [2], (3, (4,)))),
    (3, set()),
    (3, {1, "a", (2, 3)}),
    (4, frozenset()),
    (4, frozenset({frozenset({1}), 2})),
    (5, datetime(2026, 1, 2, 3, 4, 5, 678901)),
    (5, datetime.min),
    (5, datetime.max),
    (5, datetime(2026, 1, 2, tzinfo=UTC)),
    (5, datetime(2026, 1, 2, tzinfo=timezone(timedelta(hours=-3, minutes=-30)))),
    (5, datetime(2026, 1, 2, tzinfo=timezone(timedelta(seconds=1, microseconds=5)))),
    (5, datetime(2026, 10, 25, 2, 30, tzinfo=BERLIN)),
    (6, date(2026, 1, 2)),
    (6, date.max),
    (7, time(1, 2, 3, 4)),
    (7, time(1, tzinfo=UTC)),
    (7, time(1, tzinfo=BERLIN)),
    (27, bytearray(b"ab")),
    (8, timedelta()),
    (8, timedelta(days=-1, microseconds=1)),
    (8, timedelta.max),
    (8, timedelta.min),
    (9, Decimal("1.10")),
    (9, Decimal("-0")),
    (9, Decimal("1E+999999")),
    (9, Decimal("Infinity")),
    (9, Decimal("3." + "14" * 50)),
    (12, PurePosixPath("a/../b")),
    (13, PureWindowsPath(r"C:\a")),
    (14, uuid.UUID(int=0)),
    (14, uuid.UUID("12345678-1234-5678-1234-567812345678")),
    (15, 2**64),
    (15, -(2**63) - 1),
    (15, 10**6000),
    (15, -(2**71)),
    (16, "\ud800"),
    (16, "a\udcffb"),
    (17, {(1, 2): "pair"}),
    (17, {2**64: 1}),
    (17, {"\ud800": 1}),
    (17, {frozenset({1}): {date(2026, 1, 2): 1}}),
    (17, {date(2026, 1, 2): 1, uuid.UUID(int=1): 2, Decimal(1): 3}),
    (19, 1 - 2j),
    (19, complex(-0.0, math.inf)),
    (20, range(3)),
    (20, range(10**30, -5, -7)),
    (21, deque([1, 2])),
    (21, deque([1, (2,)], maxlen=2)),
    (21, deque(maxlen=0)),
    (22, OrderedDict()),
    (22, OrderedDict([("b", 1), ("a", 2)])),
    (22, OrderedDict([((1, 2), 1)])),
    (23, Counter()),
    (23, Counter("abca")),
    (23, Counter({(1, 2): 3, None: -1})),
    (40, Message("hi")),
    (41, ToolCall("1", "search", {"q": "x"})),
    (41, ToolCall("1", "search")),
    (42, ToolResult("1", {"found": (1,)}, "search")),
    (42, ToolResult("1", "text")),
    (43, RemoveMessage("1")),
    (43, RemoveMessage(REMOVE_ALL_MESSAGES)),
    (44, MessageBatch([Message("a", id="1"), RemoveMessage("2")], all_new=False)),
    (45, Overwrite([1])),
    (45, Overwrite(None)),
    (46, MISSING),
    (47, NO_ARG),
    (48, Added([])),
    (48, Added([1, (2,)])),
    (49, Merged([Message("a", id="1"), RemoveMessage("2")])),
    (50, Send("node", {"x": (1,)})),
    (50, Send("node", NO_ARG, gather=True)),
    (50, Send("node", 1, timeout=2.5)),
    (50, Send("node", 1, timeout=TimeoutPolicy(run_timeout=3, idle_timeout=1, refresh_on="heartbeat"))),
    (52, Indexed(3, ("a", 1))),
    (53, Visit("1.0", "plan", "text")),
    (
        53,
        Visit(
            "2.1.0/2",
            "look",
            {"a": [1]},
            ("1.0",),
            "0/2",
            "Look.",
            ItemRef("1.0", "files", 1),
            True,
            Effects(output_key="k", clears_context="keep_current", reset_keys=("x", "y"), splits_result=True),
            ("end", "plan"),
            "1.0",
            "sum",
            2,
        ),
    ),
    (54, ItemRef("1.0")),
    (55, Effects(adds_message=False)),
    (56, Token()),
    (56, Token(("1.0", "1.1"), "0/2", None, "1.0", "0/3")),
    (56, Token(("1.0",), "0/2", Iteration("1.0", "", ItemRef("1.0", ".", 0), 0, 2, True, ("u",)))),
    (41, ToolCall("1", "add", invalid="{")),
    (57, AgentResult(agent_name="a", messages=[], created_at=datetime(2026, 1, 2, tzinfo=UTC))),
    (
        57,
        AgentResult(
            agent_name="a",
            messages=[Message("x", "assistant")],
            created_at=datetime(2026, 1, 2, tzinfo=UTC),
            id="r",
            usage=Usage(1, 2, 0.5, 3, 4),
            requests=2,
            stop_reason="max_iter",
        ),
    ),
    (58, ToParent(Command(graph=Command.PARENT))),
    (58, ToParent(Command(graph=Command.PARENT, update={"x": (1,)}, goto=["a", Send("b", 1)]))),
    (59, AIMessage("x", id="1", tool_calls=[{"name": "add", "args": {"a": (1,)}, "id": "c1"}])),
]


@pytest.mark.parametrize(("tag", "value"), VALUES, ids=[f"{tag}-{index}" for index, (tag, _) in enumerate(VALUES)])
def test_a_value_survives_a_round_trip_with_its_type_and_tag(tag: int, value: Any) -> None:
    read = round_trip(value)
    assert read == value
    assert type(read) is type(value)
    assert tag_of(value) == tag


def test_all_tags_are_tested() -> None:
    elsewhere = {10, 11, 24, 25, 26, 51}  # tested below: paths, numpy, exceptions and NodeError
    assert {tag for tag, _ in VALUES} | elsewhere == set(TAGS)


@pytest.mark.parametrize(
    "value",
    [
        None,
        True,
        False,
        0,
        -1,
        2**64 - 1,
        -(2**63),
        "",
        "ä€😀",
        b"",
        b"\xff",
        [],
        [[]],
        {},
        {"a": {"b": []}},
        1.5,
        -0.0,
    ],
)
def test_values_of_messagepack_need_no_codec(value: Any) -> None:
    read = round_trip(value)
    assert read == value
    assert type(read) is type(value)
    assert Serde().encode(value) == ormsgpack.packb(value)


@pytest.mark.parametrize("key", [1, -(2**63), 2**64 - 1, 1.5, math.inf, True, False, None, b"\xff", "a", ""])
def test_keys_of_messagepack_keep_their_type(key: Any) -> None:
    ((read, value),) = round_trip({key: (1,)}).items()
    assert (read, type(read), value) == (key, type(key), (1,))


@pytest.mark.parametrize(
    "key",
    [
        date(2026, 1, 2),
        datetime(2026, 1, 2, tzinfo=UTC),
        time(1),
        timedelta(1),
        uuid.UUID(int=1),
        Decimal("1.10"),
        (),
        (1, (2, "a")),
        (date(2026, 1, 2), uuid.UUID(int=1)),
        frozenset({1}),
        PurePosixPath("a"),
        1 + 2j,
        range(3),
        2**64,
        "\ud800",
        MISSING,
    ],
)
def test_other_keys_keep_their_type(key: Any) -> None:
    ((read, value),) = round_trip({key: 1}).items()
    assert (read, type(read), value) == (key, type(key), 1)


def test_the_order_of_keys_is_kept() -> None:
    assert list(round_trip({"b": 1, "a": 2, "c": 3})) == ["b", "a", "c"]
    assert list(round_trip({(2,): 1, "a": 2, (1,): 3})) == [(2,), "a", (1,)]


@pytest.mark.parametrize("neighbour", ["", "\ud800", "ł", {"deep": (1, [bytearray(b"c")])}])
def test_a_bytearray_survives_a_round_trip_in_every_position(neighbour: Any) -> None:
    for value in (bytearray(b"ab"), {"a": [bytearray(b"ab")]}, (bytearray(), b"ab"), {b"key": bytearray(b"ab")}):
        assert repr(round_trip([value, neighbour])) == repr([value, neighbour])


@pytest.mark.parametrize("name", ["CEST", "UTC", "", "Mitteleuropäische Sommerzeit"])
def test_the_name_of_a_fixed_time_zone_is_kept(name: str) -> None:
    for zone in (timezone(timedelta(hours=2), name), timezone(timedelta(0), name)):
        for value in (datetime(2026, 7, 1, 12, tzinfo=zone), time(12, tzinfo=zone)):
            read = round_trip(value)
            assert (read, read.tzname()) == (value, name)


@pytest.mark.parametrize("value", [memoryview(b"ab"), memoryview(b"a-b-")[::2]])
@pytest.mark.parametrize("neighbour", ["", "\ud800"])
def test_memoryviews_are_decoded_as_bytes(value: Any, neighbour: str) -> None:
    read, _ = round_trip([value, neighbour])
    assert read == b"ab"
    assert type(read) is bytes


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf, -0.0, 5e-324, sys.float_info.max])
def test_every_float_is_exact(value: float) -> None:
    assert round_trip(value).hex() == value.hex()
    assert round_trip([complex(value, value)])[0].imag.hex() == value.hex()


@pytest.mark.parametrize("text", ["NaN", "sNaN", "-NaN123", "-0.00"])
def test_every_decimal_is_exact(text: str) -> None:
    assert round_trip(Decimal(text)).as_tuple() == Decimal(text).as_tuple()


@given(st.integers())
def test_every_integer_is_exact(value: int) -> None:
    assert round_trip(value) == value
    assert round_trip(value << 64) == value << 64


@given(st.text(st.characters()))
def test_every_text_is_exact_even_with_surrogates(text: str) -> None:
    assert round_trip(text) == text
    assert round_trip({text: [text]}) == {text: [text]}


@pytest.mark.parametrize("path", [Path("a/b"), Path("/"), Path()])
def test_a_path_keeps_the_type_of_its_system(path: Path) -> None:
    assert round_trip(path) == path
    assert type(round_trip(path)) is type(path)
    assert tag_of(path) == (11 if sys.platform == "win32" else 10)


@pytest.mark.parametrize("tag", [10, 11])
def test_a_path_of_another_system_is_decoded_as_a_local_path(tag: int) -> None:
    assert Serde().decode(encode_with_tag(tag, "a")) == Path("a")


@pytest.mark.parametrize("name", ["PosixPath", "PurePosixPath"])
def test_paths_are_found_under_their_module_in_later_versions_of_python(name: str) -> None:
    assert CODECS[f"pathlib._local.{name}"] is CODECS[f"pathlib.{name}"]


# -- times


@pytest.mark.parametrize("fold", [0, 1])
@pytest.mark.parametrize("zone", [None, UTC, BERLIN])
def test_the_fold_of_an_ambiguous_time_is_kept(fold: int, zone: tzinfo | None) -> None:
    value = datetime(2026, 10, 25, 2, 30, tzinfo=zone, fold=fold)
    assert (round_trip(value).fold, round_trip(value).utcoffset()) == (fold, value.utcoffset())
    assert round_trip(value.timetz()).fold == fold


def test_a_time_zone_keeps_its_key() -> None:
    assert round_trip(datetime(2026, 1, 2, tzinfo=BERLIN)).tzinfo is BERLIN
    assert round_trip(datetime(2026, 1, 2, tzinfo=ZoneInfo("UTC"))).tzinfo is ZoneInfo("UTC")
    assert round_trip(datetime(2026, 1, 2, tzinfo=UTC)).tzinfo == UTC


def test_a_time_zone_without_a_name_is_refused() -> None:
    class Own(tzinfo):
        def utcoffset(self, dt: datetime | None) -> timedelta | None:
            return None if dt is None else timedelta(hours=dt.month)

    with pytest.raises(SerdeError, match=r"^when\.at cannot be stored .* has neither a name .* Use zoneinfo\.ZoneInfo"):
        Serde().encode({"at": datetime(2026, 1, 2, tzinfo=Own())}, "when")


def test_an_unknown_time_zone_is_named_in_the_error() -> None:
    with pytest.raises(SerdeError, match=r"time zone 'Mars/Base' .* Install tzdata"):
        Serde().decode(encode_with_tag(5, ["2026-01-02T00:00:00", "Mars/Base", 0]))


# -- messages


@pytest.mark.parametrize(
    "message",
    [
        Message(""),
        Message("text", role="assistant"),
        Message("text", role="system", id="1"),
        Message([{"type": "text", "text": "a"}, {"type": "image", "data": b"\xff"}]),
        Message("text", role="custom"),
        Message("text", id=TASK),
        Message("text", id=f"{TASK}-3"),
        Message("text", name="ann"),
        Message("", role="assistant", tool_calls=(ToolCall("1", "a"), ToolCall("2", "b", {"x": (1,)}))),
        Message("", role="assistant", id=f"{TASK}-0", tool_calls=(ToolCall("1", "a"),)),
        Message("42", role="tool", tool_call_id="1"),
        Message("42", role="tool", tool_call_id="1", name="search", metadata={}),
        Message("text", metadata={"tokens": 3, "at": date(2026, 1, 2)}),
        Message("t", "tool", f"{TASK}-0", "n", (ToolCall("1", "a"),), "2", {"k": None}),
    ],
)
def test_a_message_survives_a_round_trip(message: Message) -> None:
    read = round_trip(message)
    assert read == message
    assert type(read.tool_calls) is tuple
    assert round_trip([message, message]) == [message, message]


def test_ids_of_messages_are_stored_as_bytes() -> None:
    data = Serde().encode(Message("hi", id=f"{TASK}-0"))
    assert bytes.fromhex(TASK) + b"-0" in data
    assert TASK.encode() not in data
    assert len(data) < len(TASK)


def test_unset_fields_of_a_message_use_no_space() -> None:
    assert len(Serde().encode(Message("hi"))) == 8


def test_all_new_of_a_message_batch_is_kept() -> None:
    for all_new in (True, False):
        assert round_trip(MessageBatch([], all_new=all_new)).all_new is all_new


def test_sentinels_are_decoded_as_the_same_object() -> None:
    assert round_trip([MISSING, NO_ARG]) == [MISSING, NO_ARG]
    assert round_trip(MISSING) is MISSING
    assert round_trip(NO_ARG) is NO_ARG


def test_decoded_changes_contain_lists() -> None:
    assert round_trip(Added((1, 2))).items == [1, 2]
    assert round_trip(Merged(())).items == []


# -- exceptions


def make_error(kind: type[BaseException]) -> BaseException:
    if issubclass(kind, UnicodeDecodeError):
        return kind("utf-8", b"\xff", 0, 1, "invalid")
    if issubclass(kind, UnicodeTranslateError):
        return kind("text", 0, 1, "invalid")
    if issubclass(kind, UnicodeEncodeError):
        return kind("ascii", "\xff", 0, 1, "invalid")
    return kind("what went wrong")


GROUPS = (BaseExceptionGroup, ExceptionGroup)
BUILTIN = [
    kind
    for kind in vars(builtins).values()
    if isinstance(kind, type) and issubclass(kind, BaseException) and kind not in GROUPS
]


@pytest.mark.parametrize("kind", BUILTIN)
def test_a_builtin_exception_keeps_its_class_and_message(kind: type[BaseException]) -> None:
    error = make_error(kind)
    read = round_trip(error)
    assert type(read) is kind
    assert (str(read), read.args) == (str(error), error.args)


@pytest.mark.parametrize(
    "error",
    [
        ValueError(),
        KeyError("x"),
        KeyError(1),
        KeyError((1, "a")),
        ValueError("two", "parts"),
        OSError(2, "No such file"),
        SyntaxError("invalid syntax", ("file.py", 1, 2, "a b", 1, 3)),
        SystemExit(3),
        StopIteration(None),
    ],
)
def test_simple_arguments_of_an_exception_are_kept_exactly(error: BaseException) -> None:
    read = round_trip(error)
    assert (type(read), str(read), read.args) == (type(error), str(error), error.args)
    assert tag_of(error) == 26


def test_an_os_error_keeps_its_errno() -> None:
    read = round_trip(FileNotFoundError(2, "No such file"))
    assert (read.errno, read.strerror) == (2, "No such file")


@pytest.mark.parametrize("error", [OSError(2, "No such file", "path"), ValueError(object), ValueError([1], {2})])
def test_an_exception_with_other_arguments_keeps_its_message(error: Exception) -> None:
    read = round_trip(error)
    assert type(read) is type(error)
    assert str(read) == str(error)


@pytest.mark.parametrize(
    ("error", "kind"),
    [
        (ExceptionGroup("many", [ValueError()]), "builtins.ExceptionGroup"),
        (KeyError(frozenset()), "builtins.KeyError"),
    ],
)
def test_an_exception_that_cannot_be_rebuilt_becomes_a_stored_error(error: Exception, kind: str) -> None:
    read = round_trip(error)
    assert type(read) is StoredError
    assert (read.kind, str(read)) == (kind, str(error))


@pytest.mark.parametrize(
    "error",
    [
        CheckpointConflict("thread", "a", None),
        GraphRecursionError(3, [["a"], ["b"]], thread_id="t"),
        NodeTimeoutError("node", "run", 1.5),
        SerdeError("values.x", "no"),
        StatewrightError("plain"),
        StatewrightError(),
    ],
)
def test_an_error_of_statewright_keeps_its_class_and_message(error: StatewrightError) -> None:
    read = round_trip(error)
    assert (type(read), str(read), read.args, read.code) == (type(error), str(error), error.args, error.code)


@pytest.mark.parametrize("name", [name for name in errors.__all__ if name not in ("StoredError", "Problem", "nearest")])
def test_every_error_of_statewright_can_be_decoded(name: str) -> None:
    read = Serde().decode(encode_with_tag(26, [f"statewright.errors.{name}", "said", []]))
    assert (type(read), str(read)) == (getattr(errors, name), "said")


class OwnError(ValueError):
    """An exception of an application."""

    def __init__(self, code: int, **more: Any) -> None:
        super().__init__(f"failed with {code}")
        self.code = code


def test_another_exception_becomes_a_stored_error_with_its_class_name() -> None:
    read = round_trip(OwnError(3))
    assert type(read) is StoredError
    assert (read.kind, str(read)) == (type_name(OwnError), "failed with 3")


def test_a_stored_error_survives_a_round_trip() -> None:
    read = round_trip(round_trip(OwnError(3)))
    assert type(read) is StoredError
    assert (read.kind, str(read)) == (type_name(OwnError), "failed with 3")


@pytest.mark.parametrize("error", [ValueError("v"), OwnError(3), NodeTimeoutError("node", "run", 1), KeyError("k")])
def test_notes_of_an_exception_are_kept(error: Exception) -> None:
    with_notes = copy.copy(error) if isinstance(error, StatewrightError) else error
    with_notes.add_note("first")
    with_notes.add_note("second")
    assert round_trip(with_notes).__notes__ == ["first", "second"]
    assert round_trip(round_trip(with_notes)).__notes__ == ["first", "second"]


def test_an_exception_without_notes_has_none() -> None:
    assert not hasattr(round_trip(ValueError("v")), "__notes__")


@pytest.mark.parametrize(
    "name", ["builtins.print", "builtins.int", "statewright.errors.nearest", "os.system", "os.error", "", "ValueError"]
)
def test_a_name_that_is_not_an_exception_becomes_a_stored_error(name: str) -> None:
    read = Serde().decode(encode_with_tag(26, [name, "text", []]))
    assert type(read) is StoredError
    assert (read.kind, str(read)) == (name, "text")


def test_a_node_error_survives_a_round_trip() -> None:
    read = round_trip(NodeError("node", ValueError("v"), {"x": (1,)}))
    assert type(read) is NodeError
    assert (read.node, type(read.error), str(read.error), read.input) == ("node", ValueError, "v", {"x": (1,)})
    assert tag_of(read) == 51


# -- numpy


@pytest.fixture
def numpy() -> ModuleType:
    return pytest.importorskip("numpy", reason="numpy is not installed")


ARRAYS = {
    "integers": lambda np: np.arange(6).reshape(2, 3),
    "none": lambda np: np.array([]),
    "none in rows": lambda np: np.zeros((0, 3), dtype="int8"),
    "one without axes": lambda np: np.array(1.5),
    "big endian": lambda np: np.array([1, 2], dtype=">i4"),
    "by columns": lambda np: np.asfortranarray(np.arange(6).reshape(2, 3)),
    "every other": lambda np: np.arange(6)[::2],
    "backwards": lambda np: np.arange(3)[::-1],
    "truth": lambda np: np.array([True, False]),
    "complex": lambda np: np.array([1 + 2j, complex(np.nan)]),
    "text": lambda np: np.array(["a", "bcd", ""]),
    "bytes": lambda np: np.array([b"a", b"bcd"]),
    "instants": lambda np: np.array(["2026-01-02", "NaT"], dtype="M8[s]"),
    "spans": lambda np: np.array([1, 2], dtype="m8[ms]"),
    "fields": lambda np: np.array([(1, 2.5)], dtype=[("a", "i4"), ("b", "f8")]),
    "fields in fields": lambda np: np.zeros(2, dtype=[("a", "i4", (2,)), ("p", [("x", "f4"), ("y", "f4")])]),
}


@pytest.mark.parametrize("name", ARRAYS)
def test_an_array_keeps_its_type_shape_and_content(numpy: Any, name: str) -> None:
    array = ARRAYS[name](numpy)
    read = round_trip(array)
    assert type(read) is numpy.ndarray
    assert (read.dtype, read.shape, read.tobytes()) == (array.dtype, array.shape, array.tobytes())
    assert tag_of(array) == 24


def test_a_decoded_array_is_writable(numpy: Any) -> None:
    read = round_trip(numpy.arange(3))
    read[0] = 9
    assert read.tolist() == [9, 1, 2]


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda np: np.array([object()]), "contains objects. Store a list"),
        (lambda np: np.zeros(1, dtype=np.dtype([("a", "i1"), ("b", "f8")], align=True)), "gaps between its fields"),
        (lambda np: np.ma.array([1]), "MaskedArray is not registered"),
    ],
)
def test_unsupported_arrays_are_refused_with_their_path(numpy: Any, make: Any, message: str) -> None:
    with pytest.raises(SerdeError, match=message) as caught:
        Serde().encode({"a": [make(numpy)]}, "values")
    assert caught.value.key_path == "values.a[0]"


SCALARS = {
    "float64": lambda np: np.float64(1.5),
    "nan": lambda np: np.float32("nan"),
    "int8": lambda np: np.int8(-3),
    "uint64": lambda np: np.uint64(2**64 - 1),
    "bool": lambda np: np.bool_(True),
    "text": lambda np: np.str_("ä"),
    "no text": lambda np: np.str_(""),
    "bytes": lambda np: np.bytes_(b"x"),
    "complex64": lambda np: np.complex64(1j),
    "instant": lambda np: np.datetime64("2026-01-02"),
    "no span": lambda np: np.timedelta64("NaT"),
    "void": lambda np: np.void(b"abc"),
    "fields": lambda np: np.zeros(1, dtype=[("a", "i4")])[0],
}


@pytest.mark.parametrize("name", SCALARS)
def test_a_scalar_of_numpy_keeps_its_type(numpy: Any, name: str) -> None:
    value = SCALARS[name](numpy)
    read = round_trip(value)
    assert type(read) is type(value)
    assert (read.dtype, read.tobytes()) == (value.dtype, value.tobytes())
    assert tag_of(value) == 25


def test_a_scalar_of_numpy_can_be_a_key(numpy: Any) -> None:
    ((key, _),) = round_trip({numpy.int64(1): 1}).items()
    assert type(key) is numpy.int64


# -- damaged data


@pytest.mark.parametrize("tag", TAGS)
def test_codecs_refuse_data_of_the_wrong_form(tag: int) -> None:
    """Some codecs accept any value, such as that of Overwrite."""
    broken = [3, None, True, 1.5, "text", b"bytes", [], [[]], [1, 2, 3], {"a": 1}, [None, 9, 9, 9, 9, 9, 9, 9]]
    refused = 0
    for plain in broken:
        try:
            Serde().decode(encode_with_tag(tag, plain))
        except (DamagedDatabase, SerdeError):
            refused += 1
    assert refused or tag in (43, 45, 46, 47, 48, 49)
