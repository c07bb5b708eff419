"""Transports, and the secrets that their reprs omit."""

import pytest

from statewright.agents.mcp import Sse, Stdio, StreamableHttp


def test_reprs_contain_no_secrets() -> None:
    texts = [
        repr(Stdio("npx", ("--token", "s3cret"), {"KEY": "s3cret"})),
        repr(StreamableHttp("https://me:s3cret@host/mcp?key=s3cret#s3cret", {"Authorization": "s3cret"})),
        Sse("https://me:s3cret@host:8080/sse?key=s3cret").shown,
    ]
    assert texts == ["Stdio('npx')", "StreamableHttp('https://host/mcp')", "URL https://host:8080/sse"]


def test_transports_are_compared_by_value_and_hashable() -> None:
    assert Stdio("x", (), {"A": "1"}) == Stdio("x", (), {"A": "1"})
    assert Stdio("x", (), {"A": "1"}) != Stdio("x", (), {"A": "2"})
    assert len({Stdio("x", (), {"A": "1"}), Stdio("x", (), {"A": "1"})}) == 1
    assert StreamableHttp("http://h") != Sse("http://h")


@pytest.mark.parametrize("url", ["", "host/mcp", "ftp://host", "http://", "http://host:port/", "http://[::1", 7])
def test_an_invalid_url_is_a_problem(url: object) -> None:
    assert [problem.partition(" is ")[0] for problem in Sse(url).problems()] == ["url"]  # type: ignore[arg-type]


def test_values_that_are_not_strings_are_reported_with_their_key() -> None:
    problems = list(Stdio(" ", (1,), {"A": 1, "B": "fine", "": "s3cret"}).problems())  # type: ignore[arg-type,dict-item]
    assert [problem.partition(". ")[0] for problem in problems] == [
        "command is ' '",
        "args has a value that is not a string",
        "env has an invalid name or value under 'A'",
        "env has an invalid name or value under ''",
    ]
    assert list(Sse("http://h", ["A"]).problems())  # type: ignore[arg-type]
