"""Parsing the output of a state: section 2.1."""

import json
import math
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.work import count_work, spend_at_most

from statewright.agents import as_text
from statewright.workflow.states.expressions.output import SIZE_LIMIT, parse_text


def is_same(actual: Any, expected: Any) -> bool:
    return type(actual) is type(expected) and actual == expected


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ('{"a": true}', {"a": True}),
        ("{'a': True}", {"a": True}),
        ("[1,2]", [1, 2]),
        ('"str"', "str"),
        ("'str'", "str"),
        ("123", 123),
        ("-1", -1),
        ("1.5", 1.5),
        ("1e3", 1000.0),
        ("true", True),
        ("True", True),
        ("false", False),
        (" 123\n", 123),
        ("0x10", 16),
        ("1_000", 1000),
        ("", ""),
        ("  ", "  "),
        ("hello", "hello"),
        (" hello\n", " hello\n"),
        ("07", "07"),
        ("1 apple", "1 apple"),
        ("2024-10-11", "2024-10-11"),
        ("10.0.0.1", "10.0.0.1"),
        ("(see above)", "(see above)"),
        ("{}", {}),
        ("[]", []),
    ],
)
def test_2_1_a_whole_text_is_parsed_as_a_value(text: str, value: Any):
    assert is_same(parse_text(text), value)


@pytest.mark.parametrize("text", ["null", "None", " null\n"])
def test_open_points_null_becomes_none(text: str):
    assert parse_text(text) is None


def test_2_1_json_has_priority():
    assert parse_text(r'"\/\u00e9"') == "/é"
    assert parse_text('"\\ud83d\\ude00"') == "😀"


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("(1,2)", [1, 2]),
        ("{'a': (1, 2), 'b': None}", {"a": [1, 2], "b": None}),
        ("{1: 'a', None: 'b'}", {"1": "a", "null": "b"}),
        ("{1,2}", "{1,2}"),
        ('b"x"', 'b"x"'),
        ("1j", "1j"),
        ("{'a': b'x'}", "{'a': b'x'}"),
        ("set()", "set()"),
        ("__import__('os')", "__import__('os')"),
    ],
)
def test_2_1_python_literals_become_json_or_stay_text(text: str, value: Any):
    assert is_same(parse_text(text), value)


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ('Here:\n```json\n{"a": [1, {"b": 2}]}\n```\nDone.', {"a": [1, {"b": 2}]}),
        ("```json\n{'a': True}\n```", {"a": True}),
        ('```JSON\n["x"]\n```', ["x"]),
        ("~~~json\n[1, 2]\n~~~", [1, 2]),
        ('~~~json\n[1]\n~~~\n```json\n{"a": 1}\n```', {"a": 1}),
        ('{"first": 1} and\n```json\n{"a": 1}\n```', {"a": 1}),
        ('```json\nnot json\n```\n```json\n{"a": 1}\n```', {"a": 1}),
        ('```json\n{"code": "```python\\nx\\n```"}\n```', {"code": "```python\nx\n```"}),
        ('```json\n{"a": 1}', {"a": 1}),
        ('```\n{"a": 1}\n```', {"a": 1}),
        ('```python\n{"a": 1}\n```', {"a": 1}),
        ("```\nplain\n```", "```\nplain\n```"),
        ("```jsonc\n[1]\n```", "```jsonc\n[1]\n```"),
    ],
)
def test_2_1_fenced_blocks_are_parsed(text: str, value: Any):
    assert is_same(parse_text(text), value)


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ('The answer is {"a":1}.', {"a": 1}),
        ("It's {'k': 'it\\'s'} here", {"k": "it's"}),
        ('a {"a":{"b":"}"}} b', {"a": {"b": "}"}}),
        ('first {"a":1} then {"b":2}', {"a": 1}),
        ('{"a":1}{"b":2}', {"a": 1}),
        ('{"a":1}\n{"b":2}', {"a": 1}),
        ('Use {name} and {} first: {"a": 1}', {"a": 1}),
        ('items: [{"id": 1}, {"id": 2}] done', [{"id": 1}, {"id": 2}]),
        ('mixed: ["a", {"id": 1}]', ["a", {"id": 1}]),
        ('files: ["a.py", "b.py"] done', ["a.py", "b.py"]),
        ('Here:\n["a.py"]\n', ["a.py"]),
        ("pairs: [['a', 'b'], ['c']]", [["a", "b"], ["c"]]),
        ('run(["a"]) gives {"a": 1}', {"a": 1}),
        ('["a"] but rather {"b": 1}', {"b": 1}),
        ('x = "{" and {"a": 1}', {"a": 1}),
        ("set {1, 2} and {'a': 1}", {"a": 1}),
    ],
)
def test_2_1_values_in_prose_are_found(text: str, value: Any):
    assert is_same(parse_text(text), value)


