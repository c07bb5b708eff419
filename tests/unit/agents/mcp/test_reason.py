"""The texts of errors."""

from statewright.agents.mcp.texts import error_text


def test_the_kind_is_told_where_the_text_alone_says_little() -> None:
    assert error_text(FileNotFoundError("x")) == "FileNotFoundError: x"
    assert error_text(TimeoutError("too late")) == "too late"
    assert error_text(TimeoutError()) == "TimeoutError"


def test_of_a_group_the_first_is_told() -> None:
    inner = ExceptionGroup("inner", [ValueError("first"), ValueError("second")])
    assert error_text(BaseExceptionGroup("outer", [inner, KeyError("k")])) == "ValueError: first"
