"""Updates of the context store by a visit, as pure functions: no context is modified in place."""

from __future__ import annotations

from collections.abc import Container, Mapping
from typing import Any, cast

from statewright.agents import as_text
from statewright.workflow.states.engine.visit import Effects, Visit

Context = Mapping[str, Any]


def add_or_replace_context_store(left: Context | None, right: Context | None) -> dict[str, Any]:
    """Merge two contexts; keys of `right` win."""
    return {**(left or {}), **(right or {})}


def apply_visit(context: Context, visit: Visit, item: Any, seen: Container[str] | None = None) -> Context:
    """Return the context after a visit. An `item` that is a map was merged into the context first.

    When branches are merged, a visit that removes keys removes those that its own branch has `seen`, and keeps what
    other branches have added. `seen` is None if the context belongs to one branch.
    """
    if visit.fills and isinstance(item, dict):
        context = add_or_replace_context_store(context, cast("dict[str, Any]", item))
    effects = visit.effects
    new = context_updates(visit.result, splits=effects.splits) if effects.store else {}
    if effects.clear is True:
        context = _without(context, seen, new)
    elif effects.clear == "keep_current":
        context = {**_without(context, seen, new), **new}
    elif effects.append:
        context = append_values(context, {**new, **_under_key(effects, visit.output)})
    elif new:
        context = add_or_replace_context_store(context, new)
    if effects.output_key is not None and (effects.clear or not effects.append):
        context = {**context, effects.output_key: visit.output}
    return _without_reset(context, effects, seen, new) if effects.reset else context


def _without(context: Context, seen: Container[str] | None, new: Context) -> dict[str, Any]:
    """Return the context without the keys that a branch has seen or now writes itself."""
    if seen is None:
        return {}
    return {name: value for name, value in context.items() if name not in seen and name not in new}


def _without_reset(context: Context, effects: Effects, seen: Container[str] | None, new: Context) -> Context:
    return {
        name: value
        for name, value in context.items()
        if name not in effects.reset or not (seen is None or name in seen or name in new)
    }


def _under_key(effects: Effects, output: Any) -> dict[str, Any]:
    return {effects.output_key: output} if effects.output_key is not None else {}


def context_updates(result: Any, *, splits: bool = False) -> dict[str, Any]:
    """Return the keys that a result adds to the context: those of a map, or of the maps in a list.

    A list that is split into items adds nothing: each branch receives its own item.
    """
    if isinstance(result, dict):
        return cast("dict[str, Any]", result)
    news: dict[str, Any] = {}
    if isinstance(result, list) and not splits:
        for item in cast("list[Any]", result):
            if isinstance(item, dict):
                news.update(cast("dict[str, Any]", item))
    return news


def append_values(context: Context, news: Context) -> Context:
    """Return the context with values appended to lists. An existing single value becomes the first item if truthy."""
    new = dict(context)
    for name, value in news.items():
        before = context.get(name)
        new[name] = [*before, value] if isinstance(before, list) else [before, value] if before else [value]
    return new


def make_initial_context(value: Any, files: Any = ()) -> dict[str, Any]:
    """Return the initial context of a run: the parsed input if it is a map, and the names of its files."""
    context = dict(cast("dict[str, Any]", value)) if isinstance(value, dict) else {}
    names = [str(file) for file in files or ()]
    return {**context, "file_names": names} if names else context


def format_input(value: Any) -> str:
    """Return the input as text, for the first message of the history."""
    return "" if value is None else as_text(value)
