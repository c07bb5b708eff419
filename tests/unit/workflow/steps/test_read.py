"""Reading definitions, and their problems."""

from __future__ import annotations

import contextlib
import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from statewright.errors import WorkflowError
from statewright.workflow.steps import Definition, read_definition

LEAD = {
    "name": "lead-outreach",
    "version": "1",
    "steps": [
        {"type": "task", "name": "enrich-lead", "handler": "enrich"},
        {
            "type": "llm",
            "name": "draft-email",
            "model": "gpt-4o",
            "systemPrompt": "You write for {{input.companyName}}.",
            "messages": [{"role": "user", "content": "Write to {{state.leadName}}."}],
            "outputKey": "emailDraft",
        },
        {"type": "condition", "name": "good", "expression": "score.value", "trueStep": "send", "falseStep": "ask"},
        {"type": "approval", "name": "ask", "contentKey": "emailDraft", "onReject": "continue"},
        {"type": "wait", "name": "later", "durationMs": 1000},
        {"type": "external_event", "name": "paid", "signalType": "payment_confirmed", "timeoutMs": 60000},
        {"type": "task", "name": "send", "handler": "mail:send", "retry": {"maxAttempts": 5}, "end": True},
    ],
}


def with_changes(index: int, **keys: Any) -> dict[str, Any]:
    """Return the definition with changed keys in one step; None removes a key."""
    steps = [dict(step) for step in LEAD["steps"]]
    steps[index].update(keys)
    steps[index] = {key: value for key, value in steps[index].items() if value is not None}
    return {**LEAD, "steps": steps}


def find_problems(document: Any) -> list[str]:
    with pytest.raises(WorkflowError) as caught:
        read_definition(document, source="flow.json")
    return [str(problem) for problem in caught.value.problems]


def test_all_types_of_steps_are_read_with_their_defaults() -> None:
    definition = read_definition(json.dumps(LEAD))
    assert [step.type for step in definition.steps] == [
        "task", "llm", "condition", "approval", "wait", "external_event", "task",
    ]  # fmt: skip
    assert definition.step("enrich-lead").retry.model_dump() == {
        "max_attempts": 3, "backoff_ms": 1000, "backoff_multiplier": 2.0, "max_backoff_ms": 300_000,
    }  # fmt: skip
    assert definition.step("ask").retry.max_attempts == 1
    assert (definition.step("send").retry.max_attempts, definition.step("send").end) == (5, True)
    with pytest.raises(KeyError):
        definition.step("nowhere")


def test_a_definition_survives_encoding() -> None:
    definition = read_definition(LEAD)
    again = read_definition(json.dumps(definition.to_json()))
    assert again == definition
    assert again.digest == definition.digest


def test_the_digest_depends_only_on_the_content() -> None:
    definition = read_definition(LEAD)
    reordered = {key: LEAD[key] for key in reversed(LEAD)}
    with_default = with_changes(0, retry={"maxAttempts": 3})
    assert read_definition(reordered).digest == definition.digest == read_definition(with_default).digest
    assert read_definition(with_changes(0, handler="other")).digest != definition.digest
    assert len(definition.digest) == 64


@pytest.mark.parametrize(
    ("document", "expected"),
    [
        ("{", "Line 1, column 2: It is not valid JSON"),
        (b"\xff", "It is not valid JSON"),
        ("[]", "It must be a map, but is a list: []."),
        ({**LEAD, "steps": []}, "In 'steps'"),
        ({**LEAD, "name": ""}, "In 'name'"),
        ({**LEAD, "name": "x" * 201}, "In 'name'"),
        ({**LEAD, "version": "x" * 51}, "In 'version'"),
        ({**LEAD, "descripton": "x"}, "Unknown key 'descripton'. Did you mean 'description'?"),
        (with_changes(0, type="tsak"), "In 'steps[0].type': 'tsak' is not a valid type. Did you mean 'task'?"),
        (with_changes(0, type=None), "In 'steps[0]': 'type' is missing."),
        (with_changes(0, handler=None), "In 'steps[0]': 'handler' is missing."),
        (with_changes(0, handlr="x"), "In 'steps[0].handlr': Unknown key 'handlr'. Did you mean 'handler'?"),
        (with_changes(0, name="send"), "In 'steps[6].name': Another step has the name 'send'. Rename one of them."),
        (with_changes(0, name="x" * 101), "In 'steps[0].name'"),
        (with_changes(0, next="sned"), "In 'steps[0].next': Step 'sned' does not exist. Did you mean 'send'?"),
        (with_changes(0, next="send", end=True), "In 'steps[0]': The step has both next and end. Keep one of them."),
        (with_changes(0, retry={"maxAttempts": 0}), "In 'steps[0].retry.maxAttempts'"),
        (with_changes(0, retry={"maxAttempts": 21}), "It must be less than or equal to 20, but is a number: 21."),
        (with_changes(0, retry={"maxAttemps": 2}), "Unknown key 'maxAttemps'. Did you mean 'maxAttempts'?"),
        (with_changes(0, retry={"backoffMs": 99}), "In 'steps[0].retry.backoffMs'"),
        (with_changes(0, retry={"backoffMultiplier": 11}), "In 'steps[0].retry.backoffMultiplier'"),
        (with_changes(1, messages=[]), "In 'steps[1].messages'"),
        (with_changes(1, temperature=2.1), "In 'steps[1].temperature'"),
        (with_changes(1, maxToolRounds=21), "In 'steps[1].maxToolRounds'"),
        (with_changes(1, responseFormat="xml"), "In 'steps[1].responseFormat'"),
        (with_changes(2, trueStep="nowhere"), "In 'steps[2].trueStep': Step 'nowhere' does not exist."),
        (with_changes(2, falseStep=None), "In 'steps[2]': 'falseStep' is missing."),
        (with_changes(2, end=True), "A condition leads only to its trueStep and falseStep. Remove next and end."),
        (with_changes(3, onReject="shrug"), "In 'steps[3].onReject'"),
        (with_changes(4, durationMs=None), "The step has neither durationMs nor untilTimestamp. Add one of them."),
        (with_changes(4, untilTimestamp="2026-01-02T00:00:00Z"), "The step has both durationMs and untilTimestamp."),
        (with_changes(4, durationMs=-1), "In 'steps[4].durationMs'"),
        (with_changes(4, durationMs=None, untilTimestamp="2026-01-02T00:00:00"), "The timestamp has no time zone."),
        (with_changes(5, signalType=""), "In 'steps[5].signalType'"),
    ],
)
def test_problems_name_their_path(document: Any, expected: str) -> None:
    assert any(expected in problem for problem in find_problems(document)), find_problems(document)


def test_an_empty_iterator_of_steps_is_rejected() -> None:
    assert find_problems({**LEAD, "steps": iter(())})[0].startswith("In 'steps': It must have at least 1 item")


def test_all_problems_are_reported_at_once() -> None:
    document = with_changes(0, handler=None, next=7)
    document["version"] = None
    assert len(find_problems(document)) == 3
    document = with_changes(2, trueStep="nowhere", falseStep="nobody")
    assert len(find_problems({**document, "steps": [*document["steps"], LEAD["steps"][0]]})) == 3


@given(
    st.recursive(
        st.none() | st.booleans() | st.integers() | st.text(),
        lambda inner: (
            st.lists(inner)
            | st.dictionaries(st.sampled_from(["name", "version", "steps", "type", "task", "next"]) | st.text(), inner)
        ),
    )
)
def test_every_value_is_either_a_definition_or_rejected(document: Any) -> None:
    with contextlib.suppress(WorkflowError):
        assert isinstance(read_definition(document), Definition)
