"""A stream that relays text to a listener."""

from __future__ import annotations

import io
import sys

import pytest

from statewright.observe.capture import Tee, original_stream


def test_written_text_is_captured_and_relayed() -> None:
    captured: list[str] = []
    stream = io.StringIO()
    tee = Tee(stream, captured.append)
    print("a", 1, file=tee)
    tee.writelines(["b", "c"])
    assert (stream.getvalue(), "".join(captured)) == ("a 1\nbc", "a 1\nbc")
    assert tee.write("four") == 4


def test_a_stopped_tee_captures_nothing() -> None:
    captured: list[str] = []
    stream = io.StringIO()
    tee = Tee(stream, captured.append)
    tee.stop()
    tee.write("a")
    assert (stream.getvalue(), captured) == ("a", [])


def test_errors_of_the_listener_do_not_reach_the_caller() -> None:
    def fail(text: str) -> None:
        raise ValueError(text)

    stream = io.StringIO()
    Tee(stream, fail).write("a")
    assert stream.getvalue() == "a"


def test_errors_of_the_stream_reach_the_caller() -> None:
    stream = io.StringIO()
    stream.close()
    with pytest.raises(ValueError, match="closed"):
        Tee(stream, lambda text: None).write("a")


def test_everything_else_is_delegated_to_the_stream() -> None:
    stream = io.TextIOWrapper(io.BytesIO(), encoding="latin-1", line_buffering=True)
    tee = Tee(stream, lambda text: None)
    assert (tee.encoding, tee.line_buffering, tee.isatty()) == ("latin-1", True, False)
    assert tee.buffer is stream.buffer
    with tee as entered:
        assert entered is tee
    assert stream.closed
    assert list(Tee(io.StringIO("a\nb"), lambda text: None)) == ["a\n", "b"]


def test_the_original_stream_of_nested_tees_is_found() -> None:
    stream = io.StringIO()
    assert original_stream(Tee(Tee(stream, print), print)) is stream
    assert original_stream(sys.__stdout__) is sys.__stdout__
