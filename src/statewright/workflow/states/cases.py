"""Tests of workflows without models: an input, what each state answers, and what has to come of it.

A case is a map: `id`, `rule` (what it shows), `ui` (the input), `outs` (outputs of states), and what is expected:
`visits` (states, in the order of layers; states of one layer in any order), `ctx` (the context), `prompts` (how the
prompts of a state begin), `result`, `err` (that the run fails, or a part of what it says then). What is absent or null
is not looked at.
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
    """The cases in a file: a JSON list. Raises InvalidConfig."""
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError, ValueError, RecursionError) as error:
        raise InvalidConfig(f"The cases in {str(path)!r} cannot be read: {error}. Give a JSON list of maps.") from error
    if not isinstance(found, list) or not all(isinstance(one, dict) for one in found):  # pyright: ignore
        raise InvalidConfig(f"{str(path)!r} holds no list of cases. Give a JSON list of maps.")
    cases = cast("list[dict[str, Any]]", found)
    for number, case in enumerate(cases, 1):
        unknown = next((key for key in case if key not in _KEYS), None)
        if unknown is not None:
            known = suggestion(unknown, _KEYS, noun="Keys")
            raise InvalidConfig(
                f"{str(path)!r}: case {case.get('id', number)!r} has an unknown key {unknown!r}. {known}"
            )
    return cast("list[Case]", cases)


def run_case(workflow: Workflow, case: Case) -> list[str]:
    """What a case did not find as it is expected; empty if it passes."""
    try:
        app = workflow.compile(script=case.get("outs") or {})
        values = app.invoke({"input": case.get("ui")})
    except Exception as error:  # also those of a tool
        return _failed(case.get("err"), error)
    if case.get("err"):
        return ["the run should fail, and it came to its end"]
    return list(_differences(case, values))


def _failed(expected: Any, error: Exception) -> list[str]:
    if expected is True or (isinstance(expected, str) and expected in str(error)):
        return []
    return [f"the run fails: {type(error).__name__}: {error}"]


def _differences(case: Case, values: Mapping[str, Any]) -> Iterator[str]:
    visits: Sequence[Mapping[str, Any]] = values["visits"]
    wanted = case.get("visits")
    if wanted is not None:
        names = wanted.split() if isinstance(wanted, str) else list(wanted)
        found = [visit["state"] for visit in visits]
        if Counter(names) != Counter(found):
            yield f"the visits are {' '.join(found)}, not {' '.join(names)}"
    for key, name in (("ctx", "context"), ("result", "result")):
        if case.get(key) is not None and values[name] != case[key]:
            yield f"the {name} is {_json(values[name])}, not {_json(case[key])}"
    for state, beginnings in cast("dict[str, Any]", case.get("prompts") or {}).items():
        yield from _prompts(state, beginnings, [visit["prompt"] for visit in visits if visit["state"] == state])


def _prompts(state: str, beginnings: Any, prompts: Sequence[Any]) -> Iterator[str]:
    wanted = [beginnings] if isinstance(beginnings, str) else list(beginnings)
    if len(wanted) != len(prompts):
        yield f"state {state!r} was asked {len(prompts)} times, not {len(wanted)}"
        return
    for begin, prompt in zip(wanted, prompts, strict=True):
        if not str(prompt).startswith(begin):
            yield f"state {state!r} was asked {str(prompt)[:200]!r}, which does not begin with {begin!r}"


def _json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, default=str)[:500]
