"""The JSON Schema of the language: valid itself, and of one mind with the reading."""

from pathlib import Path

import jsonschema_rs
import pytest

from statewright.workflow.states.language import language_schema
from statewright.workflow.states.parse import parse_workflow
from statewright.workflow.states.reader import read_document

TEMPLATES = sorted((Path(__file__).parents[5] / "shared" / "templates" / "states").glob("*.yaml"))
VALIDATOR = jsonschema_rs.Draft202012Validator(language_schema())
HEAD = "assistants: [{id: a, system_prompt: p}]\n"


def is_valid(text: str | bytes) -> bool:
    root = read_document(text).root
    assert root is not None
    return VALIDATOR.is_valid(root.plain())


def test_the_schema_is_valid_itself() -> None:
    assert jsonschema_rs.meta.is_valid(language_schema())
    assert language_schema()["$schema"].endswith("2020-12/schema")


def test_each_call_gives_a_schema_of_its_own() -> None:
    language_schema()["$defs"].clear()
    assert language_schema()["$defs"]


def test_keys_are_described_for_editors() -> None:
    definitions = language_schema()["$defs"]
    assert definitions["workflow"]["properties"]["recursion_limit"]["default"] == 50
    assert definitions["next"]["properties"]["keep_history"]["deprecated"] is True
    assert definitions["state"]["properties"]["task"]["description"]
    assert definitions["next"]["properties"]["clear_context_store"]["anyOf"][0]["enum"] == [True, False, "keep_current"]
    assert all(one["additionalProperties"] is True for one in definitions.values())


@pytest.mark.parametrize(
    "text",
    [
        HEAD + "states: [{id: s, assistant_id: a, next: {state_id: end}}]",
        "execution_config: {assistants: [{id: a, system_prompt: p}], states: [{id: s, tool_id: t, next: "
        "{state_ids: [end]}}]}",
        HEAD + "states: [{id: s, assistant_id: a, tool_id: ~, foo: 1, next: {state_id: end, iter_key: ~}}]",
        HEAD + "states: [{id: s, assistant_id: a, next: {switch: {cases: [], default: end}}}]",
    ],
)
def test_what_loads_is_valid(text: str) -> None:
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
def test_what_breaks_the_form_is_not_valid(text: str) -> None:
    assert not is_valid(text)
    assert parse_workflow(text).problems


@pytest.mark.skipif(not TEMPLATES, reason="no template files of workflows here")
@pytest.mark.parametrize("file", TEMPLATES, ids=lambda file: file.stem)
def test_real_templates_are_valid_if_they_load(file: Path) -> None:
    text = file.read_bytes()
    assert is_valid(text) is (parse_workflow(text).definition is not None)
