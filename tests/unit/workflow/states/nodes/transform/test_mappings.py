"""The mappings of single fields."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from statewright.errors import ExpressionError
from statewright.workflow.states.expressions import parse_expression
from statewright.workflow.states.nodes.config import ConfigReader
from statewright.workflow.states.nodes.transform.mappings import (
    READERS,
    ArrayMapping,
    ConditionMapping,
    ConstantMapping,
    ExtractMapping,
    ScriptMapping,
    TemplateMapping,
)
from statewright.workflow.states.templates import parse_template

DATA = {
    "user": {"name": "Ada", "nothing": None, "no": False},
    "rows": [{"n": 1, "s": "a"}, {"n": 2}, {"n": None}, "x"],
    "user.name": "exactly",
}


@pytest.mark.parametrize(
    ("path", "value"),
    [
        ("user", {"name": "Ada", "nothing": None, "no": False}),
        ("user.no", False),
        ("user.nothing", "default"),
        ("user.missing", "default"),
        ("missing.name", "default"),
        ("user.name.first", "default"),
        ("user.name", "exactly"),
        ("rows[0].n", 1),
        ("rows.0.n", 1),
        ("user.__class__", "default"),
    ],
)
def test_2_10_extract_returns_a_part_or_the_default(path: str, value: Any) -> None:
    assert ExtractMapping(path, "default").compute(DATA) == value


def test_2_10_extract_without_a_default_returns_null() -> None:
    assert ExtractMapping("missing").compute(DATA) is None


CONDITIONS = [
    ("action in ['opened', 'updated', 'reopened']", {"action": "opened"}, True),
    ("action in ['opened', 'updated', 'reopened']", {"action": "closed"}, False),
    ("action in ['opened', 'edited']", {"action": "edited"}, True),
    ("'WS' in label_names", {"label_names": ["WS", "x"]}, True),
    ("has_ws_label or 'critical' in label_names", {"has_ws_label": False, "label_names": ["critical"]}, True),
    ("len(target_labels) > 0", {"target_labels": []}, False),
    ("tag_count > 5", {"tag_count": 6}, True),
    ("tag_count >= 3", {"tag_count": 2}, False),
    ("priority == 'high' and count > 5", {"priority": "high", "count": 6}, True),
    ("users.get('status') == 'active'", {"users": {"status": "active"}}, True),
    ("phone is not None and phone.startswith('555')", {"phone": "5550123"}, True),
    ("phone is not None and phone.startswith('555')", {"phone": None}, False),
    ("phone is not None and len(phone) > 0", {"phone": ""}, False),
    ("'@' in email_lower and '.' in email_lower", {"email_lower": "a@b.c"}, True),
    ("pr.user.login == 'ada'", {"pr": {"user": {"login": "ada"}}}, True),
    ("pr.items[0].name == 'x'", {"pr": {"items": [{"name": "x"}]}}, True),
]


@pytest.mark.parametrize(("text", "data", "expected"), CONDITIONS)
def test_4_3_conditions_are_evaluated(text: str, data: Any, expected: bool) -> None:
    assert ConditionMapping(parse_expression(text), "then", "else").compute(data) == ("then" if expected else "else")


@pytest.mark.parametrize("text", ["missing > 1", "1 / 0 > 1", "'a' > 1", "x.missing", "[x for x in y]", "open('f')"])
def test_2_10_a_failed_condition_returns_the_else_value(text: str) -> None:
    assert ConditionMapping(parse_expression(text), "then", "else").compute({"x": {}}) == "else"


def test_a_condition_without_values_returns_a_boolean() -> None:
    assert ConditionMapping(parse_expression("1 == 1")).compute({}) is True
    assert ConditionMapping(parse_expression("1 == 2")).compute({}) is False


def test_values_in_conditions_are_not_converted() -> None:
    assert ConditionMapping(parse_expression("a == '15'")).compute({"a": "15"}) is True


def test_2_10_a_template_returns_text() -> None:
    template = parse_template("PR #{{ n }}: {{ pr.title }} {{ labels | join(', ') }} {{ missing }} {{ yes }}")
    data = {"n": 11, "pr": {"title": "Fix"}, "labels": ["a", "b"], "yes": True}
    assert TemplateMapping(template).compute(data) == "PR #11: Fix a, b {{ missing }} true"
    assert TemplateMapping(parse_template("{{ n }}")).compute(data) == "11"


def test_2_10_a_template_may_have_blocks() -> None:
    template = parse_template("{% for row in rows %}{{ row.n }};{% endfor %}")
    assert TemplateMapping(template).compute({"rows": [{"n": 1}, {"n": 2}]}) == "1;2;"


@pytest.mark.parametrize("text", ["{{ a.__class__.__mro__ }}", "{% if a.__class__ %}x{% endif %}", "{{ a.__init__ }}"])
def test_4_1_templates_cannot_reach_python_objects(text: str) -> None:
    output = TemplateMapping(parse_template(text)).compute({"a": "x"})
    assert output in (text, "")


@pytest.mark.parametrize("value", [1, None, "{{ a }}", [{"a": 1}], False])
def test_2_10_a_constant_is_returned_unchanged(value: Any) -> None:
    assert ConstantMapping(value).compute({"a": "secret"}) == value


SCRIPTS = [
    ("len(tags)", {"tags": [1, 2]}, 2),
    ("len(label_names)", {"label_names": ["a"]}, 1),
    ("urgency * 2 + importance", {"urgency": 3, "importance": 1}, 7),
    ("email.lower().strip()", {"email": " A@B.C "}, "a@b.c"),
    ("f'{first_name} {last_name}'", {"first_name": "Ada", "last_name": "L"}, "Ada L"),
    ("price * quantity", {"price": 1.5, "quantity": 2}, 3.0),
    ("sum(numbers)", {"numbers": [1, 2, 3]}, 6),
    ("users.get('first_name', '').strip()", {"users": {"first_name": " Ada"}}, "Ada"),
    ("users.get('first_name', '').strip()", {"users": {}}, ""),
    ("pr.id", {"pr": {"id": 7}}, 7),
    ("'yes' if active else 'no'", {"active": 0}, "no"),
    ("{'n': n, 'all': [n, n + 1]}", {"n": 1}, {"n": 1, "all": [1, 2]}),
]


@pytest.mark.parametrize(("text", "data", "value"), SCRIPTS)
def test_4_3_scripts_are_evaluated(text: str, data: Any, value: Any) -> None:
    assert ScriptMapping(parse_expression(text)).compute(data) == value


def test_4_3_division_by_zero_in_a_script_is_an_error() -> None:
    with pytest.raises(ExpressionError):
        ScriptMapping(parse_expression("1 / 0")).compute({})


@pytest.mark.parametrize(
    "text",
    [
        "__import__('os').system('true')",
        "().__class__.__bases__[0]",
        "'{0.__class__}'.format(a)",
        "getattr(a, '__class__')",
        "eval('1')",
        "open('/etc/passwd')",
        "(lambda: 1)()",
        "[x for x in a]",
        "a.clear()",
        "type(a)",
        "9 ** 9 ** 9",
    ],
)
def test_4_1_scripts_cannot_reach_python_objects(text: str) -> None:
    data = {"a": [1]}
    with pytest.raises(ExpressionError):
        ScriptMapping(parse_expression(text)).compute(data)
    assert data == {"a": [1]}


def test_4_1_values_are_not_executed_or_rendered() -> None:
    data = {"a": "{{ secret }}", "b": "1 + 1", "secret": "s"}
    assert TemplateMapping(parse_template("{{ a }}{{ b }}")).compute(data) == "{{ secret }}1 + 1"
    assert ScriptMapping(parse_expression("b")).compute(data) == "1 + 1"
    assert ExtractMapping("a").compute(data) == "{{ secret }}"


LABELS = {"labels": [{"name": "target-a", "active": True}, {"name": "WS"}, {"color": "red"}, {"name": None}]}


@pytest.mark.parametrize(
    ("field", "condition", "values"),
    [
        ("name", None, ["target-a", "WS"]),
        ("name", "item.get('name', '').startswith('target-')", ["target-a"]),
        ("name", "item.get('active', False)", ["target-a"]),
        ("name", 'item["name"] == "WS"', ["WS"]),
        ("name", "item.name == 'WS'", ["WS"]),
        ("name", "missing", []),
        ("name", "labels", []),
        ("color", None, ["red"]),
        ("name.first", None, []),
    ],
)
def test_4_3_array_map_returns_a_field_of_the_items_that_pass_the_filter(
    field: str, condition: str | None, values: list[Any]
) -> None:
    expression = parse_expression(condition) if condition else None
    assert ArrayMapping("labels", field, expression).compute(LABELS) == values


def test_2_10_array_map_omits_items_for_which_the_filter_fails() -> None:
    assert ArrayMapping("rows", "n", parse_expression("item.n > 1")).compute(DATA) == [2]


def test_2_10_array_map_without_a_field_returns_the_items_except_nulls() -> None:
    assert ArrayMapping("a").compute({"a": [1, None, 0, ""]}) == [1, 0, ""]


def test_array_map_of_a_missing_value_returns_the_default_or_an_empty_list() -> None:
    assert ArrayMapping("missing", "n").compute({}) == []
    assert ArrayMapping("missing", "n", default=["none"]).compute({"missing": None}) == ["none"]


def test_array_map_of_a_value_other_than_a_list_is_an_error() -> None:
    with pytest.raises(ExpressionError, match="'a' must be a list, but is 'text'"):
        ArrayMapping("a", "n").compute({"a": "text"})


@pytest.mark.parametrize(
    ("kind", "config", "keys"),
    [
        ("extract", {}, ["source_path"]),
        ("extract", {"source_path": "a..b"}, ["source_path"]),
        ("extract", {"source_path": 1}, ["source_path"]),
        ("condition", {}, ["condition"]),
        ("condition", {"condition": "valid =="}, ["condition"]),
        ("template", {}, ["template"]),
        ("template", {"template": ["x"]}, ["template"]),
        ("constant", {}, ["value"]),
        ("script", {}, ["script"]),
        ("script", {"script": "import os"}, ["script"]),
        ("script", {"script": "lambda: 1"}, ["script"]),
        (
            "array_map",
            {"item_field": "a..b", "filter_condition": "item ="},
            ["source_path", "item_field", "filter_condition"],
        ),
    ],
)
def test_errors_in_a_mapping_are_reported(kind: str, config: Any, keys: list[str]) -> None:
    reader = ConfigReader(config, ())
    READERS[kind](reader)
    assert [(fault.path, fault.is_error) for fault in reader.faults] == [((key,), True) for key in keys]


def test_a_constant_may_be_null(call_with: Callable[..., Any]) -> None:
    reader = ConfigReader({"value": None})
    assert READERS["constant"](reader) == ConstantMapping(None)
    assert reader.faults == []
