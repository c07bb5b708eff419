"""A graph being written.

The builder only records; `freeze()` checks everything at once and gives the graph as data. Freezing is repeatable
and leaves the builder as it was. `runtime.StateGraph` is this class with `compile()`.
"""

from __future__ import annotations

import itertools
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Self, Unpack, cast, overload

from statewright.clock import Duration
from statewright.errors import InvalidGraph, InvalidSchema
from statewright.graph.command import END, START
from statewright.graph.context import SubgraphLike, is_subgraph
from statewright.graph.generics import ContextT, GraphParameters, InputT, OutputT, ResultT, StateT
from statewright.graph.graph import Graph, Migration
from statewright.graph.mapping import ITEM_SUFFIX, one_item, spread_and_collect
from statewright.graph.node import Branch, Join, JoinEdge, Memory, Node, TagLimits
from statewright.graph.parameters import (
    declared_by_hint,
    literal_names,
    may_go_anywhere,
    read_parameters,
    resolved_hints,
)
from statewright.graph.policy import (
    CachePolicy,
    CircuitBreaker,
    RateLimit,
    RetryPolicy,
    TimeoutPolicy,
    as_retries,
    as_timeout,
)
from statewright.graph.runnable import as_action, as_path
from statewright.graph.validate import find_problems
from statewright.state import StateSchema, is_pydantic, merge_fields, read_schema

if TYPE_CHECKING:
    from statewright.graph.generics import (
        MapOptions,
        NodeFunction,
        NodeOptions,
        PathFunction,
        RunnableLike,
        TargetT,
    )

Action = Callable[..., Any] | SubgraphLike


class GraphWarning(UserWarning):
    """A problem of a graph that `strict=False` tolerates."""


