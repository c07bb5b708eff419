"""Test cases for workflows, which run without models: an input, scripted outputs of states, and the expected outcome.

A case is a map: `id`, `rule` (the behaviour it demonstrates), `ui` (the input), `outs` (outputs of states), and
expectations: `visits` (the visited states, in any order), `ctx` (the context), `prompts` (prefixes of the prompts, by
state), `result`, and `err` (true for any failure, or a part of its message). Absent and null expectations are not
checked. `src`, `note` and `extra` are for the author's own use.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final, cast

from statewright.errors import InvalidConfig, suggestion
from statewright.workflow.states.load import Workflow

Case = Mapping[str, Any]
_KEYS: Final = frozenset(
    {"id", "rule", "src", "note", "ui", "outs", "visits", "ctx", "prompts", "result", "err", "extra"}
)


def read_cases(path: Path) -> list[Case]:
    """Read the cases from a JSON file. Raises InvalidConfig."""
    try:
        value = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError) as error:
        raise InvalidConfig(
            f"The cases in {str(path)!r} cannot be read: {error}. Write a JSON list of maps."
        ) from error
    if not isinstance(value, list) or not all(isinstance(item, dict) for item in value):  # pyright: ignore
        raise InvalidConfig(f"{str(path)!r} does not contain a list of cases. Write a JSON list of maps.")
    cases = cast("list[dict[str, Any]]", value)
    for number, case in enumerate(cases, 1):
        for key in case:
            if key not in _KEYS:
                label, hint = case.get("id", number), suggestion(key, _KEYS, noun="Keys")
                raise InvalidConfig(f"{str(path)!r}: case {label!r} has an unknown key {key!r}. {hint}")
    return cast("list[Case]", cases)


def run_case(workflow: Workflow, case: Case) -> list[str]:
    """Run a case and return its failed expectations; an empty list if it passes."""
    try:
        app = workflow.compile(script=case.get("outs") or {})
        values = app.invoke({"input": case.get("ui")})
    except Exception as error:  # a tool may raise anything
        return _compare_error(case.get("err"), error)
    if case.get("err"):
        return ["the run succeeded, but a failure was expected"]
    return list(_compare_values(case, values))


def _compare_error(expected: Any, error: Exception) -> list[str]:
    if expected is True or (isinstance(expected, str) and expected in str(error)):
        return []
    return [f"the run failed: {type(error).__name__}: {error}"]


def _compare_values(case: Case, values: Mapping[str, Any]) -> Iterator[str]:
    visits: Sequence[Mapping[str, Any]] = values["visits"]
    expected = case.get("visits")
    if expected is not None:
        names = expected.split() if isinstance(expected, str) else list(expected)
        actual = [visit["state"] for visit in visits]
        if Counter(names) != Counter(actual):
            yield f"the visits are {' '.join(actual)}, not {' '.join(names)}"
    for key, name in (("ctx", "context"), ("result", "result")):
        if case.get(key) is not None and values[name] != case[key]:
            yield f"the {name} is {_to_json(values[name])}, not {_to_json(case[key])}"
    for state, prefixes in cast("dict[str, Any]", case.get("prompts") or {}).items():
        yield from _compare_prompts(state, prefixes, [visit["prompt"] for visit in visits if visit["state"] == state])


def _compare_prompts(state: str, prefixes: Any, prompts: Sequence[Any]) -> Iterator[str]:
    expected = [prefixes] if isinstance(prefixes, str) else list(prefixes)
    if len(expected) != len(prompts):
        yield f"state {state!r} was prompted {len(prompts)} times, not {len(expected)}"
        return
    for prefix, prompt in zip(expected, prompts, strict=True):
        if not str(prompt).startswith(prefix):
            yield f"state {state!r} was prompted with {str(prompt)[:200]!r}, which does not begin with {prefix!r}"


def _to_json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, default=str)[:500]
