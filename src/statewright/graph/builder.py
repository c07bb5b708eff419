"""The builder of graphs.

The builder only records declarations. `freeze()` checks all of them at once and returns the graph as data. It does not
change the builder, so it can be called again after further declarations. `runtime.StateGraph` adds `compile()` to this
class.
"""

from __future__ import annotations

import itertools
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final, Self, Unpack, cast, overload

from statewright.clock import Duration
from statewright.errors import InvalidGraph, InvalidSchema
from statewright.graph.command import END, START
from statewright.graph.context import is_subgraph
from statewright.graph.functions.hints import Action, declared_destinations, input_schema_of, literal_names
from statewright.graph.functions.parameters import resolved_hints
from statewright.graph.functions.runnable import as_action, as_path
from statewright.graph.generics import ContextT, GraphParameters, InputT, OutputT, ResultT, StateT
from statewright.graph.graph import Graph, Migration
from statewright.graph.mapping import ITEM_SUFFIX, item_function, send_and_collect
from statewright.graph.node import Branch, JoinEdge, Node, TagLimits
from statewright.graph.policy import (
    CachePolicy,
    CircuitBreaker,
    RateLimit,
    RetryPolicy,
    TimeoutPolicy,
    as_retries,
    as_timeout,
)
from statewright.graph.validate import find_problems
from statewright.state import StateSchema, merge_fields, read_schema

if TYPE_CHECKING:
    from statewright.graph.generics import (
        MapOptions,
        NodeFunction,
        NodeOptions,
        PathFunction,
        RunnableLike,
        TargetT,
    )


class GraphWarning(UserWarning):
    """A warning about a problem in a graph that `strict=False` tolerates."""


