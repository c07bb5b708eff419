"""The workflows printed in chapter 5 of the language (section 5.5), with the missing targets added."""

from typing import Any

import pytest

from statewright.models import ScriptedModel
from statewright.workflow.states import load_workflow

HEAD = """
enable_summarization_node: false
max_concurrency: 1
assistants:
{assistants}
tools:
- {{id: api-call, tool: api_call}}
- {{id: task-fetcher, tool: task_fetcher}}
states:
{states}
"""
NAMES = (
    "file-lister processor analyzer fixer user-processor fetcher env-processor executor splitter validator merger other"
)


def document(states: str) -> str:
    assistants = "\n".join(f"- {{id: {name}, system_prompt: p}}" for name in NAMES.split())
    return HEAD.format(assistants=assistants, states=states)


def run(driver: Any, states: str, outs: dict[str, Any], message: Any = None) -> Any:
    return driver.invoke(load_workflow(document(states)).compile(script=outs), {"input": message})


def names(result: Any) -> list[str]:
    return [visit["state"] for visit in result["visits"]]


def prompts(result: Any, state: str) -> list[str]:
    return [visit["prompt"].strip() for visit in result["visits"] if visit["state"] == state]


def items(result: Any, state: str) -> list[Any]:
    return [visit["item"] for visit in result["visits"] if visit["state"] == state]


SIMPLE = """
- id: list-files
  assistant_id: file-lister
  task: List all files in the directory
  next:
    state_id: process-file
    iter_key: .
- id: process-file
  assistant_id: processor
  task: Process file {{task}}
  next:
    state_id: generate-summary
- id: generate-summary
  assistant_id: other
  next:
    state_id: end
"""


def test_5_5_example_1_a_simple_list(driver: Any) -> None:
    outs = {"list-files": '["file1.txt", "file2.txt", "file3.txt"]', "process-file": "done", "generate-summary": "S"}
    result = run(driver, SIMPLE, outs)
    assert names(result) == ["list-files", *["process-file"] * 3, "generate-summary"]
    assert prompts(result, "process-file") == [f"Process file file{number}.txt" for number in (1, 2, 3)]
    assert (result["context"], result["result"]) == ({}, "S")


DICTIONARY = """
- id: analyze-code
  assistant_id: analyzer
  task: Analyze code and find issues
  next:
    state_id: fix-error
    iter_key: errors
- id: fix-error
  assistant_id: fixer
  task: Fix error {{task}}
  next:
    state_id: verify
- id: verify
  assistant_id: other
  next:
    state_id: end
"""


def test_5_5_example_2_a_dictionary_with_a_list(driver: Any) -> None:
    outs = {
        "analyze-code": '{"errors": ["err1", "err2"], "warnings": ["warn1"], "count": 3}',
        "fix-error": "fixed $item",
        "verify": "ok",
    }
    result = run(driver, DICTIONARY, outs)
    assert names(result) == ["analyze-code", "fix-error", "fix-error", "verify"]
    assert prompts(result, "fix-error") == ["Fix error err1", "Fix error err2"]
    assert result["context"] == {"errors": ["err1", "err2"], "warnings": ["warn1"], "count": 3}
    assert [message.text for message in result["messages"]][1:3] == ["fixed err1", "fixed err2"]


POINTER = """
- id: fetch-api-data
  tool_id: api-call
  tool_args:
    endpoint: /api/users
  next:
    state_id: process-user
    iter_key: /data/users
- id: process-user
  assistant_id: user-processor
  task: Process user data {{task}}
  next:
    state_id: end
"""


def test_5_5_example_3_a_json_pointer(driver: Any) -> None:
    users = '{"users": [{"id": 1, "name": "Alice"}, {"id": 2, "name": "Bob"}]}'
    outs = {"fetch-api-data": f'{{"status": "success", "data": {users}}}', "process-user": "ok"}
    result = run(driver, POINTER, outs)
    assert names(result) == ["fetch-api-data", "process-user", "process-user"]
    assert prompts(result, "process-user") == [
        'Process user data {"id": 1, "name": "Alice"}',
        'Process user data {"id": 2, "name": "Bob"}',
    ]
    assert result["context"]["name"] == "Bob"


COMPLEX = """
- id: fetch-results
  assistant_id: fetcher
  task: Get test results from all environments
  next:
    state_id: process-environment
    iter_key: /response/results
- id: process-environment
  assistant_id: env-processor
  task: Process tests for environment {{task}}
  next:
    state_id: aggregate
- id: aggregate
  assistant_id: other
  next:
    state_id: end
"""