class GraphBuilder(GraphParameters[StateT, ContextT, InputT, OutputT, ResultT]):
    """Collects nodes, edges and schemas, and freezes them into a `Graph`. For its parameters see `generics.py`."""

    bare_messages: str | None = None

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
        """Of the code: saved with every checkpoint. Change it when threads of the old code need a migration."""
        self.answers_to = answers_to
        """The field that takes `Command(resume=...)` at a breakpoint; without it nothing is asked there."""
        self.migrations: dict[str | None, Migration] = {}
        self.nodes: dict[str, Node] = {}
        self.edges: dict[str, dict[str, None]] = {}
        self.joins: dict[JoinEdge, None] = {}
        self.branches: dict[str, list[Branch]] = {}
        self.defaults: dict[str, Any] = {}
        self.tag_limits: dict[str, TagLimits] = {}
        self.saved_types: dict[Any, None] = {}
        self.problems: list[str] = []
        """What was already wrong when it was written, and can't be seen in the parts."""

    def migration(
        self, *, from_version: str | None, to_version: str | None = None
    ) -> Callable[[Callable[[dict[str, Any]], Mapping[str, Any]]], Callable[[dict[str, Any]], Mapping[str, Any]]]:
        """A decorator for a function that makes the state of a thread of another version into one of this graph's.

        The function gets the saved state as a dict of its own, and returns it as `to_version` wants it, which is the
        version of the graph if not given; several migrations follow each other. Nodes that were renamed say so
        themselves, with `aliases`.
        """

        def register(change: Callable[[dict[str, Any]], Mapping[str, Any]]) -> Any:
            if from_version in self.migrations:
                self.problems.append(f"There are two migrations from version {from_version!r}. Remove one of them.")
            self.migrations[from_version] = Migration(to_version if to_version is not None else self.version, change)
            return change

        return register

    def allow_types(self, *types: Any) -> Self:
        """Let values of these types be saved although no schema names them: those behind a field of type Any."""
        self.saved_types.update(dict.fromkeys(types))
        return self

    def set_schema(self, schema: Any) -> Self:
        """Use `schema`, a class or a dict of reducers, as the state."""
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
        self,
        node: Any,
        action: Any = None,
        described: Any = None,
        /,
        *,
        defer: bool = False,
        join: Join | None = None,
        input_schema: Any = None,
        destinations: Sequence[str] | Mapping[str, str] | None = None,
        on: Sequence[str] = (),
        inline: bool = False,
        error_handler: Callable[..., Any] | None = None,
        retry_policy: RetryPolicy | Sequence[RetryPolicy] | None = None,
        timeout: TimeoutPolicy | Duration | None = None,
        cache_policy: CachePolicy | None = None,
        max_concurrency: int | None = None,
        rate_limit: RateLimit | None = None,
        circuit_breaker: CircuitBreaker | None = None,
        reads: Sequence[str] | None = None,
        writes: Sequence[str] | None = None,
        aliases: Sequence[str] = (),
        resources: Mapping[str, float] | None = None,
        memory: Memory = "call",
        description: str | None = None,
        tags: Sequence[str] = (),
        version: str | None = None,
        metadata: Mapping[str, Any] | None = None,
    ) -> Self:
        """Add a node: `add_node(fn)`, `add_node(name, fn)` or `add_node(name, description, fn)`.

        Instead of a function it may be a compiled graph, or a Runnable: an object with `invoke` and `ainvoke`.
        `destinations` declares where its Commands and Sends go; it then goes nowhere else. `defer=True` is
        `join="idle"`. `on` names channels whose change makes the node due. A number or timedelta as `timeout` is how
        long one attempt may take. See `Node` for the rest.
        """
        if isinstance(action, str):
            description, action = action, described
        node, action = node if isinstance(node, str) else as_action(node), as_action(action)
        name, action = (node, action) if isinstance(node, str) else (_name_of(node), node)
        if name in self.nodes:
            self.problems.append(f"Node {name!r} is added twice. Give one of the two another name.")
            return self
        if not callable(action) and not is_subgraph(action):
            self.problems.append(f"Node {name!r} has no function: found {action!r}. Pass add_node(name, function).")
            action = _nothing
        if defer and join not in (None, "idle"):
            self.problems.append(f"Node {name!r}: defer=True means join='idle', found join={join!r}. Drop one of them.")
        declared, undeclared = _destinations(action, destinations)
        self.nodes[name] = Node(
            name=name,
            action=action,
            join="idle" if defer else join or "any",
            input_schema=input_schema if input_schema is not None else _input_hint(action),
            destinations=declared,
            undeclared=undeclared,
            on=tuple(on),
            inline=inline,
            error_handler=error_handler,
            retry_policy=as_retries(retry_policy),
            timeout=as_timeout(timeout),
            cache_policy=cache_policy,
            max_concurrency=max_concurrency,
            rate_limit=rate_limit,
            circuit_breaker=circuit_breaker,
            reads=tuple(reads) if reads is not None else None,
            writes=tuple(writes) if writes is not None else None,
            aliases=tuple(aliases),
            resources=dict(resources or {}),
            memory=memory,
            description=description,
            tags=tuple(tags),
            version=version,
            metadata=dict(metadata or {}),
        )
        return self

    def set_node_defaults(
        self,
        *,
        retry_policy: RetryPolicy | Sequence[RetryPolicy] | None = None,
        timeout: TimeoutPolicy | Duration | None = None,
        cache_policy: CachePolicy | None = None,
        error_handler: Callable[..., Any] | None = None,
    ) -> Self:
        """What holds for every node, before and after this call, that does not say otherwise itself.

        Error handlers are tried and timed like their nodes, but not cached. Subgraphs do not inherit anything.
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
        """Let all nodes with a tag share a limit, e.g. those that call one service."""
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
        """Add a node that runs once for each item of the field `over`; what it answers is gathered in the field `into`.

        The function is called with the item, and its answer is one element, whatever it is. The answers are in the
        order of the items. Edges lead to and from the node as usual; `options` are those of `add_node` and hold for
        each item. What handles one item is a node of its own, named `<name>.item`.
        """
        node, function = node if isinstance(node, str) else as_action(node), as_action(function)
        name, action = (node, function) if isinstance(node, str) else (_name_of(node), node)
        if not callable(action) and not is_subgraph(action):
            self.problems.append(f"The map {name!r} has no function. Pass add_map(name, function, over=..., into=...).")
            return self
        item = name + ITEM_SUFFIX
        self.add_node(name, spread_and_collect(name, over, into), destinations=[item], reads=[over], writes=[into])
        return self.add_node(item, one_item(name, action), destinations=[name], **options)

    def add_edge(self, start: str | Sequence[str], end: str) -> Self:
        """Let `end` follow `start`; with a list of starts, once when all of them have arrived in a run."""
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
        """After `source`, let `path(state)` name what comes next: a node, a Send, END, or a list of them.

        `path_map` says what each result means, or lists the targets, or names the only one; without it a `Literal`
        return hint does.
        """
        path = as_path(path)
        if not callable(path):
            self.problems.append(f"The conditional edge from {source!r} has no function: found {path!r}.")
            return self
        if isinstance(path_map, Mapping):
            targets: Mapping[Any, str] | None = dict(path_map)
        else:
            listed = (path_map,) if isinstance(path_map, str) else path_map
            names = listed if listed is not None else literal_names(resolved_hints(path).get("return"))
            targets = {name: name for name in names} if names is not None else None
        self.branches.setdefault(source, []).append(Branch(source, path, targets))
        return self

    def add_sequence(self, nodes: Sequence[str | NodeFunction[StateT] | tuple[str, NodeFunction[StateT]]]) -> Self:
        """Add nodes that follow each other; a name stands for a node that is already there."""
        names: list[str] = []
        for node in nodes:
            if isinstance(node, str):
                names.append(node)
            elif isinstance(node, tuple):
                name, action = cast(tuple[str, Action], node)
                names.append(name)
                self.add_node(name, action)
            else:
                names.append(_name_of(node))
                self.add_node(node)
        for start, end in itertools.pairwise(names):
            self.add_edge(start, end)
        return self

    def set_entry_point(self, name: str) -> Self:
        """Let a run begin with `name`."""
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
        """Let `path(input)` name where a run begins."""
        return self.add_conditional_edges(START, path, path_map)

    def set_finish_point(self, name: str) -> Self:
        """Let the path end after `name`."""
        return self.add_edge(name, END)

    def freeze(
        self,
        *,
        strict: bool = True,
        name: str | None = None,
        has_store: bool = True,
        interrupts: Sequence[str] = (),
        entered: Sequence[str] = (),
        also: Sequence[str] = (),
    ) -> Graph:
        """The graph as data. `entered` are nodes that a run may come to without an edge, like that of a budget.

        Raises InvalidGraph with every problem that is found, `also` included. With `strict=False` problems of shape
        are warnings, and edges to nodes that do not exist are left out.
        """
        title = name or self.name or "Graph"
        unreadable: list[InvalidSchema] = []
        schemas = self._schemas(unreadable)
        fields = merge_fields(schemas.values(), unreadable)
        graph = self._graph(title, schemas, fields)
        found = find_problems(graph, interrupts=interrupts, entered=entered, has_store=has_store)
        fatal = [*self.problems, *also, *dict.fromkeys(map(str, unreadable)), *found.fatal]
        if fatal or (strict and found.shape):
            raise InvalidGraph([*fatal, *found.shape], graph=title) from next(iter(unreadable), None)
        for problem in found.shape:
            warnings.warn(problem, GraphWarning, stacklevel=3)
        return graph if not found.shape else _without_dangling(graph)

    def _schemas(self, problems: list[InvalidSchema]) -> dict[str, StateSchema]:
        """Return every schema of the graph: the state's, the input's, the output's, and those of nodes.

        What is wrong with them is added to the `problems`.
        """
        state = read_schema(self.state_schema if self.state_schema is not None else {}, problems)
        schemas = {"state": state}
        # A dict of what goes in or comes out says what does, and nothing else; as a state it would be open.
        for name, source in (("input", self.input_schema), ("output", self.output_schema)):
            schemas[name] = state if source is None else read_schema(source, problems, closed=True)
        by_source: dict[int, StateSchema] = {id(self.state_schema): state}
        for node in self.nodes.values():
            source = node.input_schema
            if source is not None and id(source) != id(self.state_schema):
                schemas[f"node:{node.name}"] = by_source.setdefault(id(source), read_schema(source, problems))
        return schemas

    def _with_defaults(self, node: Node) -> Node:
        """The node with what holds for those that do not say otherwise."""
        missing = {name: value for name, value in self.defaults.items() if value and not getattr(node, name)}
        if node.inline:
            missing.pop("timeout", None)  # nobody could stop to wait for it
        return replace(node, **missing) if missing else node

    def _graph(self, title: str, schemas: Mapping[str, StateSchema], fields: Mapping[str, Any]) -> Graph:
        return Graph(
            name=title,
            nodes={name: self._with_defaults(node) for name, node in self.nodes.items()},
            tag_limits=dict(self.tag_limits),
            edges={start: tuple(ends) for start, ends in self.edges.items()},
            joins=tuple(self.joins),
            branches={source: tuple(branches) for source, branches in self.branches.items()},
            schema=schemas["state"],
            input_schema=schemas["input"],
            output_schema=schemas["output"],
            answers_to=self.answers_to,
            context_schema=self.context_schema,
            node_schemas={
                key.removeprefix("node:"): schema for key, schema in schemas.items() if key.startswith("node:")
            },
            fields=fields,
            bare_messages=self.bare_messages,
            version=self.version,
            migrations=dict(self.migrations),
            saved_types=tuple(self.saved_types),
        )


def _name_of(action: object) -> str:
    name = getattr(action, "name", None) or getattr(action, "__name__", None)
    return name if isinstance(name, str) else type(action).__name__


def _nothing(state: Any) -> None:
    """Stands in for a node without a function, so that the other problems are found too."""


def _destinations(
    action: Action, declared: Sequence[str] | Mapping[str, str] | None
) -> tuple[tuple[str, ...] | None, bool]:
    """Where the node says it goes, and whether it may go anywhere."""
    if declared is not None:
        return tuple(declared), False
    if is_subgraph(action):
        return None, False
    try:
        returns = read_parameters(cast(Any, action)).returns
    except (TypeError, ValueError):
        return None, False
    if returns is None:
        return None, False
    hinted = declared_by_hint(returns)
    return hinted, hinted is None and may_go_anywhere(returns)


def _input_hint(action: Action) -> Any:
    """The class that the first parameter is annotated with, if it is one that can be read as a schema."""
    if is_subgraph(action):
        return None
    try:
        hint = read_parameters(cast(Any, action)).state_hint
    except (TypeError, ValueError):
        return None
    return hint if is_schema_class(hint) else None


def is_schema_class(hint: Any) -> bool:
    """Whether a hint is a TypedDict, a dataclass or a pydantic model."""
    if not isinstance(hint, type):
        return False
    return hasattr(hint, "__required_keys__") or hasattr(hint, "__dataclass_fields__") or is_pydantic(hint)


def _without_dangling(graph: Graph) -> Graph:
    """The graph without edges and destinations that lead to no node."""

    def known(name: str) -> bool:
        return name in graph.nodes or name in (START, END)

    return replace(
        graph,
        edges={start: tuple(filter(known, ends)) for start, ends in graph.edges.items() if known(start)},
        joins=tuple(join for join in graph.joins if all(map(known, (*join.starts, join.end)))),
        branches={
            source: tuple(_known_targets(branch, known) for branch in branches)
            for source, branches in graph.branches.items()
            if known(source)
        },
    )


def _known_targets(branch: Branch, known: Callable[[str], bool]) -> Branch:
    if branch.targets is None:
        return branch
    return Branch(branch.source, branch.path, {label: name for label, name in branch.targets.items() if known(name)})
