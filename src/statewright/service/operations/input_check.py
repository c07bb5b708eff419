"""The check of the input of a run for keys that its graph does not know.

A call of a graph in Python drops an unknown key with a warning, which the caller sees, unless the graph is compiled
with `unknown_keys="error"` or `"drop"`. The caller of a service would not see the warning, and a misspelled field would
start a run that ignores it. So a service refuses what Python would warn about, like `statewright run`. Graphs that
permit any key, and those that drop unknown keys silently, permit them here, too.

The input is checked twice. A request is checked before anything is stored, if this process has the version of the graph
that the run will use. It may not have it: during a deployment, for example, the definition may be one that only other
workers serve. So the worker checks the input again before the run begins, and with an unknown key the run fails with
the same message.

Events and failures are exceptions, because they are not written for one graph: all the graphs that a trigger or an
`on_failure` names receive the same map, and each declares the fields that it reads. There the rule is that of Python.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from statewright.errors import InvalidRequest, InvalidUpdateError
from statewright.runs import Run, StoredDefinition
from statewright.runtime import CompiledGraph

_BROADCAST_SOURCES = ("event:", "failure:")
"""The beginnings of the sources of runs whose input is not written for their graph."""


def check_input(definition: StoredDefinition, app: CompiledGraph | None, value: Any, source: str) -> None:
    """Raise InvalidRequest for the input of a run that its graph would not accept.

    `app` is the graph; None if this process does not have it. `source` is the origin of the request, see `StartRun`.
    """
    if definition.kind == "steps" and value is not None and not isinstance(value, Mapping):
        raise InvalidRequest(
            f"The input of {definition.name!r} is of type {type(value).__name__}, but its steps read fields of it. "
            f"Give an object."
        )
    if app is not None:
        refuse_unknown_keys(_find_problems(app, value, source), f"Graph {definition.name!r}", "input")


def check_begin(run: Run, app: CompiledGraph) -> None:
    """Raise InvalidUpdateError for the input of a run that is about to begin if it has an unknown key."""
    problems = _find_problems(app, run.input, run.source)
    if problems:
        raise InvalidUpdateError(_describe(problems, f"Graph {run.graph!r}"))


def _find_problems(app: CompiledGraph, value: Any, source: str) -> Mapping[str, str]:
    if source.startswith(_BROADCAST_SOURCES):
        return {}
    return app.program.start.updates.unknown_key_problems(value)


def refuse_unknown_keys(problems: Mapping[str, str], subject: str, field: str) -> None:
    """Raise InvalidRequest if there are problems with keys of a field of a request.

    `problems` are messages by key, and `subject` says where they were found.
    """
    if problems:
        details = [{"path": f"{field}.{key}", "message": message} for key, message in problems.items()]
        raise InvalidRequest(_describe(problems, subject), details={"problems": details})


def _describe(problems: Mapping[str, str], subject: str) -> str:
    return f"{subject}: {' '.join(problems.values())}"
