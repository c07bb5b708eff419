"""Exceptions keep their type, arguments and text on their way from a worker."""

from __future__ import annotations

import pickle
import threading
from typing import Any

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
