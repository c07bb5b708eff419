"""What `--input` means: JSON, a file with JSON, or pairs that are merged."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from statewright.cli.console.failure import UsageError
from statewright.cli.workflow.inputs import read_input, read_message


@pytest.mark.parametrize(
    ("inputs", "meant"),
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
def test_what_inputs_mean(inputs: list[str], meant: Any) -> None:
    assert read_input(inputs) == meant


def test_a_file_is_read_as_json_and_merged_like_any_other(tmp_path: Path) -> None:
    file = tmp_path / "in.json"
    file.write_text('{"word": "grüße", "n": 1}', encoding="utf-8")
    assert read_input([f"@{file}", "n=2"]) == {"word": "grüße", "n": 2}


@pytest.mark.parametrize(
    ("inputs", "said"),
    [
        (["{n"], "--input '{n' is not valid JSON.*line 1, column 2"),
        ([""], "--input .* is not valid JSON"),
        (["two words=1"], "--input .* is not valid JSON"),
        (["=1"], "--input .* is not valid JSON"),
        (["a.b=1"], "--input .* is not valid JSON"),
        (["Ada"], "Give a JSON object, @FILE or KEY=VALUE"),
        (["n=1", "[1]"], r"Only mappings can be merged.*\[1\]"),
        (["5", "n=1"], "Only mappings can be merged.*is 5"),
        (["@none.json"], "'none.json' cannot be read: No such file"),
    ],
)
def test_what_is_no_input(inputs: list[str], said: str) -> None:
    with pytest.raises(UsageError, match=said):
        read_input(inputs)


@pytest.mark.parametrize(
    ("content", "said"), [(b"{n", "is not valid JSON"), (b"\xff\xfe\x00", "cannot be read"), (b"", "is not valid JSON")]
)
def test_a_file_that_holds_something_else_is_named(tmp_path: Path, content: bytes, said: str) -> None:
    file = tmp_path / "in.json"
    file.write_bytes(content)
    with pytest.raises(UsageError, match=said) as caught:
        read_input([f"@{file}"])
    assert str(file) in str(caught.value)


def test_a_folder_is_no_file(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="cannot be read"):
        read_input([f"@{tmp_path}"])


@pytest.mark.parametrize("given", ["1" * 5000, "n=" + "1" * 5000, "[" * 100_000], ids=["long", "long pair", "deep"])
def test_what_is_too_much_for_the_parser_is_wrong_use(given: str) -> None:
    with pytest.raises(UsageError):
        read_input([given])


def test_an_agent_is_told_text_as_it_stands_or_from_a_file(tmp_path: Path) -> None:
    (tmp_path / "said.txt").write_text("from a file", encoding="utf-8")
    assert read_message(["a=1"]).text == "a=1"
    assert read_message([f"@{tmp_path / 'said.txt'}"]).text == "from a file"


@pytest.mark.parametrize("given", [[], ["one", "two"]])
def test_an_agent_is_told_one_thing(given: list[str]) -> None:
    with pytest.raises(UsageError, match="Give --input TEXT"):
        read_message(given)
