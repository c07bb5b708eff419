"""The acceptance cases of the states language: `shared/cases/states.json`, if it is available."""

import json
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from statewright.errors import StatewrightError
from statewright.workflow.states import load_workflow

FILE = Path(__file__).resolve().parents[3] / "shared" / "cases" / "states.json"
CASES: list[dict[str, Any]] = json.loads(FILE.read_text(encoding="utf-8")) if FILE.exists() else []
pytestmark = pytest.mark.skipif(not CASES, reason="shared/cases/states.json is not available")


def workflow_of(case: dict[str, Any]) -> str:
    """The document of a case; states without a kind are performed by the assistant `a`."""
    states = case["states"].replace("task:", "assistant_id: a, task:")
    return f"{case['extra']}assistants: [{{id: a, system_prompt: p}}]\nstates:\n{states}\n"


@pytest.mark.parametrize("case", CASES, ids=lambda case: case["id"])
def test_case(driver: Any, case: dict[str, Any]) -> None:
    app = load_workflow(workflow_of(case)).compile(script=case["outs"])
    if case["err"]:
        with pytest.raises(StatewrightError):
            driver.invoke(app, {"input": case["ui"]})
        return
    result = driver.invoke(app, {"input": case["ui"]})
    visits = result["visits"]
    assert Counter(visit["state"] for visit in visits) == Counter(case["visits"].split())
    if case["ctx"] is not None:
        assert result["context"] == case["ctx"]
    for state, beginnings in (case["prompts"] or {}).items():
        prompts = [visit["prompt"] for visit in visits if visit["state"] == state]
        assert [prompt[: len(begin)] for prompt, begin in zip(prompts, beginnings, strict=True)] == beginnings
