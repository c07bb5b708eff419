"""Exceptions keep their type, arguments and text on their way from a worker."""

from __future__ import annotations

import pickle
import sys
import threading
from types import ModuleType
from typing import Any, cast

import pytest

from statewright.errors import CircuitOpen, StatewrightError
from statewright.executors.exceptions import WorkerTraceback, pack_error, unpack_error


def dumps(value: Any) -> bytes:
    return pickle.dumps(value)


class WithLock(OSError):
    """Holds something that cannot be pickled."""

    def __init__(self, number: int, text: str) -> None:
        super().__init__(number, text)
        self.lock = threading.Lock()
        self.retry_after = 3


class OtherArguments(Exception):
    """Can be pickled, but not restored."""

    def __init__(self, *, name: str) -> None:
        self.name = name
        super().__init__()

    def __str__(self) -> str:
        return f"about {self.name}"


class TextFromLock(Exception):
    """Its text needs what cannot be pickled."""

    def __init__(self) -> None:
        super().__init__()
        self.lock = threading.Lock()

    def __str__(self) -> str:
        return "locked" if self.lock.locked() else "open"


class StrictNew(Exception):
    """Can only be created with two arguments."""

    def __new__(cls, first: int, second: int) -> StrictNew:
        return super().__new__(cls)

    def __init__(self, first: int, second: int) -> None:
        super().__init__("strict")
        self.second = second
        self.lock = threading.Lock()


class Sealed(Exception):
    """Has no derived classes, and cannot be pickled."""

    def __init__(self) -> None:
        super().__init__()
        self.lock = threading.Lock()

    def __init_subclass__(cls) -> None:
        raise TypeError("sealed")

    def __str__(self) -> str:
        return "locked" if self.lock.locked() else "open"


class Team(ExceptionGroup[Exception]):
    """A group with an attribute of its own, that is created in another way than other groups."""

    def __new__(cls, leader: str, members: list[Exception]) -> Team:  # pyright: ignore[reportInconsistentConstructor]
        group = super().__new__(cls, f"led by {leader}", members)
        group.leader = leader
        return group

    leader: str


class NoRepr:
    """Cannot be shown or pickled."""

    def __repr__(self) -> str:
        raise LookupError

    def __reduce__(self) -> Any:
        raise TypeError


def sent(error: BaseException) -> BaseException:
    """Return an exception after its way between processes."""
    try:
        raise error
    except BaseException as raised:
        return unpack_error(pickle.loads(pickle.dumps(pack_error(raised, dumps))))


@pytest.mark.parametrize(
    "error",
    [
        ValueError("a", 1),
        KeyError("k"),
        UnicodeDecodeError("utf-8", b"x", 0, 1, "bad"),
        SystemExit(3),
        CircuitOpen("n", 1, 2),
    ],
    ids=lambda error: type(error).__name__,
)
def test_errors_that_can_be_pickled_arrive_unchanged(error: BaseException) -> None:
    copy = sent(error)
    assert type(copy) is type(error)
    assert (copy.args, str(copy)) == (error.args, str(error))
    if isinstance(error, StatewrightError):
        assert {name: vars(copy)[name] for name in vars(error)} == vars(error)


def test_errors_that_cannot_be_pickled_keep_what_can() -> None:
    copy = sent(WithLock(2, "no such file"))
    assert type(copy) is WithLock
    assert (copy.errno, copy.strerror) == (2, "no such file")
    assert (copy.args, str(copy), copy.retry_after) == ((2, "no such file"), "[Errno 2] no such file", 3)
    assert not hasattr(copy, "lock")


def test_errors_that_cannot_be_restored_are_rebuilt_without_init() -> None:
    copy = sent(OtherArguments(name="x"))
    assert type(copy) is OtherArguments
    assert str(copy) == "about x"


def test_an_error_whose_text_is_lost_with_an_attribute_keeps_its_text() -> None:
    copy = sent(TextFromLock())
    assert isinstance(copy, TextFromLock)
    assert str(copy) == "open"


def test_local_classes_arrive_as_their_base_class_with_their_name() -> None:
    class Local(LookupError):
        pass

    copy = sent(Local("text"))
    assert isinstance(copy, LookupError)
    assert type(copy).__name__ == "Local"
    assert str(copy) == "text"


