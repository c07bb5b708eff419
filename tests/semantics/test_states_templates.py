"""Real workflow files: all of `shared/templates/states` load and run to an end, if they are available."""

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
pytestmark = pytest.mark.skipif(not FILES, reason="shared/templates/states is not there")
REFUSED = {
    "aice_java_migration_template": "iter_key",
    "workflow_sonar_issues_resolver_java_template": "iter_key",
    "workflow_autonomous_template": "Autonomous",
}
"""Files that cannot be run, and what the explanation is about."""


def distances(definition: Definition) -> dict[str, int]:
    """How many transitions each state is from the end, by the shortest way."""
    found, ahead = {"end": 0}, deque(["end"])
    while ahead:
        target = ahead.popleft()
        for state in definition.states:
            if target in state.next.targets and state.id not in found:
                found[state.id] = found[target] + 1
                ahead.append(state.id)
    return found


def candidates(text: str) -> Iterator[dict[str, Any]]:
    """Results that an expression may like: its names, with values that stand in it."""
    names = sorted(set(re.findall(r"\b[a-z_]\w*\b", text)) - {"and", "or", "not", "in", "len", "keys", "true", "false"})
    texts = re.findall(r"'([^']*)'|\"([^\"]*)\"", text)
    values: list[Any] = [True, False, [], "none", 0, 100, *(one or other for one, other in texts)]
    for chosen in itertools.product(values, repeat=len(names)):
        yield dict(zip(names, chosen, strict=True))


def result_for(way: Next, wanted: str) -> dict[str, Any]:
    """A result with which a state goes on to a target."""
    if way.condition is not None:
        condition = way.condition
        for result in candidates(condition.expression.text):
            if (condition.then if holds(condition.expression, result) else condition.otherwise) == wanted:
                return result
    if way.switch is not None:
        for result in candidates(" ".join(case.condition.text for case in way.switch.cases)):
            met = (case.state_id for case in way.switch.cases if holds(case.condition, result))
            if next(met, way.switch.default) == wanted:
                return result
    return {}


VALUES: dict[str, Any] = {"string": "x", "integer": 1, "number": 1, "boolean": True, "array": [], "object": {}}


def script_of(definition: Definition) -> dict[str, str]:
    """Outputs with which the workflow runs to its end the shortest way, with two items wherever it iterates."""
    far = distances(definition)

    def output(state: State) -> str:
        key = state.next.iter_key
        if key is not None:
            items = ["one", "two"]
            return json.dumps(items if key in (".", "_", "unused") else {key: items})
        wanted = min(state.next.targets, key=lambda target: far.get(target, 1000))
        schema = read_json_schema(state.output_schema or "") or {}
        asked = {name: VALUES[one.get("type", "string")] for name, one in schema.get("properties", {}).items()}
        return json.dumps({"done": state.id, **asked, **result_for(state.next, wanted)})

    return {state.id: output(state) for state in definition.states}


@pytest.mark.parametrize("path", [path for path in FILES if path.stem not in REFUSED], ids=lambda path: path.stem)
def test_a_real_workflow_runs_to_its_end(path: Path) -> None:
    workflow = load_workflow(path)
    app = workflow.compile(script=script_of(workflow.definition), checkpointer=InMemorySaver())
    config = {"configurable": {"thread_id": "t"}}
    result = app.invoke({"input": "go"}, config)
    while app.get_state(config).next:  # somebody is asked to confirm
        result = app.invoke(None, config)
    assert result["visits"][0]["state"] == workflow.definition.states[0].id
    assert result["result"]


@pytest.mark.parametrize("path", [path for path in FILES if path.stem in REFUSED], ids=lambda path: path.stem)
def test_a_workflow_that_cannot_run_is_refused_with_a_suggestion(path: Path) -> None:
    with pytest.raises(WorkflowError) as caught:
        load_workflow(path)
    problem = next(one for one in caught.value.problems if REFUSED[path.stem] in one.message + one.suggestion)
    assert problem.line > 0
    assert problem.suggestion
