"""A graph under test inside other graphs: as a node, as a call, as a stream inside a node; any number of levels deep.

A graph behaves the same in all these forms. `nest` wraps a compiled graph in a parent with the same schema, which
passes its state to the graph and adopts the result, with the saver, store, cache and clock of the graph.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from statewright import START, Overwrite, StateGraph

FORMS = ("node", "call", "stream")

ROOT = "__root__"
Node = Callable[..., Any]


def nest(app: Any, form: str, depth: int = 1, *, awaits: bool = False) -> Any:
    """Return a graph that contains `app` in this form, `depth` levels deep. `awaits` selects coroutines."""
    outer = app
    for _ in range(depth):
        outer = _wrap(outer, form, awaits)
    return outer.with_services(checkpointer=app.checkpointer, store=app.store, cache=app.cache, clock=app._clock)


def _wrap(app: Any, form: str, awaits: bool) -> Any:
    graph = app.graph
    builder = StateGraph(
        graph.schema, graph.context_schema, input_schema=graph.input_schema, output_schema=graph.output_schema
    )
    builder.add_node("inner", _node(app, form, awaits)).add_edge(START, "inner")
    return builder.compile(store=app.store, validate=app.program.validate)


def _node(app: Any, form: str, awaits: bool) -> Any:
    if form == "node":
        return app
    return (_ACALLS if awaits else _CALLS)[form](app)


def _call(app: Any) -> Node:
    return lambda state: _replacing_update(app, app.invoke(state))


def _acall(app: Any) -> Node:
    async def call(state: Any) -> Any:
        return _replacing_update(app, await app.ainvoke(state))

    return call


def _stream(app: Any) -> Node:
    def stream(state: Any) -> Any:
        *_, last = app.stream(state, stream_mode="values")
        return _replacing_update(app, last)

    return stream


def _astream(app: Any) -> Node:
    async def stream(state: Any) -> Any:
        parts = [part async for part in app.astream(state, stream_mode="values")]
        return _replacing_update(app, parts[-1])

    return stream


_CALLS = {"call": _call, "stream": _stream}
_ACALLS = {"call": _acall, "stream": _astream}


def _replacing_update(app: Any, result: Any) -> Any:
    """Return the update that replaces the state by a result: reducers must not merge it again."""
    merging = app.program.merging_channels
    if ROOT in app.program.channels:
        return Overwrite(result) if ROOT in merging else result
    if not isinstance(result, dict):
        return result
    return {name: Overwrite(value) if name in merging else value for name, value in result.items()}
