"""The effects of a visit on the context store, as pure functions: no context is modified in place."""

from __future__ import annotations

from collections.abc import Container, Mapping
from typing import Any, cast

from statewright.agents import as_text
from statewright.workflow.states.engine.visit import Visit

Context = Mapping[str, Any]


def apply_visit(context: Context, visit: Visit, item: Any, branch_keys: Container[str] | None = None) -> Context:
    """Return the context after a visit. `item` is the item of the visit, which may be merged into the context first.

    `branch_keys` are the keys that the visit's own branch saw. When branches are merged, a visit that removes keys
    removes only these, and none that other branches have added. None means that the context belongs to one branch.
    """
    if visit.merges_item and isinstance(item, dict):
        context = {**context, **cast("dict[str, Any]", item)}
    effects = visit.effects
    updates = extract_updates(visit.result, splits=effects.splits_result) if effects.stores_result else {}
    output = {effects.output_key: visit.output} if effects.output_key is not None else {}

    def may_remove(name: str) -> bool:
        return branch_keys is None or name in branch_keys or name in updates

    if effects.clears_context:
        context = {name: value for name, value in context.items() if not may_remove(name)}
        context.update(updates if effects.clears_context == "keep_current" else {})
    elif effects.appends_values:
        context = append_values(context, {**updates, **output})
    elif updates:
        context = {**context, **updates}
    if output and (effects.clears_context or not effects.appends_values):
        context = {**context, **output}
    if not effects.reset_keys:
        return context
    return {name: value for name, value in context.items() if name not in effects.reset_keys or not may_remove(name)}


def extract_updates(result: Any, *, splits: bool = False) -> dict[str, Any]:
    """Return the entries that a result adds to the context: those of a map, or of the maps in a list.

    With `splits`, a list adds nothing, because its maps are the items of separate branches.
    """
    if isinstance(result, dict):
        return cast("dict[str, Any]", result)
    updates: dict[str, Any] = {}
    if isinstance(result, list) and not splits:
        for item in cast("list[Any]", result):
            if isinstance(item, dict):
                updates.update(cast("dict[str, Any]", item))
    return updates


def append_values(context: Context, values: Context) -> Context:
    """Return the context with each value appended to the list under its name.

    An existing value that is not a list becomes the first item, unless it is falsy.
    """
    result = dict(context)
    for name, value in values.items():
        existing = context.get(name)
        items = cast("list[Any]", existing) if isinstance(existing, list) else [existing] if existing else []
        result[name] = [*items, value]
    return result


def make_initial_context(value: Any, files: Any = ()) -> dict[str, Any]:
    """Return the initial context of a run: the parsed input if it is a map, and the names of its files."""
    context = dict(cast("dict[str, Any]", value)) if isinstance(value, dict) else {}
    names = [str(file) for file in files or ()]
    return {**context, "file_names": names} if names else context


def format_input(value: Any) -> str:
    """Return the input as text, for the first message of the history."""
    return "" if value is None else as_text(value)