def test_arguments_that_cannot_be_pickled_arrive_as_text() -> None:
    copy = sent(ValueError("a", threading.main_thread()))
    assert isinstance(copy, ValueError)
    assert "MainThread" in str(copy)
    assert copy.args[0] == "a"
    assert "MainThread" in copy.args[1]


def test_the_cause_is_the_traceback_of_the_worker() -> None:
    cause = sent(ValueError("a")).__cause__
    assert isinstance(cause, WorkerTraceback)
    assert "in sent" in cause.text


def test_notes_arrive() -> None:
    error = ValueError("a")
    error.add_note("a note")
    assert sent(error).__notes__ == ["a note", "in a worker process"]


FRAGILE = [OtherArguments(name="x"), WithLock(2, "no"), StrictNew(1, 2), TextFromLock(), Sealed(), ValueError(NoRepr())]


@pytest.mark.parametrize("error", FRAGILE, ids=lambda error: type(error).__name__)
def test_a_group_keeps_its_members_whether_pickle_can_restore_them_or_not(error: Exception) -> None:
    inner = BaseExceptionGroup("inner", [KeyboardInterrupt(), error])
    copy = sent(BaseExceptionGroup("outer", [KeyError("k"), inner]))
    assert type(copy) is BaseExceptionGroup
    assert (copy.message, str(copy)) == ("outer", "outer (2 sub-exceptions)")
    key_error, copied_inner = cast("list[Any]", copy.exceptions)
    assert type(key_error) is KeyError
    assert type(copied_inner) is BaseExceptionGroup
    copied = cast("list[BaseException]", copied_inner.exceptions)[1]
    assert (type(copied).__name__, str(copied)) == (type(error).__name__, str(sent(error)))


@pytest.mark.parametrize("member", [ValueError("v"), OtherArguments(name="x")], ids=["pickles", "does not"])
def test_a_class_of_groups_is_kept_with_its_attributes(member: Exception) -> None:
    copy = sent(Team("me", [member]))
    assert type(copy) is Team
    assert (copy.leader, copy.message, type(copy.exceptions[0])) == ("me", "led by me", type(member))


@pytest.mark.parametrize("error", FRAGILE, ids=lambda error: type(error).__name__)
def test_every_error_arrives_with_the_name_of_its_class(error: Exception) -> None:
    copy = sent(error)
    assert isinstance(copy, Exception)
    assert type(copy).__name__ == type(error).__name__
    assert isinstance(copy.__cause__, WorkerTraceback)


def test_an_error_whose_data_exist_in_the_worker_only_arrives_as_text(monkeypatch: pytest.MonkeyPatch) -> None:
    module = ModuleType("only_in_worker")
    exec("class Value: pass\nclass Error(ValueError): pass\nclass Key(KeyError): pass", vars(module))
    monkeypatch.setitem(sys.modules, "only_in_worker", module)
    with_value = OtherArguments(name="x")
    with_value.args, with_value.value = ("a", module.Value()), module.Value()  # pyright: ignore[reportAttributeAccessIssue]
    packed = [
        pack_error(error, dumps) for error in (with_value, module.Error("text"), ExceptionGroup("g", [module.Key("k")]))
    ]
    data = pickle.dumps(packed)
    monkeypatch.delitem(sys.modules, "only_in_worker")
    first, second, group = map(unpack_error, pickle.loads(data))
    assert type(first) is OtherArguments
    assert (first.args[0], str(first)) == ("a", "about x")
    assert "No module named 'only_in_worker'" in first.args[1]
    assert (type(second).__name__, str(second), isinstance(second, ValueError)) == ("Error", "text", True)
    members: list[Exception] = getattr(group, "exceptions", [])
    assert [(str(member), isinstance(member, KeyError)) for member in members] == [("'k'", True)]


def test_groups_that_are_nested_too_deeply_arrive_as_text() -> None:
    error: Any = ValueError("leaf")
    for _ in range(sys.getrecursionlimit()):
        error = ExceptionGroup("level", [error])
    copy = sent(error)
    assert isinstance(copy, Exception)
    assert str(copy) == "level (1 sub-exception)"
