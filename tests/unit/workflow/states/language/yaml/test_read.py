"""Reading YAML as plain values, including hostile files."""

from typing import Any

import pytest
import yaml
from tests.work import spend_at_most

from statewright.errors import Problem
from statewright.workflow.states.language.yaml import read as reader
from statewright.workflow.states.language.yaml.nodes import Mark
from statewright.workflow.states.language.yaml.read import MAX_DEPTH, read_document


def values(text: str | bytes) -> Any:
    """Return the values of a text without problems."""
    document = read_document(text)
    assert document.problems == ()
    assert document.root is not None
    return document.root.to_plain()


def problem(text: str | bytes) -> Problem:
    """Return the only problem of a text."""
    problems = read_document(text).problems
    assert len(problems) == 1, problems
    assert problems[0].suggestion
    return problems[0]


@pytest.fixture(params=["libyaml", "python"])
def parser(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """Run the test with each parser; the fast one may be missing."""
    if request.param == "python":
        monkeypatch.setattr(reader, "_get_loader", lambda: yaml.SafeLoader)
    elif not hasattr(yaml, "CSafeLoader"):
        pytest.skip("PyYAML without libyaml")
    return request.param


# -- values


def test_values_are_those_of_json(parser: str) -> None:
    text = "a: 1\nb: [x, {c: yes, d: ~}]\ne: 2020-01-02\nf: '1'\ng: !!str 5\nh: |\n  two\n  lines\n"
    assert values(text) == {
        "a": 1,
        "b": ["x", {"c": True, "d": None}],
        "e": "2020-01-02",
        "f": "1",
        "g": "5",
        "h": "two\nlines\n",
    }


def test_json_is_yaml(parser: str) -> None:
    assert values('{"a": [1, -2.5, true, false, null, "\\u00e4\\n"], "b": {}}') == {
        "a": [1, -2.5, True, False, None, "ä\n"],
        "b": {},
    }


def test_a_comment_and_a_document_marker_may_come_first(parser: str) -> None:
    assert values("# a comment\n---\na: 1\n...\n") == {"a": 1}


# -- aliases and merges


def test_aliases_and_merge_keys_work(parser: str) -> None:
    text = "base: &base {x: 1, y: 2}\nmore: &more {y: 3, z: 4}\none: *base\ntwo:\n  <<: [*base, *more]\n  x: 9\n"
    assert values(text)["two"] == {"x": 9, "y": 2, "z": 4}
    root: Any = read_document(text).root
    assert root.content["two"].content["z"].at == Mark(2, 23)


def test_a_quoted_merge_key_is_an_ordinary_key() -> None:
    assert values("a: {'<<': 1}") == {"a": {"<<": 1}}


def test_merging_a_value_other_than_a_map_is_rejected(parser: str) -> None:
    assert "'<<' merges maps" in problem("a: {<<: 1}").message


@pytest.mark.parametrize("text", ["a: &x [*x]", "&x {a: *x}", "a: &x {<<: *x}"])
def test_a_recursive_alias_is_rejected(text: str, parser: str) -> None:
    assert "a value that contains it" in problem(text).message


def test_an_alias_without_an_anchor_is_rejected_with_advice_on_quotes(parser: str) -> None:
    error = problem("pattern: *md")
    assert (error.line, error.column) == (1, 10)
    assert "'*'" in error.suggestion


def test_4_1_10_an_alias_bomb_is_rejected_at_once(parser: str) -> None:
    lines = ["a0: &a0 [x, x, x, x, x, x, x, x, x]"]
    lines += [f"a{i}: &a{i} [{', '.join([f'*a{i - 1}'] * 9)}]" for i in range(1, 12)]
    with spend_at_most():
        assert "too many values" in problem("\n".join(lines)).message


def test_4_1_10_an_alias_bomb_of_long_strings_is_rejected(parser: str) -> None:
    assert "too many values" in problem(f"a: &a {'x' * 10_000}\nb: [{', '.join(['*a'] * 5000)}]").message


def test_deeply_nested_aliases_are_rejected(parser: str) -> None:
    lines = ["a0: &a0 [x]"] + [f"a{i}: &a{i} [[[[[[[[[*a{i - 1}]]]]]]]]]" for i in range(1, 9)]
    assert "nested deeper" in problem("\n".join(lines)).message


# -- keys


def test_4_1_10_a_duplicate_key_is_rejected_with_both_lines(parser: str) -> None:
    error = problem("a: 1\nb: 2\na: 3\n")
    assert "line 1" in error.message
    assert "line 3" in error.message
    assert (error.line, error.column) == (3, 1)


@pytest.mark.parametrize(("key", "value"), [("on", "true"), ("1", "1"), ("~", "null"), ("1.5", "1.5")])
def test_a_key_other_than_a_string_is_explained(key: str, value: str, parser: str) -> None:
    error = problem(f"{key}: x")
    assert f"reads it as {value}" in error.message
    assert f"'{key}'" in error.suggestion


def test_a_list_as_a_key_is_rejected(parser: str) -> None:
    assert "used as a key" in problem("? [a]\n: b").message


@pytest.mark.parametrize("text", ["task: {{name}}", "task: {{ name }}", "- {{name}}"])
def test_a_template_without_quotes_is_explained(text: str, parser: str) -> None:
    error = problem(text)
    assert "'{{'" in error.message
    assert "quotes" in error.suggestion


# -- tags and words


@pytest.mark.parametrize(
    "text",
    [
        "a: !!python/object/apply:os.system [x]",
        "a: !!python/name:os.system x",
        "a: !!binary aGk=",
        "a: !!set {x}",
        "a: !!omap [x: 1]",
        "a: !mine x",
        "a: !<tag:example.org,2000:x> x",
        "a: !!int x",
        "a: !!map x",
    ],
)
def test_other_tags_are_rejected(text: str, parser: str) -> None:
    assert "tag" in problem(text).message


@pytest.mark.parametrize("text", ["a: !!str 1", "a: !!int '1'", "a: !!map {}", "a: !!seq []", "a: ! x", "a: !!null ''"])
def test_plain_tags_are_allowed(text: str, parser: str) -> None:
    values(text)


@pytest.mark.parametrize("word", [".inf", "-.inf", ".NaN", "1.0e+999"])
def test_numbers_that_json_does_not_have_are_rejected(word: str, parser: str) -> None:
    assert "not a valid number in JSON" in problem(f"a: {word}").message


# -- syntax


def test_a_second_document_is_rejected(parser: str) -> None:
    error = problem("a: 1\n---\nb: 2\n")
    assert "second document" in error.message
    assert error.line == 2


@pytest.mark.parametrize("text", ["", "\n\n", "# only this\n", "---\n", "~", b""])
def test_an_empty_file_is_rejected(text: str | bytes, parser: str) -> None:
    assert problem(text).message == "The file is empty."


def test_an_unpaired_surrogate_is_rejected(parser: str) -> None:
    assert problem("a: \ud800")
    assert problem('a: "\\uD800"')


@pytest.mark.parametrize("opening", ["[", "{", "- ", "? ", "[{a: ", "&a ["])
def test_deep_nesting_is_rejected_without_a_crash(opening: str, parser: str) -> None:
    assert "nested deeper" in problem(opening * 100_000).message


def test_nesting_up_to_the_limit_is_accepted(parser: str) -> None:
    values("[" * MAX_DEPTH + "]" * MAX_DEPTH)
    assert "nested deeper" in problem("[" * (MAX_DEPTH + 1) + "]" * (MAX_DEPTH + 1)).message
