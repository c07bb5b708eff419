"""Real workflow files: all files in `shared/templates/states`, if available, load and run to their end."""

import itertools
import json
import re
from collections import deque
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from statewright import InMemorySaver
from statewright.errors import WorkflowError
from statewright.workflow.states import load_workflow
from statewright.workflow.states.expressions import holds
from statewright.workflow.states.language.model import Definition, State
from statewright.workflow.states.language.output_schema import read_json_schema
from statewright.workflow.states.language.transition import Next

FOLDER = Path(__file__).resolve().parents[3] / "shared" / "templates" / "states"
FILES = sorted(FOLDER.glob("*.yaml"))
pytestmark = pytest.mark.skipif(not FILES, reason="shared/templates/states is not available")
REFUSED = {
    "aice_java_migration_template": "iter_key",
    "workflow_sonar_issues_resolver_java_template": "iter_key",
    "workflow_autonomous_template": "Autonomous",
}
"""Files that cannot run, and a word of the explanation."""


def distances(definition: Definition) -> dict[str, int]:
    """The length of the shortest path from each state to the end, in transitions."""
    lengths, ahead = {"end": 0}, deque(["end"])
    while ahead:
        target = ahead.popleft()
        for state in definition.states:
            if target in state.next.targets and state.id not in lengths:
                lengths[state.id] = lengths[target] + 1
                ahead.append(state.id)
    return lengths


def candidates(text: str) -> Iterator[dict[str, Any]]:
    """Results for which an expression may hold: its names with values that appear in it."""
    names = sorted(set(re.findall(r"\b[a-z_]\w*\b", text)) - {"and", "or", "not", "in", "len", "keys", "true", "false"})
    texts = re.findall(r"'([^']*)'|\"([^\"]*)\"", text)
    values: list[Any] = [True, False, [], "none", 0, 100, *(single or double for single, double in texts)]
    for chosen in itertools.product(values, repeat=len(names)):
        yield dict(zip(names, chosen, strict=True))


def result_for(transition: Next, target: str) -> dict[str, Any]:
    """A result with which a transition leads to a target."""
    if transition.condition is not None:
        condition = transition.condition
        for result in candidates(condition.expression.text):
            if (condition.then if holds(condition.expression, result) else condition.otherwise) == target:
                return result
    if transition.switch is not None:
        for result in candidates(" ".join(case.condition.text for case in transition.switch.cases)):
            true_cases = (case.state_id for case in transition.switch.cases if holds(case.condition, result))
            if next(true_cases, transition.switch.default) == target:
                return result
    return {}


VALUES: dict[str, Any] = {"string": "x", "integer": 1, "number": 1, "boolean": True, "array": [], "object": {}}


def script_of(definition: Definition) -> dict[str, str]:
    """Outputs with which the workflow takes the shortest path to its end, with two items for each iteration."""
    lengths = distances(definition)

    def output(state: State) -> str:
        key = state.next.iter_key
        if key is not None:
            items = ["one", "two"]
            return json.dumps(items if key in (".", "_", "unused") else {key: items})
        target = min(state.next.targets, key=lambda name: lengths.get(name, 1000))
        schema = read_json_schema(state.output_schema or "") or {}
        required = {name: VALUES[field.get("type", "string")] for name, field in schema.get("properties", {}).items()}
        return json.dumps({"done": state.id, **required, **result_for(state.next, target)})

    return {state.id: output(state) for state in definition.states}


@pytest.mark.parametrize("path", [path for path in FILES if path.stem not in REFUSED], ids=lambda path: path.stem)
def test_a_real_workflow_runs_to_its_end(path: Path) -> None:
    workflow = load_workflow(path)
    app = workflow.compile(script=script_of(workflow.definition), checkpointer=InMemorySaver())
    config = {"configurable": {"thread_id": "t"}}
    result = app.invoke({"input": "go"}, config)
    while app.get_state(config).next:  # a state waits for confirmation
        result = app.invoke(None, config)
    assert result["visits"][0]["state"] == workflow.definition.states[0].id
    assert result["result"]


@pytest.mark.parametrize("path", [path for path in FILES if path.stem in REFUSED], ids=lambda path: path.stem)
def test_a_workflow_that_cannot_run_is_refused_with_a_suggestion(path: Path) -> None:
    with pytest.raises(WorkflowError) as caught:
        load_workflow(path)
    problem = next(item for item in caught.value.problems if REFUSED[path.stem] in item.message + item.suggestion)
    assert problem.line > 0
    assert problem.suggestion