class GraphBuilder(GraphParameters[StateT, ContextT, InputT, OutputT, ResultT]):
    """Collects nodes, edges and schemas, and freezes them into a `Graph`. See `generics.py` for its type parameters."""

    bare_messages: str | None = None
    """The field that receives the messages that nodes return without naming a field; None if that is an error."""

    def __init__(
        self,
        state_schema: Any = None,
        context_schema: Any = None,
        *,
        input_schema: Any = None,
        output_schema: Any = None,
        name: str | None = None,
        version: str | None = None,
        answers_to: str | None = None,
    ) -> None:
        self.state_schema: Any = state_schema
        self.context_schema = context_schema
        self.input_schema = input_schema
        self.output_schema = output_schema
        self.name = name
        self.version = version
        """The version of the graph's code, which is saved with checkpoints. Change it when saved threads need a
        migration."""
        self.answers_to = answers_to
        """The field that receives the value of `Command(resume=...)` at a breakpoint. If it is None, a breakpoint
        cannot be answered."""
        self.migrations: dict[str | None, Migration] = {}
        self.nodes: dict[str, Node] = {}
        self.edges: dict[str, dict[str, None]] = {}
        self.joins: dict[JoinEdge, None] = {}
        self.branches: dict[str, list[Branch]] = {}
        self.defaults: dict[str, Any] = {}
        self.tag_limits: dict[str, TagLimits] = {}
        self.saved_types: dict[Any, None] = {}
        self.problems: list[str] = []
        """Problems that can be noticed only while a node or edge is added."""

    def migration(
        self, *, from_version: str | None, to_version: str | None = None
    ) -> Callable[[Callable[[dict[str, Any]], Mapping[str, Any]]], Callable[[dict[str, Any]], Mapping[str, Any]]]:
        """Register a function that migrates the state of threads that another version of the graph has saved.

        The function receives the saved state as a dict that it may change, and returns the state for `to_version`,
        which is by default the version of the graph. Migrations are chained. Renamed nodes need no migration: give them
        `aliases`.
        """

        def register(function: Callable[[dict[str, Any]], Mapping[str, Any]]) -> Any:
            if from_version in self.migrations:
                self.problems.append(f"There are two migrations from version {from_version!r}. Remove one of them.")
            self.migrations[from_version] = Migration(to_version if to_version is not None else self.version, function)
            return function

        return register

    def allow_types(self, *types: Any) -> Self:
        """Permit values of these types to be saved in fields whose declared type is Any."""
        self.saved_types.update(dict.fromkeys(types))
        return self

    def set_schema(self, schema: Any) -> Self:
        """Set the schema of the state: a class, or a dict of reducers by field."""
        self.state_schema = schema
        return self

    @overload
    def add_node(self, node: NodeFunction[StateT], /, **options: Unpack[NodeOptions]) -> Self: ...
    @overload
    def add_node(self, node: str, action: NodeFunction[StateT], /, **options: Unpack[NodeOptions]) -> Self: ...
    @overload
    def add_node(
        self, node: str, description: str, action: NodeFunction[StateT], /, **options: Unpack[NodeOptions]
    ) -> Self: ...
    def add_node(
        self, node: Any, action: Any = None, described_action: Any = None, /, *, defer: bool = False, **options: Any
    ) -> Self:
        """Add a node: `add_node(fn)`, `add_node(name, fn)` or `add_node(name, description, fn)`.

        Instead of a function, pass a compiled graph or a Runnable (an object with `invoke` and `ainvoke`) to use it as
        a node. The options are the fields of `Node`. `destinations` declares the targets of the node's Commands and
        Sends; other targets are then an error. `on` lists channels whose changes make the node due. `defer=True` means
        `join="idle"`. A number (of seconds) or timedelta as `timeout` limits the duration of each attempt.
        """
        if isinstance(action, str):
            options["description"], action = action, described_action
        name, action = _name_and_action(node, action)
        if name in self.nodes:
            self.problems.append(f"Node {name!r} is added twice. Rename one of them.")
            return self
        if not callable(action) and not is_subgraph(action):
            self.problems.append(f"Node {name!r}: {action!r} is not a function. Pass add_node(name, function).")
            action = _placeholder
        if defer:
            join = options.pop("join", None)
            if join not in (None, "idle"):
                self.problems.append(
                    f"Node {name!r}: defer=True means join='idle', but join is {join!r}. Remove one of them."
                )
            options["join"] = "idle"
        destinations, undeclared = declared_destinations(action, options.pop("destinations", None))
        if options.get("input_schema") is None:
            options["input_schema"] = input_schema_of(action)
        fields = {
            key: _CONVERSIONS[key](value) if key in _CONVERSIONS else value
            for key, value in options.items()
            if value is not None
        }
        self.nodes[name] = Node(name=name, action=action, destinations=destinations, undeclared=undeclared, **fields)
        return self

    def set_node_defaults(
        self,
        *,
        retry_policy: RetryPolicy | Sequence[RetryPolicy] | None = None,
        timeout: TimeoutPolicy | Duration | None = None,
        cache_policy: CachePolicy | None = None,
        error_handler: Callable[..., Any] | None = None,
    ) -> Self:
        """Set policies for all nodes that do not set them themselves, including nodes that are added later.

        The retry policy and the timeout of a node apply to its error handler too, its cache policy does not. Subgraphs
        do not inherit the defaults.
        """
        self.defaults = {
            "retry_policy": as_retries(retry_policy),
            "timeout": as_timeout(timeout),
            "cache_policy": cache_policy,
            "error_handler": error_handler,
        }
        return self

    def set_tag_limits(
        self,
        tag: str,
        *,
        max_concurrency: int | None = None,
        rate_limit: RateLimit | None = None,
        circuit_breaker: CircuitBreaker | None = None,
    ) -> Self:
        """Set limits that all nodes with a tag share, for example nodes that call the same service."""
        self.tag_limits[tag] = TagLimits(
            max_concurrency=max_concurrency, rate_limit=rate_limit, circuit_breaker=circuit_breaker
        )
        return self

    @overload
    def add_map(
        self, function: Callable[..., Any] | RunnableLike, /, *, over: str, into: str, **options: Unpack[MapOptions]
    ) -> Self: ...
    @overload
    def add_map(
        self,
        node: str,
        function: Callable[..., Any] | RunnableLike,
        /,
        *,
        over: str,
        into: str,
        **options: Unpack[MapOptions],
    ) -> Self: ...
    def add_map(
        self, node: Any, function: Any = None, /, *, over: str, into: str, **options: Unpack[MapOptions]
    ) -> Self:
        """Add a node that calls a function for each item of the field `over`, and writes the results to `into`.

        The function is called with one item, and may return any value. Results are in the order of the items. Edges
        start and end at the node as at any other node. A second node, `<name>.item`, calls the function; `options` are
        the options of `add_node` for the second node.
        """
        name, action = _name_and_action(node, function)
        if not callable(action) and not is_subgraph(action):
            self.problems.append(
                f"Map {name!r}: {action!r} is not a function. Pass add_map(name, function, over=..., into=...)."
            )
            return self
        item_node = name + ITEM_SUFFIX
        self.add_node(name, send_and_collect(name, over, into), destinations=[item_node], reads=[over], writes=[into])
        return self.add_node(item_node, item_function(name, action), destinations=[name], **options)

    def add_edge(self, start: str | Sequence[str], end: str) -> Self:
        """Run `end` after `start`. If `start` is a list of nodes, run `end` once all of them have run."""
        if isinstance(start, str):
            self.edges.setdefault(start, {})[end] = None
        elif len(set(start)) > 1:
            self.joins[JoinEdge(tuple(dict.fromkeys(start)), end)] = None
        else:
            self.problems.append(
                f"The join edge {list(start)!r} -> {end!r} needs at least two different starts. "
                f"Write add_edge('a', {end!r}) for a plain edge."
            )
        return self

    @overload
    def add_conditional_edges(
        self, source: str, path: PathFunction[StateT, str], path_map: Sequence[str] | str | None = None
    ) -> Self: ...
    @overload
    def add_conditional_edges(
        self, source: str, path: PathFunction[StateT, TargetT], path_map: Mapping[TargetT, str]
    ) -> Self: ...
    def add_conditional_edges(
        self,
        source: str,
        path: Any,
        path_map: Mapping[Any, str] | Sequence[str] | str | None = None,
    ) -> Self:
        """Let `path(state)` choose the successors of `source`: a node, a Send, END, or a list of these.

        `path_map` is a dict that maps the results of `path` to targets, a list of the possible targets, or the only
        target. By default the possible targets are taken from a `Literal` return hint. Without such a hint `path` may
        return any node.
        """
        path = as_path(path)
        if not callable(path):
            self.problems.append(f"The conditional edge from {source!r}: {path!r} is not a function.")
            return self
        if isinstance(path_map, Mapping):
            targets: Mapping[Any, str] | None = dict(path_map)
        else:
            names = (path_map,) if isinstance(path_map, str) else path_map
            if names is None:
                names = literal_names(resolved_hints(path).get("return"))
            targets = {name: name for name in names} if names is not None else None
        self.branches.setdefault(source, []).append(Branch(source, path, targets))
        return self

    def add_sequence(self, nodes: Sequence[str | NodeFunction[StateT] | tuple[str, NodeFunction[StateT]]]) -> Self:
        """Add nodes, and an edge from each to the next. An element that is only a name refers to an existing node."""
        names: list[str] = []
        for node in nodes:
            if isinstance(node, str):
                names.append(node)
            else:
                pair = cast("tuple[str, Action]", node if isinstance(node, tuple) else (node, None))
                name, action = _name_and_action(*pair)
                names.append(name)
                self.add_node(name, action)
        for start, end in itertools.pairwise(names):
            self.add_edge(start, end)
        return self

    def set_entry_point(self, name: str) -> Self:
        """Start every run with the node `name`."""
        return self.add_edge(START, name)

    @overload
    def set_conditional_entry_point(
        self, path: PathFunction[StateT, str], path_map: Sequence[str] | str | None = None
    ) -> Self: ...
    @overload
    def set_conditional_entry_point(
        self, path: PathFunction[StateT, TargetT], path_map: Mapping[TargetT, str]
    ) -> Self: ...
    def set_conditional_entry_point(
        self, path: Any, path_map: Mapping[Any, str] | Sequence[str] | str | None = None
    ) -> Self:
        """Let `path(input)` choose the first nodes of a run."""
        return self.add_conditional_edges(START, path, path_map)

    def set_finish_point(self, name: str) -> Self:
        """Add an edge from the node `name` to END."""
        return self.add_edge(name, END)

    def freeze(
        self,
        *,
        strict: bool = True,
        name: str | None = None,
        has_store: bool = True,
        interrupts: Sequence[str] = (),
        entered: Sequence[str] = (),
        other_problems: Sequence[str] = (),
    ) -> Graph:
        """Return the graph as data.

        `interrupts` are the names of nodes with breakpoints. `entered` are the names of nodes that run although no edge
        leads to them, such as the `on_budget` node of a budget. Raises InvalidGraph with all problems, including
        `other_problems`. With `strict=False`, problems with the structure of the graph (see `validate.py`) are only
        warnings, and edges to unknown nodes are left out.
        """
        title = name or self.name or "Graph"
        schema_errors: list[InvalidSchema] = []
        graph = self._unchecked_graph(title, schema_errors)
        problems = find_problems(graph, interrupts=interrupts, entered=entered, has_store=has_store)
        fatal = [*self.problems, *other_problems, *dict.fromkeys(map(str, schema_errors)), *problems.fatal]
        if fatal or (strict and problems.structure):
            raise InvalidGraph([*fatal, *problems.structure], graph=title) from next(iter(schema_errors), None)
        for problem in problems.structure:
            warnings.warn(problem, GraphWarning, stacklevel=3)
        return graph.without_dangling_edges() if problems.structure else graph

    def _unchecked_graph(self, title: str, problems: list[InvalidSchema]) -> Graph:
        """Return the graph without checking it, and add the errors in its schemas to `problems`."""
        state = read_schema(self.state_schema if self.state_schema is not None else {}, problems)
        # An input or output schema that is a dict permits no other fields. A state schema that is a dict does.
        input_schema, output_schema = (
            state if source is None else read_schema(source, problems, closed=True)
            for source in (self.input_schema, self.output_schema)
        )
        node_schemas = self._node_schemas(state, problems)
        return Graph(
            name=title,
            nodes={name: self._with_defaults(node) for name, node in self.nodes.items()},
            tag_limits=dict(self.tag_limits),
            edges={start: tuple(ends) for start, ends in self.edges.items()},
            joins=tuple(self.joins),
            branches={source: tuple(branches) for source, branches in self.branches.items()},
            schema=state,
            input_schema=input_schema,
            output_schema=output_schema,
            answers_to=self.answers_to,
            context_schema=self.context_schema,
            node_schemas=node_schemas,
            fields=merge_fields([state, input_schema, output_schema, *node_schemas.values()], problems),
            bare_messages=self.bare_messages,
            version=self.version,
            migrations=dict(self.migrations),
            saved_types=tuple(self.saved_types),
        )

    def _node_schemas(self, state: StateSchema, problems: list[InvalidSchema]) -> dict[str, StateSchema]:
        """Return the schemas of nodes whose input schema is not the state schema, by node. Each class is read once."""
        by_source = {id(self.state_schema): state}
        schemas: dict[str, StateSchema] = {}
        for node in self.nodes.values():
            source = node.input_schema
            if source is not None and source is not self.state_schema:
                if id(source) not in by_source:
                    by_source[id(source)] = read_schema(source, problems)
                schemas[node.name] = by_source[id(source)]
        return schemas

    def _with_defaults(self, node: Node) -> Node:
        """Return the node with the default policies that it does not override."""
        missing = {name: value for name, value in self.defaults.items() if value and not getattr(node, name)}
        if node.inline:
            missing.pop("timeout", None)  # a call on the event loop cannot be interrupted
        return replace(node, **missing) if missing else node


def _name_and_action(node: Any, action: Any) -> tuple[str, Any]:
    """Return the name and the function of a node. If `node` is the function, `action` is ignored."""
    if isinstance(node, str):
        return node, as_action(action)
    action = as_action(node)
    return _name_of(action), action


def _name_of(action: object) -> str:
    name = getattr(action, "name", None) or getattr(action, "__name__", None)
    return name if isinstance(name, str) else type(action).__name__


def _placeholder(state: Any) -> None:
    """Take the place of an action that is not a function, so that other problems with the node are reported too."""


_CONVERSIONS: Final[Mapping[str, Callable[[Any], Any]]] = {
    **dict.fromkeys(("on", "reads", "writes", "aliases", "tags"), tuple),
    **dict.fromkeys(("resources", "metadata"), dict),
    "retry_policy": as_retries,
    "timeout": as_timeout,
}
"""Functions that convert options of `add_node` to fields of `Node`, by option."""
