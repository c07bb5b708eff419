"""Values of `--input`: JSON, files with JSON, and pairs that are merged."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from statewright.cli.console.failure import UsageError
from statewright.cli.workflow.inputs import read_input, read_message


@pytest.mark.parametrize(
    ("inputs", "value"),
    [
        (["{}"], {}),
        (['{"n": 1}'], {"n": 1}),
        (["[1, 2]"], [1, 2]),
        (["null"], None),
        (["5"], 5),
        (['"text"'], "text"),
        (["n=1"], {"n": 1}),
        (["n=1.5"], {"n": 1.5}),
        (["n=true"], {"n": True}),
        (["n=null"], {"n": None}),
        (["n=[1, 2]"], {"n": [1, 2]}),
        (['n="1"'], {"n": "1"}),
        (["name=Ada"], {"name": "Ada"}),
        (["name=Ada Lovelace"], {"name": "Ada Lovelace"}),
        (["sum=a=b"], {"sum": "a=b"}),
        (["empty="], {"empty": ""}),
        (['"a=b"'], "a=b"),
        (['{"a": "b=c"}'], {"a": "b=c"}),
        (["n=1", "m=2"], {"n": 1, "m": 2}),
        (['{"n": 1, "m": 1}', "m=2"], {"n": 1, "m": 2}),
        (["n=1", '{"n": 3}'], {"n": 3}),
    ],
)
def test_valid_inputs(inputs: list[str], value: Any) -> None:
    assert read_input(inputs) == value


def test_a_file_is_read_as_json_and_merged(tmp_path: Path) -> None:
    file = tmp_path / "in.json"
    file.write_text('{"word": "grüße", "n": 1}', encoding="utf-8")
    assert read_input([f"@{file}", "n=2"]) == {"word": "grüße", "n": 2}


@pytest.mark.parametrize(
    ("inputs", "message"),
    [
        (["{n"], "--input '{n' is not valid JSON.*line 1, column 2"),
        ([""], "--input .* is not valid JSON"),
        (["two words=1"], "--input .* is not valid JSON"),
        (["=1"], "--input .* is not valid JSON"),
        (["a.b=1"], "--input .* is not valid JSON"),
        (["Ada"], "Pass a JSON object, @FILE or KEY=VALUE"),
        (["n=1", "[1]"], r"Only JSON objects can be merged.*\[1\]"),
        (["5", "n=1"], "Only JSON objects can be merged.*is 5"),
        (["@none.json"], "'none.json' cannot be read: No such file"),
    ],
)
def test_invalid_inputs_are_refused(inputs: list[str], message: str) -> None:
    with pytest.raises(UsageError, match=message):
        read_input(inputs)


@pytest.mark.parametrize(
    ("content", "message"),
    [(b"{n", "is not valid JSON"), (b"\xff\xfe\x00", "cannot be read"), (b"", "is not valid JSON")],
)
def test_a_file_with_invalid_content_is_named(tmp_path: Path, content: bytes, message: str) -> None:
    file = tmp_path / "in.json"
    file.write_bytes(content)
    with pytest.raises(UsageError, match=message) as caught:
        read_input([f"@{file}"])
    assert str(file) in str(caught.value)


def test_a_folder_is_not_a_file(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="cannot be read"):
        read_input([f"@{tmp_path}"])


@pytest.mark.parametrize("text", ["1" * 5000, "n=" + "1" * 5000, "[" * 100_000], ids=["long", "long pair", "deep"])
def test_input_that_is_too_large_for_the_parser_is_a_usage_error(text: str) -> None:
    with pytest.raises(UsageError):
        read_input([text])


def test_an_agent_takes_text_or_a_file(tmp_path: Path) -> None:
    (tmp_path / "message.txt").write_text("from a file", encoding="utf-8")
    assert read_message(["a=1"]).text == "a=1"
    assert read_message([f"@{tmp_path / 'message.txt'}"]).text == "from a file"


@pytest.mark.parametrize("inputs", [[], ["one", "two"]])
def test_an_agent_takes_one_message(inputs: list[str]) -> None:
    with pytest.raises(UsageError, match="Pass --input TEXT"):
        read_message(inputs)