def test_5_5_example_4_a_complex_nested_structure(driver: Any) -> None:
    environments = [{"env": "dev", "tests": ["test1", "test2"]}, {"env": "prod", "tests": ["test3"]}]
    outs = {
        "fetch-results": str({"response": {"results": environments}}),
        "process-environment": "ok",
        "aggregate": "A",
    }
    result = run(driver, COMPLEX, outs)
    assert items(result, "process-environment") == environments
    assert prompts(result, "process-environment")[0] == (
        'Process tests for environment {"env": "dev", "tests": ["test1", "test2"]}'
    )
    assert names(result)[-1] == "aggregate"


OBJECTS = """
- id: get-tasks
  tool_id: task-fetcher
  next:
    state_id: execute-task
    iter_key: .
- id: execute-task
  assistant_id: executor
  task: |
    Execute task ID {{id}}: {{title}}
    Priority level: {{priority}}

    Please process this task according to its priority.
  next:
    state_id: end
"""


def test_5_5_example_5_keys_of_items_are_added_to_the_context(driver: Any) -> None:
    tasks = '[{"id": 1, "title": "Task A", "priority": "high"}, {"id": 2, "title": "Task B", "priority": "low"}]'
    result = run(driver, OBJECTS, {"get-tasks": tasks, "execute-task": "ok"})
    assert [prompt.splitlines()[:2] for prompt in prompts(result, "execute-task")] == [
        ["Execute task ID 1: Task A", "Priority level: high"],
        ["Execute task ID 2: Task B", "Priority level: low"],
    ]
    assert result["context"] == {"id": 2, "title": "Task B", "priority": "low"}


STAGES = """
- id: split-work
  assistant_id: splitter
  task: Split work into chunks
  next:
    state_id: process-chunk
    iter_key: chunks
- id: process-chunk
  assistant_id: processor
  task: |
    Process chunk with data: {{data}}
    Using metadata: {{metadata}}
  next:
    state_id: validate-chunk
    iter_key: chunks
- id: validate-chunk
  assistant_id: validator
  task: |
    Validate the processed chunk {{data}}
    Check metadata consistency: {{metadata}}
  next:
    state_id: merge-results
- id: merge-results
  assistant_id: merger
  task: Combine all validated results
  next:
    state_id: end
"""


def test_5_5_example_6_several_stages(driver: Any) -> None:
    chunks = '[{"data": "chunk1", "metadata": "info1"}, {"data": "chunk2", "metadata": "info2"}]'
    outs = {
        "split-work": f'{{"chunks": {chunks}}}',
        "process-chunk": "processed $data",
        "validate-chunk": "validated $data",
        "merge-results": "merged",
    }
    result = run(driver, STAGES, outs)
    assert names(result) == ["split-work", *["process-chunk"] * 2, *["validate-chunk"] * 2, "merge-results"]
    assert prompts(result, "process-chunk") == [
        "Process chunk with data: chunk1\nUsing metadata: info1",
        "Process chunk with data: chunk2\nUsing metadata: info2",
    ]
    assert prompts(result, "validate-chunk")[1] == (
        "Validate the processed chunk chunk2\nCheck metadata consistency: info2"
    )
    assert [message.text for message in result["messages"]][1:] == [
        "processed chunk1", "validated chunk1", "processed chunk2", "validated chunk2", "merged",
    ]  # fmt: skip


ISOLATION = """
- id: split-work
  assistant_id: splitter
  task: Split work into chunks
  next:
    state_id: process-chunk
    iter_key: chunks
- id: process-chunk
  assistant_id: processor
  task: Process chunk {{id}} and generate result {{result}}
  next:
    state_id: merge-results
- id: merge-results
  assistant_id: merger
  task: Merge all results {{user}} {{mode}} {{result}}
  next:
    state_id: end
"""


def test_5_5_the_merge_of_isolated_contexts_takes_the_last_value(driver: Any) -> None:
    outs = {
        "split-work": '{"chunks": [{"id": 1}, {"id": 2}]}',
        "process-chunk": '{"result": "processed-$id", "result_$id": true}',
        "merge-results": "merged",
    }
    result = run(driver, ISOLATION, outs, '{"user": "Alice", "mode": "production"}')
    assert prompts(result, "process-chunk") == [
        "Process chunk 1 and generate result {{result}}",
        "Process chunk 2 and generate result {{result}}",
    ]
    assert prompts(result, "merge-results") == ["Merge all results Alice production processed-2"]
    assert {name: value for name, value in result["context"].items() if name.startswith("result")} == {
        "result": "processed-2",
        "result_1": True,
        "result_2": True,
    }


