"""Check the keywords of a call against the graph, and combine them with the options of `compile`.

All functions raise InvalidConfig. For an unknown name it suggests the most similar valid name.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final, cast

from statewright.errors import InvalidConfig, suggestion
from statewright.graph import Budget, Graph
from statewright.runtime.config import (
    DURABILITIES,
    ON_BUSY,
    ON_UNFINISHED,
    SETTING_KEYS,
    Settings,
    checked_choice,
    checked_grace,
    read_settings,
)
from statewright.runtime.invocation.run_config import RunConfig
from statewright.runtime.options import CallOptions, Names
from statewright.state import check_value, known_keys

_KEYWORDS: Final = tuple(CallOptions.__annotations__)
_CHOICES: Final[Mapping[str, tuple[str, ...]]] = {
    "durability": DURABILITIES,
    "on_unfinished": ON_UNFINISHED,
    "on_busy": ON_BUSY,
}


def call_settings(config: Any, options: Mapping[str, Any]) -> Settings:
    """Return the settings of a call from its config and its keywords (`options`)."""
    if not options:
        return read_settings(config)
    unknown = next((name for name in options if name not in _KEYWORDS), None)
    if unknown is not None:
        raise InvalidConfig(f"Unknown keyword {unknown!r}. " + suggestion(unknown, _KEYWORDS, noun="Keywords"))
    return read_settings(config, **{name: options.get(name) for name in SETTING_KEYS})


def config_changes(graph: Graph, compiled: RunConfig, options: Mapping[str, Any]) -> dict[str, Any]:
    """Return the fields of the RunConfig that the keywords of a call change, with their new values.

    `compiled` has the options of `compile`, which some keywords extend.
    """
    changes = dict[str, Any]()
    for name, choices in _CHOICES.items():
        if checked_choice(name, options.get(name), choices) is not None:
            changes[name] = options[name]
    if options.get("context") is not None:
        changes["context"] = _as_context(graph, options["context"])
    budget: Budget | None = options.get("budget") or compiled.budget
    if budget is not None:
        _check_node(graph, budget.on_budget, "The budget")
        changes["budget"] = budget
    for option, breaks in (("interrupt_before", "breaks_before"), ("interrupt_after", "breaks_after")):
        if option in options:
            changes[breaks] = getattr(compiled, breaks) | checked_nodes(graph, options[option], option)
    if "sibling_grace" in options:
        changes["sibling_grace"] = checked_grace(options["sibling_grace"])
    return changes


def name_set(names: Names) -> frozenset[str]:
    """Return one name or several as a set."""
    return frozenset((names,) if isinstance(names, str) else names or ())


def checked_nodes(graph: Graph, names: Names, option: str) -> frozenset[str]:
    """Return names of nodes as a set, after checking that they exist. "*" stands for all nodes."""
    nodes = name_set(names)
    for name in sorted(nodes - {"*"}):
        _check_node(graph, name, option)
    return nodes


def check_output_keys(graph: Graph, fields: Iterable[str], keys: Names) -> None:
    """Raise InvalidConfig if an output key is not one of `fields`, unless the state is open."""
    for key in () if keys is None or not graph.schema.closed else name_set(keys):
        if key not in fields:
            raise InvalidConfig(
                f"output_keys names {key!r}, which is not a field. " + suggestion(key, fields, noun="Fields")
            )


def _check_node(graph: Graph, name: str | None, option: str) -> None:
    """Raise InvalidConfig if `name` is not a node. `option` is the subject of the error message."""
    if name is not None and name not in graph.nodes:
        raise InvalidConfig(
            f"{option} names {name!r}, which is not a node. " + suggestion(name, graph.nodes, noun="Nodes")
        )


def _as_context(graph: Graph, context: Any) -> Any:
    """Return a context. A mapping is converted to an instance of the context schema, if there is one."""
    schema = graph.context_schema
    if context is None or schema is None or not isinstance(context, Mapping):
        return context
    fields = known_keys(schema)
    unknown = next((key for key in cast(Mapping[Any, Any], context) if fields is not None and key not in fields), None)
    if unknown is not None:
        raise InvalidConfig(
            f"The context has the key {unknown!r}, which is not a field of {schema.__name__}. "
            + suggestion(str(unknown), cast(frozenset[str], fields), noun="Fields")
        )
    return check_value("context", schema, context)
