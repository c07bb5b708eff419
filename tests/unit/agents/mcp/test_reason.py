"""The texts of errors."""

from statewright.agents.mcp.texts import error_text


def test_the_class_of_an_error_is_included_if_its_text_is_unclear() -> None:
    assert error_text(FileNotFoundError("x")) == "FileNotFoundError: x"
    assert error_text(TimeoutError("too late")) == "too late"
    assert error_text(TimeoutError()) == "TimeoutError"


def test_a_group_is_described_by_its_first_error() -> None:
    inner = ExceptionGroup("inner", [ValueError("first"), ValueError("second")])
    assert error_text(BaseExceptionGroup("outer", [inner, KeyError("k")])) == "ValueError: first"
