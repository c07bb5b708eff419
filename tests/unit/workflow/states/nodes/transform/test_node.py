"""`transform_node` as a whole."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from statewright.errors import ExpressionError, InvalidUpdateError, WorkflowError
from statewright.messages import Message
from statewright.workflow.states.handlers import Call

KIND = "transform_node"
TEMPLATES = Path(__file__).parents[7] / "shared/templates/states"


def extract(field: str, path: str | None = None, **more: Any) -> dict[str, Any]:
    return {"output_field": field, "type": "extract", "source_path": path or field, **more}


def script(field: str, text: str) -> dict[str, Any]:
    return {"output_field": field, "type": "script", "script": text}


FAILING = script("bad", "1 / 0")
"""A mapping that always fails."""

EVENT = {
    "action": "opened",
    "number": "42",
    "ticket": {"id": 7, "subject": "It {{ breaks }}", "owner": {"handle": "ada"}, "tags": [{"name": "WS"}, {}]},
}
MAPPINGS = [
    {
        "output_field": "wanted",
        "type": "condition",
        "condition": "action in ['opened', 'updated']",
        "then_value": True,
        "else_value": False,
    },
    extract("number"),
    extract("owner", "ticket.owner.handle"),
    {
        "output_field": "line",
        "type": "template",
        "template": "#{{ number }}: '{{ ticket.subject }}' {{ action }} by @{{ owner }}",
    },
    extract("is_draft", "ticket.draft", default=False),
    {"output_field": "tags", "type": "array_map", "source_path": "ticket.tags", "item_field": "name"},
    script("tag_count", "len(tags)"),
    {"output_field": "origin", "type": "constant", "value": "webhook"},
]
SCHEMA = {
    "type": "object",
    "properties": {"wanted": {"type": "boolean"}, "number": {"type": "integer"}, "line": {"type": "string"}},
    "required": ["wanted", "number"],
}


def test_2_10_mappings_build_the_output(transform: Callable[..., Any]) -> None:
    assert transform(EVENT, *MAPPINGS, output_schema=SCHEMA, on_error="fail") == {
        "wanted": True,
        "number": 42,
        "owner": "ada",
        "line": "#42: 'It {{ breaks }}' opened by @ada",
        "is_draft": False,
        "tags": ["WS"],
        "tag_count": 1,
        "origin": "webhook",
    }


def test_2_10_mappings_see_the_fields_before_them(transform: Callable[..., Any]) -> None:
    assert transform({"a": 1}, script("a", "a + 1"), script("b", "a + 1")) == {"a": 2, "b": 3}
    with pytest.raises(ExpressionError, match="'b' is not defined"):
        transform({"a": 1}, script("c", "b + 1"), script("b", "a"))


def test_2_10_extract_is_the_default_type(transform: Callable[..., Any]) -> None:
    assert transform({"a": 1}, {"output_field": "b", "source_path": "a"}) == {"b": 1}


def test_2_10_the_input_is_selected_by_source_and_key(
    transform: Callable[..., Any], call_with: Callable[..., Call]
) -> None:
    call = call_with({"a": "context"}, history=[Message('{"rows": [{"a": 1}, {"a": 2}]}')])
    output = transform({}, extract("a", "rows.a"), call=call, input_source="messages", input_key="rows[-1]")
    assert output == {"a": 2}


def test_the_context_is_not_changed(transform: Callable[..., Any]) -> None:
    context = {"a": {"b": [1]}}
    transform(context, script("a", "[2]"), extract("c", "a"))
    assert context == {"a": {"b": [1]}}


def test_the_output_is_json(transform: Callable[..., Any]) -> None:
    output = transform(EVENT, *MAPPINGS, script("pair", "(1, {'a': None})"))
    assert json.loads(json.dumps(output)) == output


# -- failures


def test_2_10_by_default_an_error_fails_and_names_state_and_field(transform: Callable[..., Any]) -> None:
    with pytest.raises(
        ExpressionError, match=r"State 'own' cannot transform its input: field 'bad': '1 / 0' cannot be"
    ):
        transform({}, extract("a"), FAILING)


@pytest.mark.parametrize(
    ("config", "output"),
    [
        ({"on_error": "skip"}, {}),
        ({"on_error": "default"}, {}),
        ({"on_error": "default", "default_output": {"status": "error"}}, {"status": "error"}),
        ({"on_error": "default", "default_output": '{"status": "error"}'}, {"status": "error"}),
        ({"on_error": "partial"}, {"a": 1, "b": 2}),
    ],
)
def test_2_10_on_error_determines_the_output_after_a_failed_mapping(
    config: dict[str, Any], output: Any, transform: Callable[..., Any]
) -> None:
    assert transform({"a": 1}, extract("a"), FAILING, script("b", "a + 1"), **config) == output


def test_2_10_partial_omits_fields_that_depend_on_a_failed_one(transform: Callable[..., Any]) -> None:
    assert transform({"a": 1}, FAILING, script("c", "bad + 1"), extract("a"), on_error="partial") == {"a": 1}


@pytest.mark.parametrize(("on_error", "output"), [("skip", {}), ("default", {"d": 1}), ("partial", {"k": 1})])
def test_2_10_on_error_applies_to_the_output_schema(on_error: str, output: Any, transform: Callable[..., Any]) -> None:
    schema = {"properties": {"n": {"type": "integer"}}, "required": ["n"]}
    mappings = [{"output_field": "k", "type": "constant", "value": 1}, extract("n")]
    for number in ("many", None):
        config = {"on_error": on_error, "default_output": {"d": 1}, "output_schema": schema}
        result = transform({"n": number}, *mappings, **config)
        assert result == (output if on_error != "partial" or number else {"k": 1, "n": None})


def test_2_10_a_missing_required_field_is_an_error(transform: Callable[..., Any]) -> None:
    with pytest.raises(InvalidUpdateError, match="State 'own' cannot transform its input: the output lacks 'x', 'a'"):
        transform({}, extract("a"), output_schema={"required": ["x", "a"]})


def test_2_10_a_field_of_the_wrong_type_is_an_error(transform: Callable[..., Any]) -> None:
    with pytest.raises(InvalidUpdateError, match="field 'a': 'many' is not of type integer"):
        transform({"a": "many"}, extract("a"), output_schema={"properties": {"a": {"type": "integer"}}})


@pytest.mark.parametrize(("on_error", "output"), [("skip", {}), ("default", {"d": 1}), ("partial", {"k": 1})])
def test_2_10_on_error_applies_to_a_missing_input_key(
    on_error: str, output: Any, transform: Callable[..., Any]
) -> None:
    mappings = [{"output_field": "k", "type": "constant", "value": 1}, script("n", "n")]
    config = {"on_error": on_error, "default_output": {"d": 1}, "input_key": "event"}
    assert transform({"n": 1}, *mappings, **config) == output


def test_a_missing_input_key_is_an_error(transform: Callable[..., Any]) -> None:
    with pytest.raises(ExpressionError, match=r"input_key: The path 'evnt' does not exist.*Did you mean 'event'"):
        transform({"event": {}}, extract("a"), input_key="evnt")


# -- hostile values


def test_4_1_values_are_not_rendered_or_executed(transform: Callable[..., Any]) -> None:
    context = {"a": "{{ secret }}{% for x in y %}{% endfor %}", "b": "__import__('os')", "secret": "s"}
    template = {"output_field": "t", "type": "template", "template": "{{ a }} {{ b }}"}
    again = {"output_field": "u", "type": "template", "template": "{{ t }}"}
    text = "{{ secret }}{% for x in y %}{% endfor %} __import__('os')"
    assert transform(context, template, again) == {"t": text, "u": text}


def test_4_1_keys_of_values_are_only_keys(transform: Callable[..., Any]) -> None:
    context = {"__class__": "a key", "len": "shadow", "rows": [1]}
    assert transform(context, script("n", "len(rows)"), extract("c", "__class__")) == {"n": 1, "c": "a key"}


# -- configs


@pytest.mark.parametrize(
    ("config", "path"),
    [
        ({}, ("mappings",)),
        ({"mappings": []}, ("mappings",)),
        ({"mappings": {"a": "b"}}, ("mappings",)),
        ({"mappings": ["x"]}, ("mappings", 0)),
        ({"mappings": [{"source_path": "a"}]}, ("mappings", 0, "output_field")),
        ({"mappings": [extract("a"), extract("a", type="extrakt")]}, ("mappings", 1, "type")),
        ({"mappings": [script("a", "valid ==")]}, ("mappings", 0, "script")),
        ({"mappings": [extract("a")], "input_source": "combined"}, ("input_source",)),
        ({"mappings": [extract("a")], "input_key": "a..b"}, ("input_key",)),
        ({"mappings": [extract("a")], "on_error": "retry"}, ("on_error",)),
        ({"mappings": [extract("a")], "default_output": [1]}, ("default_output",)),
        ({"mappings": [extract("a")], "output_schema": [1]}, ("output_schema",)),
    ],
)
def test_errors_are_found_before_the_run(
    config: Any, path: tuple[str | int, ...], faults_of: Any, run: Callable[..., Any]
) -> None:
    assert (("config", *path), True) in faults_of(KIND, config)
    with pytest.raises(WorkflowError):
        run(KIND, config)


def test_all_errors_are_reported_together(faults_of: Any) -> None:
    config = {"mappings": [script("a", "1 +"), {"output_field": 1, "type": "constant"}], "on_error": 3, "colour": "red"}
    assert faults_of(KIND, config) == [
        (("config", "mappings", 0, "script"), True),
        (("config", "mappings", 1, "output_field"), True),
        (("config", "mappings", 1, "value"), True),
        (("config", "on_error"), True),
        (("config", "colour"), False),
    ]


def test_a_condition_that_is_always_false_is_a_warning(faults_of: Any) -> None:
    mapping = {"output_field": "a", "type": "condition", "condition": "[x for x in y]"}
    assert faults_of(KIND, {"mappings": [mapping]}) == [(("config", "mappings", 0, "condition"), False)]


def test_3_3_a_real_template_has_no_faults(faults_of: Any, transform: Callable[..., Any]) -> None:
    path = TEMPLATES / "github_pr_transform_template.yaml"
    if not path.exists():
        pytest.skip("no templates here")
    import yaml

    (node,) = yaml.safe_load(path.read_text(encoding="utf-8"))["execution_config"]["custom_nodes"]
    assert faults_of(node["custom_node_id"], node["config"]) == []
    pull = {"url": "u", "title": "New", "draft": True, "user": {"login": "dev"}}
    mappings = node["config"].pop("mappings")
    output = transform({"action": "closed", "number": 11, "pull_request": pull}, *mappings, **node["config"])
    assert (output["result"], output["number"], output["author_login"], output["is_draft"]) == (False, 11, "dev", True)
    assert output["summary"] == "PR #11: 'New' closed by @dev"