@pytest.mark.parametrize(
    "text",
    [
        "hello [1] world",
        "as shown in [1, 2] and [3]",
        "a [link](http://x.org) and [another]: http://y.org",
        'a ["quoted"](http://x.org) link',
        'data["items"] and data[\'key\'] and f()["x"]',
        "- [ ] todo\n- [x] done",
        "function f() {} and {} and []",
        "if (a) { return b; } else { c(); }",
        "{{name}} and {name} and {% if x %}",
        "${HOME} and ${#array[@]} $(ls)",
        "matrix [[1, 2], [3, 4]]",
        "\\[x = \\{1, 2\\}\\]",
        "[true] [null] [yes]",
    ],
)
def test_2_1_brackets_without_a_value_stay_text(text: str):
    assert parse_text(text) == text


@pytest.mark.parametrize(
    "text",
    [
        '{"items": [{"a":1}, {"b":',
        '[{"a": 1}, {"b":',
        "{'a': {1, 2}, 'b': {'c': 1}}",
        '{"a": 1, "b": oops, "c": {"d": 1}}',
        'text {"a": {"b": 1}',
    ],
)
def test_parts_of_an_invalid_value_are_not_extracted(text: str):
    assert parse_text(text) == text


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ('{"a": NaN, "b": -Infinity, "c": 1e999}', {"a": None, "b": None, "c": None}),
        ("NaN", "NaN"),
        ("-Infinity", "-Infinity"),
        ("1e999", "1e999"),
        ("9" * 5000, "9" * 5000),
        ('{"a": ' + "9" * 5000 + "}", '{"a": ' + "9" * 5000 + "}"),
        ("9" * 100, int("9" * 100)),
        ('{"a": 1, "a": 2}', {"a": 2}),
        ('{"a": "\\ud800"}', {"a": "?"}),
        ("{'a': '\\ud800'}", {"a": "?"}),
        ("[" * 100 + "]" * 100, json.loads("[" * 100 + "]" * 100)),
        ("[" * 101 + "]" * 101, "[" * 101 + "]" * 101),
        ('{"a":' * 101 + "1" + "}" * 101, '{"a":' * 101 + "1" + "}" * 101),
        ("[" * 100_000 + "]" * 100_000, "[" * 100_000 + "]" * 100_000),
        ("(" * 150 + ")" * 150, "(" * 150 + ")" * 150),
    ],
)
def test_4_1_parsed_values_can_be_stored(text: str, value: Any):
    parsed = parse_text(text)

    assert parsed == value
    json.dumps(parsed, allow_nan=False).encode()


def test_4_1_the_size_of_a_parsed_text_is_limited():
    assert parse_text("[" + "1," * (SIZE_LIMIT // 2 - 1) + "1]") is not None
    long = '["' + "a" * SIZE_LIMIT + '"]'
    assert parse_text(long) is long


@pytest.mark.parametrize(
    "text",
    [
        "{" * 200_000,
        "[{" * 200_000,
        "[" * 200_000,
        "```json" * 200_000,
        "```json\n" * 200_000,
        "~~~json [1," * 100_000,
        '["\\"' * 200_000,
        "['\\'" * 200_000,
        "{'" + "\\'" * 500_000,
        '["' + '\\"' * 500_000,
        '{"a":' * 200_000,
        "[1," * 300_000,
        "[ " * 300_000,
        "'''" * 300_000,
        "(" * 300_000,
        '["a",' + '"b",' * 300_000,
        '[["a",' * 990 + "1," * 500_000,
        "```json [" + "1," * 500_000,
        "1" * 1_999_999 + "x",
        "['a', #\n" * 100_000,
        "[" + " " * 1_000_000 + "x",
        "{'a': '" * 100_000,
        '{"' * 300_000,
        "{'a' " * 200_000,
    ],
    ids=lambda text: text[:12].encode("unicode_escape").decode(),
)
@pytest.mark.sampled(4)
def test_4_1_hostile_text_is_parsed_in_limited_time(text: str):
    with spend_at_most():
        assert parse_text(text) == text


@given(st.text(alphabet="{}[]()'\"`~json:,1 a\\\n#-eE.tTrue"))
def test_parsing_never_raises_and_returns_json(text: str):
    json.dumps(parse_text(text), allow_nan=False)


@given(
    st.recursive(
        st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
        lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    )
)
def test_json_is_parsed_back(value: Any):
    assert parse_text(json.dumps(value)) == value


def test_plain_words_take_constant_work():
    words = "Nothing here but words, many of them. "
    short, long = (count_work(lambda text=words * times: parse_text(text)) for times in (10, 10_000))
    assert long == short


@pytest.mark.parametrize(
    ("value", "text"),
    [
        ("plain", "plain"),
        (None, "null"),
        (True, "true"),
        (1.5, "1.5"),
        ({"ä": [1, "é"]}, '{"ä": [1, "é"]}'),
        ((1, 2), "[1, 2]"),
        ({(1, 2): 3}, "{(1, 2): 3}"),
    ],
)
def test_2_1_values_other_than_text_are_encoded_as_json(value: Any, text: str):
    assert as_text(value) == text


def test_every_value_has_a_text():
    circle: list[Any] = []
    circle.append(circle)

    assert as_text(circle) == "[[...]]"
    assert as_text({"x": math}).startswith('{"x": "<module')
