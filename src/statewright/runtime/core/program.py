"""Compiled graphs, resolved so that a superstep needs little more than dictionary lookups.

A `Program` has the answers to all questions about a graph that do not depend on a run: how each node reads its input,
which services it requests, which nodes follow it, which channels merge and which are transient. A run never changes it,
so it may be shared between threads and loops.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cached_property
from typing import TYPE_CHECKING, Any, ClassVar, Final, Literal, cast

from statewright.channels import (
    MISSING,
    AnyValue,
    Channel,
    Ephemeral,
    LastValue,
    MessageBatch,
    copy_argument,
    copy_container,
    copy_fields,
    copy_in_place,
    copy_update,
)
from statewright.checkpoint import Task, TaskResult
from statewright.graph import (
    END,
    START,
    STOP,
    Branch,
    Graph,
    JoinEdge,
    Node,
    Parameters,
    Send,
    SubgraphLike,
    is_coroutine_function,
    read_parameters,
)
from statewright.runtime.core.subgraph import subgraph_calls
from statewright.runtime.tasks.inputs import (
    Reader,
    WholeReader,
    container_fields,
    pass_raw_sends,
    read_mapping,
    reader_for,
    restrict_reader,
)
from statewright.runtime.tasks.policies import Guards, SharedLimits
from statewright.state import (
    ROOT,
    Field,
    SchemaChecks,
    StateSchema,
    UnknownKeys,
    UpdateReader,
    constrained_annotations,
    stored_types,
)

if TYPE_CHECKING:
    from statewright.executors.port import Executor
    from statewright.runtime.tasks.remote_node import RemoteNode

Validate = Literal["input", "all", "off"]
Lane = Literal["loop", "thread", "inline"]
"""The place of execution of a node: on an event loop, a worker thread, or the thread of the driver."""

HANDLER_SUFFIX: Final = ":error_handler"
"""Suffix of the hidden node of an error handler; user-defined node names contain no colon."""
_STATE_PARAMETER: Final = Parameters(True, None, (), (), None, frozenset())
"""The parameters of a function that takes the state and nothing else."""


class Route:
    """A conditional edge, resolved."""

    __slots__ = ("branch", "injected", "is_coroutine", "path", "read", "targets", "targets_by_choice")

    def __init__(
        self, branch: Branch, read: Reader, parameters: Parameters, targets_by_name: Mapping[str, str]
    ) -> None:
        self.branch = branch
        self.path = branch.path
        self.targets = branch.targets
        self.targets_by_choice: Mapping[Any, str] = targets_by_name if branch.targets is None else branch.targets
        """The targets by the values that the path function may return."""
        self.read = read
        self.injected = parameters.injected or None
        """The parameters of the path function that receive services, each with the name of its service."""
        self.is_coroutine = is_coroutine_function(branch.path)


class NodeProgram:
    """A node, resolved."""

    __slots__ = (
        "acall",
        "allowed_targets",
        "async_lane",
        "call",
        "concurrent_lane",
        "containers",
        "edge_source",
        "guards",
        "handler",
        "injected",
        "joins",
        "kept_updates",
        "name",
        "node",
        "plain_keys",
        "read",
        "reads_all",
        "remote",
        "routes",
        "routes_await",
        "single_route",
        "state_only",
        "successors",
        "sync_lane",
        "takes_state",
        "updates",
        "writes",
    )

    def __init__(self, name: str, action: Any, parameters: Parameters, read: Reader, updates: UpdateReader) -> None:
        self.name = name
        self.node: Node | None = None
        self.edge_source = name
        """The node of the graph whose outgoing edges it has: for an error handler, the node that it belongs to."""
        sync_form = getattr(action, "sync", None)  # of an action with a form for each driver, such as ToolNode
        self.call: Any = sync_form or action
        self.acall: Any = action if is_coroutine_function(action) else None
        """Calls the node, and returns an awaitable; None for a plain function."""
        self.read = read
        """Reads the input of the node from the state, or from the argument of a Send."""
        self.reads_all = type(read) is WholeReader
        """True if its input is a dict of the whole state, and the fields are known."""
        self.containers: tuple[str, ...] = read.containers if type(read) is WholeReader else ()
        """The fields of such an input that may hold a list, dict or set, and are copied for the node."""
        self.kept_updates: frozenset[str] = frozenset()
        """The fields whose channel may keep the container that the node returned, so that it has to be copied."""
        self.updates = updates
        self.plain_keys = updates.plain_keys
        """The fields whose updates need no preparation; None if every result of the node must be read by `updates`."""
        self.takes_state = parameters.takes_state
        self.injected = parameters.injected or None
        """The parameters that receive services, each with the name of its service; None if there are none."""
        self.state_only = self.takes_state and self.injected is None
        """True if it is called with the state and nothing else."""
        self.sync_lane: Lane = "thread" if self.acall is None or sync_form is not None else "loop"
        """Its lane under the sync driver, if it is the only task of its superstep."""
        self.concurrent_lane: Lane = self.sync_lane
        """Its lane under the sync driver, if several tasks run concurrently."""
        self.async_lane: Lane = "thread" if self.acall is None else "loop"
        """Its lane on an event loop."""
        self.remote: RemoteNode | None = None
        """Its calls in other processes, if it has an executor."""
        self.guards: Guards | None = None
        """Its policies, or None."""
        self.successors: tuple[str, ...] = ()
        """The targets of its plain edges."""
        self.joins: tuple[JoinEdge, ...] = ()
        self.routes: tuple[Route, ...] = ()
        self.single_route: Route | None = None
        """Its conditional edge, if it is the only outgoing edge, a plain function, and reads the whole state."""
        self.routes_await = False
        """True if a conditional edge is a coroutine function."""
        self.writes: frozenset[str] | None = None
        """The fields that it declares to write; None if it declares none."""
        self.allowed_targets: frozenset[str] | None = None
        """The declared targets of its Commands and Sends; None if it declares none."""
        self.handler: str | None = None
        """The hidden node that handles its errors."""

    def joined_to(self, target: str) -> tuple[JoinEdge, ...]:
        """Return the join edges at which a goto to `target` counts as an arrival."""
        if target in self.successors:
            return ()
        return tuple(join for join in self.joins if join.end == target)


class Program:
    """A compiled graph."""

    calls_tasks: ClassVar[bool] = False
    """True for an entrypoint: its only node calls `@task` functions, whose results are streamed."""
    passes_state_on: ClassVar[bool] = True
    """True if a result is the input state with changes, so that unchanged fields were not written."""
    begins_with_state: ClassVar[bool] = True
    """True if the input holds values of the fields; False if it is stored as one value in a separate field."""

    def __init__(
        self,
        graph: Graph,
        *,
        unknown_keys: UnknownKeys = "warn",
        validate: Validate = "input",
        debug: bool = False,
        executors: Mapping[str, Executor] | None = None,
    ) -> None:
        self.graph = graph
        self._executors = executors or {}
        """The executors of nodes, by name, with the default ones that nodes name."""
        self.has_remote = any(node.executor is not None for node in graph.nodes.values())
        """True if a node runs in other processes."""
        self._limits = SharedLimits(graph)
        self.debug = debug
        self.order = graph.order
        self.channels: Mapping[str, Channel] = graph.channels
        self.merging = {name: channel for name, channel in self.channels.items() if type(channel) is not LastValue}
        """Channels whose new value is not simply the last write."""
        self.containers = container_fields(graph)
        """The fields that may hold a list, dict or set; None if the state is open, so that any field may."""
        self._kept_updates = frozenset(name for name in self.containers or () if self.channels[name].keeps_update)
        self.transient = tuple(name for name, channel in self.channels.items() if channel.transient)
        self.step_only = frozenset(
            name
            for name, channel in self.channels.items()
            if isinstance(channel, Ephemeral) and channel.lifetime == "step"
        )
        self.untracked = frozenset(name for name, channel in self.channels.items() if not channel.saved)
        self.hidden = frozenset(name for name, channel in self.channels.items() if channel.hidden)
        self.managed = {
            name: managed
            for schema in (graph.schema, *graph.node_schemas.values())
            for name, managed in schema.managed.items()
        }
        """The fields that are computed for each superstep, such as `RemainingSteps`."""
        self.subscribers = _subscribers(graph)
        self.deferring_nodes = frozenset(node.name for node in graph.nodes.values() if node.join != "any")
        """Nodes whose tasks may have to wait: see `frontier`."""
        self.uncounted_nodes = frozenset(node.name for node in graph.nodes.values() if node.metadata.get("hidden"))
        """Nodes added by the library: their supersteps do not count against the recursion limit."""
        self.subgraphs = frozenset(node.name for node in graph.nodes.values() if node.is_subgraph)
        self.targets = frozenset((*graph.nodes, END, STOP))
        """The allowed targets of a node that declares none."""
        self.allows_fast_path = not (debug or self.managed or any(node.error_handler for node in graph.nodes.values()))
        """True if a task has nothing to do before its node is called except to read the input."""
        self.join_keys = frozenset(join.key for join in graph.joins)
        self._current_names = _current_names(graph)
        self.former_names = _former_names(self._current_names)
        """The former names of renamed nodes, by current name: older checkpoints may use them."""
        self.has_simple_frontier = not (graph.joins or self.subscribers or self.deferring_nodes)
        """True if the next frontier depends only on the targets of results."""
        self.validate: Validate = validate
        self._checks = SchemaChecks(graph.fields, constrained_annotations(graph.schema))
        self.unknown_keys: UnknownKeys = unknown_keys
        self.updates = self._update_reader(self.channels, closed=graph.schema.closed, check=validate == "all")
        self._readers: dict[int, Reader] = {}
        self._targets_by_name = {name: name for name in self.targets}
        self.nodes = {name: self._node(node) for name, node in graph.nodes.items()}
        self.nodes.update(self._handlers())
        self.start = self._start()
        self.nodes[START] = self.start
        self.output_keys = self._output_keys()
        self.derived = graph.output_schema.derived
        """Fields of results that are computed when they are read."""
        self.reported = (
            frozenset(name for name, channel in self.merging.items() if not isinstance(channel, AnyValue))
            .difference(self.hidden)
            .intersection(self.output_keys or self.channels)
        )
        """Visible fields with a reducer: a caller that merges them as well needs their updates."""
        starts = ((name, _start_factory(field)) for name, field in graph.fields.items())
        self._start_factories = [(name, start) for name, start in starts if start is not None]
        """The fields with a value before the first update, each with the factory of that value."""

    @cached_property
    def stored_types(self) -> frozenset[type]:
        """The classes whose values may be saved: those of the state, of `saved_types`, and of subgraphs as nodes."""
        schemas = (self.graph.schema, self.graph.input_schema, *self.graph.node_schemas.values())
        subgraphs = [cast(Any, node.action).program for node in self.graph.nodes.values() if node.is_subgraph]
        nested = (program.stored_types for program in subgraphs if isinstance(program, Program))
        return stored_types(schemas, self.graph.saved_types).union(*nested)

    def current_name(self, name: str) -> str:
        """Return the current name of a node, given that name or a former one."""
        return self._current_names.get(name, name)

    def start_values(self) -> dict[str, Any]:
        """Return the state before the first update: the defaults of fields, and the initial values of reducers."""
        # Copied, because a factory may return the same object each time.
        values = {name: copy_container(start()) for name, start in self._start_factories}
        return {name: value for name, value in values.items() if value is not MISSING} if values else values

    def output(self, values: Mapping[str, Any], *, typed: bool = False, plain: bool = False) -> Any:
        """Return the part of the state that a caller sees, with copies of its containers.

        It is an instance of the output schema if `typed`, or with `compile(validate="all")`; always a dict if `plain`.
        """
        keys = self.output_keys
        if keys is None:
            visible = {k: v for k, v in values.items() if k not in self.hidden} if self.hidden else values
            result = copy_fields(visible)
        elif keys == (ROOT,):
            return copy_container(values.get(ROOT))
        else:
            result = copy_in_place(
                {key: values[key] for key in keys if key in values},
                keys if self.containers is None else self.containers,
            )
        if self.derived:
            result.update((name, field.compute(values)) for name, field in self.derived.items())
        return self._typed_output(result) if (typed or self.validate == "all") and not plain else result

    def is_visible(self, name: str) -> bool:
        """Return whether results contain a field of the state."""
        return name not in self.hidden and (self.output_keys is None or name in self.output_keys)

    def visible_writes(self, result: TaskResult) -> Any:
        """Return the writes of a result for a stream of updates: a list of dicts if a field was written twice."""
        writes = result.writes
        if isinstance(writes, dict):
            return {name: readable(value) for name, value in writes.items()} or None
        return [{name: readable(value)} for name, value in writes] or None

    def _typed_output(self, result: dict[str, Any]) -> Any:
        """Return a result as an instance of the output schema, if that is a class that can be instantiated."""
        schema = self.graph.output_schema
        if schema.kind.name not in ("DATACLASS", "PYDANTIC"):
            return result
        if any(field.start is None and name not in result for name, field in schema.fields.items()):
            return result  # the run stopped before all fields without a default were written
        return schema.instance(result)

    def _output_keys(self) -> tuple[str, ...] | None:
        """Return the keys of results; None for all keys of an open state."""
        schema = self.graph.output_schema
        if not schema.closed:
            return None
        return tuple(name for name in schema.fields if name not in self.hidden)

    def _update_reader(self, channels: Mapping[str, Channel], *, closed: bool, check: bool) -> UpdateReader:
        return UpdateReader(
            channels,
            closed=closed,
            unknown_keys=self.unknown_keys,
            bare_messages=self.graph.bare_messages,
            check=self._checks.check if check else None,
        )

    def _node(self, node: Node) -> NodeProgram:
        parameters = _parameters(node.action)
        schema = self.graph.node_schemas.get(node.name, self.graph.schema)
        read = self._reader(schema) if node.reads is None else restrict_reader(self._reader(schema), node.reads)
        program = NodeProgram(node.name, node.action, parameters, read, self.updates)
        program.node, program.kept_updates = node, self._kept_updates
        if node.is_subgraph:
            if node.input_schema is None:
                program.read = pass_raw_sends(read)
            program.call, program.acall = subgraph_calls(
                cast(SubgraphLike, node.action),
                node.memory,
                frozenset(self.channels) if self.graph.schema.closed else None,
                frozenset(self.merging),
            )
            program.async_lane = "loop"
        if node.executor is not None:
            self._run_elsewhere(program, node, parameters)
        program.guards = self._limits.of(node)
        if program.guards is not None:
            program.async_lane = program.concurrent_lane = "loop"  # so that no thread is occupied while it waits
        if node.inline:
            program.sync_lane = program.concurrent_lane = "inline"
            program.async_lane = "inline" if program.guards is None else "loop"  # waiting would block the loop
        if node.writes is not None:
            program.writes = frozenset(node.writes)
            program.plain_keys = program.writes if program.plain_keys is not None else None
        if node.destinations is not None:
            program.allowed_targets = frozenset((*node.destinations, *self.graph.successors[node.name], END, STOP))
        if node.error_handler is not None:
            program.handler = node.name + HANDLER_SUFFIX
        self._connect(program, node.name)
        return program

    def _run_elsewhere(self, program: NodeProgram, node: Node, parameters: Parameters) -> None:
        """Make a node call its function in another process. To drivers it is a coroutine function of its input."""
        from statewright.runtime.tasks.remote_node import RemoteNode  # loads the executors

        program.remote = RemoteNode(node, parameters, self._executors[cast(str, node.executor)])
        program.acall = program.remote.acall
        program.takes_state, program.injected, program.state_only = True, None, True
        program.sync_lane = program.concurrent_lane = program.async_lane = "loop"

    def _reader(self, schema: StateSchema) -> Reader:
        """Return the reader of a schema. All its nodes share it, so that a value is validated only once."""
        reader = self._readers.get(id(schema))
        if reader is None:
            reader = self._readers[id(schema)] = reader_for(self.graph, schema, self.validate)
        return reader

    def _connect(self, program: NodeProgram, source: str) -> None:
        """Set the successors of `program`: those of `source` in the graph."""
        program.edge_source = source
        program.successors = tuple(name for name in self.graph.edges.get(source, ()) if name != END)
        program.joins = self.graph.joins_by_start.get(source, ())
        program.routes = tuple(self._route(branch) for branch in self.graph.branches.get(source, ()))
        if len(program.routes) == 1 and not program.successors and not self.managed:
            route = program.routes[0]
            reads_all = route.read is read_mapping or type(route.read) is WholeReader
            if reads_all and route.injected is None and not route.is_coroutine:
                program.single_route = route
        if any(route.is_coroutine for route in program.routes):
            program.routes_await = True
            program.sync_lane = program.async_lane = program.concurrent_lane = "loop"

    def _route(self, branch: Branch) -> Route:
        parameters = _parameters(branch.path)
        schema = self.graph.schema
        hint = parameters.state_hint
        if hint is not None and hint is not schema.source:
            schemas = self.graph.node_schemas.values()
            schema = next((candidate for candidate in schemas if candidate.source is hint), schema)
        return Route(branch, self._reader(schema), parameters, self._targets_by_name)

    def _handlers(self) -> dict[str, NodeProgram]:
        """Return the hidden nodes of error handlers. They have the outgoing edges of the nodes they belong to."""
        handlers: dict[str, NodeProgram] = {}
        for node in self.graph.nodes.values():
            if node.error_handler is None:
                continue
            program = self.nodes[node.name]
            handler = NodeProgram(
                cast(str, program.handler),
                node.error_handler,
                _parameters(node.error_handler),
                _read_failed_input,
                self.updates,
            )
            handler.allowed_targets, handler.writes = program.allowed_targets, program.writes
            handler.kept_updates = self._kept_updates
            if node.retry_policy or node.timeout:
                handler.guards = Guards(retries=node.retry_policy, timeout=node.timeout)
                handler.async_lane = handler.concurrent_lane = "loop"
            self._connect(handler, node.name)
            handlers[handler.name] = handler
        return handlers

    def _start(self) -> NodeProgram:
        """Return START as a node that returns the input, so that input is applied like any other result."""
        schema = self.graph.input_schema
        channels = {name: self.channels[name] for name in schema.fields} if schema.closed else self.channels
        updates = self._update_reader(channels, closed=schema.closed, check=self.validate != "off")
        start = NodeProgram(START, _identity, _STATE_PARAMETER, lambda values, arg: arg, updates)
        start.kept_updates = self._kept_updates
        self._connect(start, START)
        return start


def _start_factory(field: Field) -> Callable[[], Any] | None:
    """Return the factory of a field's value before the first update; None if it has no such value."""
    start, channel = field.start, field.channel
    if start is None:
        return None if type(channel).start is Channel.start else channel.start
    if channel.prepares:  # the default must have the form that the channel keeps
        return lambda: channel.apply(MISSING, [channel.prepare(start(), "default")])
    return start


