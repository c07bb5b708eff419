"""The JSON Schema of the language: its validity, and its agreement with the parser."""

from pathlib import Path
from typing import Any

import jsonschema_rs
import pytest
from tests.semantics.mistakes import FORM_MISTAKES, MEANING_MISTAKES, MISTAKES

from statewright.workflow.states.language.checks.references import NODE_KINDS
from statewright.workflow.states.language.json_schema import language_schema
from statewright.workflow.states.language.parse import parse_workflow
from statewright.workflow.states.language.yaml.read import read_document

TEMPLATES = sorted((Path(__file__).parents[6] / "shared" / "templates" / "states").glob("*.yaml"))
VALIDATOR = jsonschema_rs.Draft202012Validator(language_schema())
HEAD = "assistants: [{id: a, system_prompt: p}]\n"


def plain(text: str | bytes) -> Any:
    root = read_document(text).root
    assert root is not None
    return root.to_plain()


def is_valid(text: str | bytes) -> bool:
    return VALIDATOR.is_valid(plain(text))


def test_the_schema_is_valid() -> None:
    assert jsonschema_rs.meta.is_valid(language_schema())
    assert language_schema()["$schema"].endswith("2020-12/schema")


def test_each_call_returns_a_new_schema() -> None:
    language_schema()["$defs"].clear()
    assert language_schema()["$defs"]


def test_keys_are_described_for_editors() -> None:
    definitions = language_schema()["$defs"]
    assert definitions["workflow"]["properties"]["recursion_limit"]["default"] == 50
    assert definitions["next"]["properties"]["keep_history"]["deprecated"] is True
    assert definitions["state"]["properties"]["task"]["description"]
    assert definitions["next"]["properties"]["clear_context_store"]["anyOf"][0]["enum"] == [True, False, "keep_current"]
    assert all(schema["additionalProperties"] is False for schema in definitions.values())
    assert definitions["custom_node"]["allOf"][0]["then"]["properties"]["custom_node_id"]["enum"] == list(NODE_KINDS)


@pytest.mark.parametrize(
    "text",
    [
        HEAD + "states: [{id: s, assistant_id: a, next: {state_id: end}}]",
        "execution_config: {assistants: [{id: a, system_prompt: p}], states: [{id: s, tool_id: t, next: "
        "{state_ids: [end]}}]}",
        HEAD + "states: [{id: s, assistant_id: a, tool_id: ~, meta_foo: 1, next: {state_id: end, iter_key: ~}}]",
        HEAD + "states: [{id: s, assistant_id: a, next: {switch: {cases: [], default: end}}}]",
    ],
)
def test_files_that_load_are_valid(text: str) -> None:
    assert is_valid(text)


@pytest.mark.parametrize(
    "text",
    [
        "[]",
        "name: x",
        "mode: Autonomous\n" + HEAD + "states: [{id: s, assistant_id: a, next: {state_id: end}}]",
        "states: []",
        HEAD + "states: [{id: s, next: {state_id: end}}]",
        HEAD + "states: [{id: s, assistant_id: a, tool_id: b, next: {state_id: end}}]",
        HEAD + "states: [{id: s, assistant_id: a, next: {}}]",
        HEAD + "states: [{id: s, assistant_id: a, next: {state_ids: []}}]",
        HEAD + "states: [{id: s, assistant_id: a, next: {state_ids: [end, end]}}]",
        HEAD + "states: [{id: s, assistant_id: a, next: {iter_key: x, condition: {expression: x, then: end, "
        "otherwise: end}}}]",
        HEAD + "states: [{id: s, assistant_id: a, next: {iter_key: x, state_ids: [end]}}]",
        HEAD + "recursion_limit: 0\nstates: [{id: s, assistant_id: a, next: {state_id: end}}]",
        HEAD + "states: [{id: s, assistant_id: a, interrupt_before: true, wait_for_user_confirmation: true, "
        "next: {state_id: end}}]",
    ],
)
def test_files_with_problems_are_not_valid(text: str) -> None:
    assert not is_valid(text)
    assert parse_workflow(text).problems


NEEDS_GRAMMAR = "needs the grammar of expressions or templates"
NEEDS_OTHERS = "needs other parts of the file"
NEEDS_DOCUMENT = "needs another JSON Schema, which is a string here"
WARNING = "is only a warning"
NOT_IN_SCHEMA = {
    "words for ==": NEEDS_GRAMMAR,
    "unknown assistant": NEEDS_OTHERS,
    "unknown tool": NEEDS_OTHERS,
    "tool as an assistant": NEEDS_OTHERS,
    "unknown state": NEEDS_OTHERS,
    "comma after a target": NEEDS_OTHERS,
    "end in capitals": NEEDS_OTHERS,
    "two states with one id": NEEDS_OTHERS,
    "two tools with one id": NEEDS_OTHERS,
    "ids that the engine cannot tell apart": NEEDS_OTHERS,
    "block of a template not closed": NEEDS_GRAMMAR,
    "schema with a reference out of it": NEEDS_DOCUMENT,
    "unknown function": NEEDS_GRAMMAR,
    "braces in an expression": NEEDS_GRAMMAR,
    "state that nothing leads to": NEEDS_OTHERS,
    "no way to the end": NEEDS_OTHERS,
    "condition and target": WARNING,
    "switch without cases": WARNING,
    "deprecated key": WARNING,
}
"""Mistakes that the check reports and JSON Schema cannot, with the reasons."""


@pytest.mark.parametrize("name", [*FORM_MISTAKES, *MEANING_MISTAKES])
def test_the_schema_reports_every_mistake_that_json_schema_can_express(name: str) -> None:
    assert is_valid(MISTAKES[name].text) is (name in NOT_IN_SCHEMA)


def test_the_schema_reports_four_of_five_mistakes() -> None:
    """Counted without mistakes in YAML syntax and repeated keys."""
    count = len(FORM_MISTAKES) + len(MEANING_MISTAKES)
    assert NOT_IN_SCHEMA.keys() <= MEANING_MISTAKES.keys()
    assert (count - len(NOT_IN_SCHEMA)) / count > 0.79


@pytest.mark.parametrize(
    "expression",
    [
        "score == 5",
        "a <= 1 and b != 2",
        "'a && b' in x",
        'x == "it\'s"',
        "x # && y",
        "f(a=1)",
        "a & b",
        "not x",
        "x === 1",
    ],
)
def test_schema_and_check_agree_on_expressions(expression: str) -> None:
    quoted = expression.replace("'", "''")
    transition = f"{{condition: {{expression: '{quoted}', then: end, otherwise: end}}}}"
    text = HEAD + f"states: [{{id: s, assistant_id: a, next: {transition}}}]"
    assert is_valid(text) is (parse_workflow(text).definition is not None)


def test_the_schema_accepts_registered_kinds_of_nodes() -> None:
    text = "custom_nodes: [{id: mine}]\nstates: [{id: s, custom_node_id: mine, next: {state_id: end}}]"
    assert not is_valid(text)
    assert jsonschema_rs.is_valid(language_schema(node_kinds=["mine"]), plain(text))


@pytest.mark.skipif(not TEMPLATES, reason="no template files of workflows here")
@pytest.mark.parametrize("file", TEMPLATES, ids=lambda file: file.stem)
def test_templates_are_valid_if_they_load(file: Path) -> None:
    text = file.read_bytes()
    assert is_valid(text) is (parse_workflow(text).definition is not None)