def test_5_5_the_next_model_gets_all_merged_messages() -> None:
    outs = {"split-work": '{"chunks": [{"id": 1}, {"id": 2}]}', "merge-results": "merged"}

    def answer(request: Any) -> str:
        state, call = request.metadata["state"], request.metadata["call"]
        return outs.get(state) or f"processed-{call.item['id']}"

    model = ScriptedModel(answer)
    load_workflow(document(ISOLATION)).compile(models=model).invoke({"input": "go"})
    *history, _ = [message.text for message in model.requests[-1].messages]
    assert history == ["go", outs["split-work"], "processed-1", "processed-2"]


# -- 5.1 to 5.4: the snippets of the other sections

STATE = "- {{id: {name}, assistant_id: other, next: {transition}}}"


def states_after(driver: Any, transition: str, targets: str, output: str) -> list[str]:
    """The states that run after a state with this output and this transition."""
    states = [STATE.format(name="first", transition=transition)]
    states += [STATE.format(name=name, transition="{state_id: end}") for name in targets.split()]
    outs = {"first": output, **dict.fromkeys(targets.split(), "ok")}
    return names(run(driver, "\n".join(states), outs))[1:]


def test_5_1_and_5_2_direct_and_parallel_transitions(driver: Any) -> None:
    assert states_after(driver, "{state_id: next-state-id}", "next-state-id", "1") == ["next-state-id"]
    parallel = "state-2 state-3 state-4"
    assert states_after(driver, "{state_ids: [state-2, state-3, state-4]}", parallel, "1") == parallel.split()


@pytest.mark.parametrize(
    ("expression", "then", "otherwise"),
    [
        ("count > 10", '{"count": 11}', '{"count": 10}'),
        ("status == 'success'", '{"status": "success"}', '{"status": "failure"}'),
        ("count > 10 and status == 'active'", '{"count": 11, "status": "active"}', '{"count": 11, "status": "x"}'),
        ("'result' in keys", '{"result": 0}', '{"results": 0}'),
        ("'error' in message.lower()", '{"message": "An ERROR."}', '{"message": "fine"}'),
        ("name.startswith('a') and name.endswith('c') and name.contains('b')", '{"name": "abc"}', '{"name": "ac"}'),
        ("variable > 100", '{"variable": "101"}', "no result that has variables"),
        ("not done", '{"done": "false"}', '{"done": "true"}'),
    ],
)
def test_5_3_conditions_choose_the_next_state(driver: Any, expression: str, then: str, otherwise: str) -> None:
    transition = f'{{condition: {{expression: "{expression}", then: yes-state, otherwise: no-state}}}}'
    for output, target in ((then, "yes-state"), (otherwise, "no-state")):
        assert states_after(driver, transition, "yes-state no-state", output) == [target]


@pytest.mark.parametrize(
    ("cases", "outputs"),
    [
        (
            ["score >= 90", "score >= 70", "score >= 50"],
            ['{"score": 95}', '{"score": 89.5}', '{"score": "50"}', '{"score": 1}'],
        ),
        (
            ["status == 'completed'", "status == 'pending'", "status == 'failed'"],
            ['{"status": "completed"}', '{"status": "pending"}', '{"status": "failed"}', '{"status": "other"}'],
        ),
        (
            ["error_count == 0 and status == 'complete'", "error_count > 0 and error_count < 5", "error_count >= 5"],
            [
                '{"error_count": 0, "status": "complete"}', '{"error_count": 3}', '{"error_count": 5}',
                '{"error_count": 0}',
            ],
        ),
        (
            ["'email' in type.lower()", "'sms' in type.lower()", "'push' in type.lower()"],
            ['{"type": "E-EMAIL"}', '{"type": "sms email"}', '{"type": "Push"}', '{"kind": "sms"}'],
        ),
    ],
    ids=["score", "status", "errors", "type"],
)  # fmt: skip
def test_5_4_switches_choose_the_next_state(driver: Any, cases: list[str], outputs: list[str]) -> None:
    listed = ", ".join(f'{{condition: "{case}", state_id: case-{number}}}' for number, case in enumerate(cases))
    transition = f"{{switch: {{cases: [{listed}], default: default-state}}}}"
    targets = [*(f"case-{number}" for number in range(len(cases))), "default-state"]
    expected = ["case-0", "case-0", "case-2", "default-state"] if "type" in cases[0] else targets
    actual = [states_after(driver, transition, " ".join(targets), output) for output in outputs]
    assert actual == [[target] for target in expected]