def _read_failed_input(values: Mapping[str, Any], arg: Any) -> Any:
    """Return the input of an error handler: that of the failed node."""
    return copy_argument(arg.input)


def _identity(value: Any) -> Any:
    return value


def _parameters(action: Any) -> Parameters:
    if not callable(action):
        return _STATE_PARAMETER
    try:
        return read_parameters(action)
    except (TypeError, ValueError):  # a builtin without a signature: assumed to take the state
        return _STATE_PARAMETER


def _current_names(graph: Graph) -> Mapping[str, str]:
    """Return the current names of nodes by their former names, except names that another node has now."""
    names = {alias: node.name for node in graph.nodes.values() for alias in node.aliases if alias not in graph.nodes}
    return {**names, **{alias + HANDLER_SUFFIX: name + HANDLER_SUFFIX for alias, name in names.items()}}


def _former_names(current_names: Mapping[str, str]) -> Mapping[str, tuple[str, ...]]:
    names: dict[str, tuple[str, ...]] = {}
    for former, name in current_names.items():
        names[name] = (*names.get(name, ()), former)
    return names


def _subscribers(graph: Graph) -> dict[str, tuple[str, ...]]:
    channels = {channel for node in graph.nodes.values() for channel in node.on}
    return {channel: tuple(node.name for node in graph.nodes.values() if channel in node.on) for channel in channels}


def readable(update: Any) -> Any:
    """Return an update to a field for readers: containers copied, and a batch of messages as a list."""
    return list(update.items) if type(update) is MessageBatch else copy_update(update)


def display_name(task: Task) -> str:
    """Return the node name of a task for users: for an error handler, the name of the node it belongs to."""
    return task.node.removesuffix(HANDLER_SUFFIX)


def is_error_handled(result: TaskResult) -> bool:
    """Return whether the node failed and its error handler runs next."""
    sends = (target for target in result.targets if type(target) is Send)
    return result.goto and any(send.node.endswith(HANDLER_SUFFIX) for send in sends)


def is_hidden(task: Task) -> bool:
    """Return whether a task belongs to a hidden node of an error handler."""
    return task.node.endswith(HANDLER_SUFFIX)
