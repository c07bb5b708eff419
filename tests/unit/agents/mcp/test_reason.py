"""Why something failed."""

from statewright.agents.mcp.texts import told


def test_the_kind_is_told_where_the_text_alone_says_little() -> None:
    assert told(FileNotFoundError("x")) == "FileNotFoundError: x"
    assert told(TimeoutError("too late")) == "too late"
    assert told(TimeoutError()) == "TimeoutError"


def test_of_a_group_the_first_is_told() -> None:
    inner = ExceptionGroup("inner", [ValueError("first"), ValueError("second")])
    assert told(BaseExceptionGroup("outer", [inner, KeyError("k")])) == "ValueError: first"
