"""The context store: what a visit makes of it. Pure functions; no context is ever changed in place."""

from __future__ import annotations

from collections.abc import Container, Mapping
from typing import Any, cast

from statewright.agents import as_text
from statewright.workflow.states.engine.visit import Effects, Visit
from statewright.workflow.states.expressions.output import parse_result

Context = Mapping[str, Any]


def add_or_replace_context_store(left: Context | None, right: Context | None) -> dict[str, Any]:
    """Both, `right` over `left`, key by key."""
    return {**(left or {}), **(right or {})}


def after_visit(context: Context, visit: Visit, item: Any, seen: Container[str] | None = None) -> Context:
    """The context after a visit; `item` is that of its branch, which has filled the context first if it is a map.

    Where branches are merged, a visit that takes keys away takes those that its own branch has `seen`, and leaves what
    others have put there; None if the context is its own.
    """
    if visit.fills and isinstance(item, dict):
        context = add_or_replace_context_store(context, cast("dict[str, Any]", item))
    effects = visit.effects
    new = news_of(visit.result, splits=effects.splits) if effects.store else {}
    if effects.clear is True:
        context = _without(context, seen, new)
    elif effects.clear == "keep_current":
        context = {**_without(context, seen, new), **new}
    elif effects.append:
        context = appended(context, {**new, **_under_key(effects, visit.output)})
    elif new:
        context = add_or_replace_context_store(context, new)
    if effects.output_key is not None and (effects.clear or not effects.append):
        context = {**context, effects.output_key: visit.output}
    return _without_reset(context, effects, seen, new) if effects.reset else context


def _without(context: Context, seen: Container[str] | None, new: Context) -> dict[str, Any]:
    """The context without what a branch has seen, or has now found itself."""
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


def news_of(result: Any, *, splits: bool = False) -> dict[str, Any]:
    """What a result puts into the context: the keys of a map, of a list those of its maps, else nothing.

    Of a list that is split into items each branch gets its own.
    """
    if isinstance(result, dict):
        return cast("dict[str, Any]", result)
    news: dict[str, Any] = {}
    if isinstance(result, list) and not splits:
        for one in cast("list[Any]", result):
            if isinstance(one, dict):
                news.update(cast("dict[str, Any]", one))
    return news


def result_of(output: Any) -> Any:
    """The value that an output means."""
    return parse_result(output) if isinstance(output, str) else output


def appended(context: Context, news: Context) -> Context:
    """The context with values collected in lists. What stood there alone becomes the first, unless it says nothing."""
    new = dict(context)
    for name, value in news.items():
        before = context.get(name)
        new[name] = [*before, value] if isinstance(before, list) else [before, value] if before else [value]
    return new


def seeds(given: Any, files: Any = ()) -> dict[str, Any]:
    """The context with which a run begins: the parsed input, where it is a map, and the names of its files."""
    context = dict(cast("dict[str, Any]", given)) if isinstance(given, dict) else {}
    names = [str(one) for one in files or ()]
    return {**context, "file_names": names} if names else context


def text_of(given: Any) -> str:
    """The input as the first message of the history."""
    return "" if given is None else as_text(given)
