"""Compiled graphs in the form that runs use: a superstep needs little more than dictionary lookups.

A `Program` has everything about a graph that does not depend on a run: how each node reads its input, which services it
requests, which nodes follow it, which channels merge updates, and which are transient. A run never changes it, so
threads and event loops may share it.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from functools import cached_property
from typing import Any, ClassVar, Final, Literal, Protocol, cast

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
    item_form,
    read_parameters,
)
from statewright.runtime.core.subgraph import subgraph_calls
from statewright.runtime.tasks.inputs import (
    Reader,
    WholeReader,
    container_fields,
    pass_items,
    pass_raw_sends,
    read_mapping,
    reader_for,
    restrict_reader,
)
from statewright.runtime.tasks.policies import NodePolicies, PolicyFactory
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

Validate = Literal["input", "all", "off"]
Lane = Literal["loop", "thread", "inline"]
"""The place of execution of a node: an event loop, a worker thread, or the thread of the driver."""

HANDLER_SUFFIX: Final = ":error_handler"
"""The hidden node of an error handler has the name of its node with this suffix. Users' node names contain no colon."""
_STATE_PARAMETER: Final = Parameters(True, None, (), (), None, frozenset())
"""The parameters of a function that takes the state and nothing else."""


class Route:
    """A conditional edge of a `Program`."""

    __slots__ = ("branch", "injected", "is_coroutine", "path", "read", "targets", "targets_by_choice")

    def __init__(
        self, branch: Branch, read: Reader, parameters: Parameters, targets_by_name: Mapping[str, str]
    ) -> None:
        self.branch = branch
        self.path = branch.path
        self.targets = branch.targets
        self.targets_by_choice: Mapping[Any, str] = targets_by_name if branch.targets is None else branch.targets
        """By value that the path function may return: the target."""
        self.read = read
        self.injected = parameters.injected or None
        """Pairs (parameter of the path function, name of the service that it receives); None if there are none."""
        self.is_coroutine = is_coroutine_function(branch.path)


class RemoteCalls(Protocol):
    """The calls of a node in other processes; see `remote_node`, which knows runs and is therefore not known here."""

    def acall(self, state: Any) -> Awaitable[Any]:
        """Call the node in another process."""
        ...


class NodeProgram:
    """A node of a `Program`."""

    __slots__ = (
        "acall",
        "allowed_targets",
        "async_lane",
        "call",
        "concurrent_lane",
        "containers",
        "edge_source",
        "handler",
        "has_async_routes",
        "injected",
        "joins",
        "kept_updates",
        "name",
        "node",
        "plain_keys",
        "policies",
        "read",
        "reads_all",
        "remote",
        "routes",
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
        """The node of the graph; None for START and for error handlers."""
        self.edge_source = name
        """The node of the graph whose outgoing edges it has. For an error handler this is the node that it handles."""
        sync_form = getattr(action, "sync", None)  # an action may have a function for each driver, like ToolNode
        self.call: Any = sync_form or action
        self.acall: Any = action if is_coroutine_function(action) else None
        """Calls the node, and returns an awaitable; None for a plain function."""
        self.read = read
        """Reads the input of the node from the state, or from the argument of a Send."""
        self.reads_all = type(read) is WholeReader
        """True if the input is a dict of the whole state, and the state has a fixed set of fields."""
        self.containers: tuple[str, ...] = read.containers if type(read) is WholeReader else ()
        """If so, the fields that may hold a list, dict or set, which is copied for the node."""
        self.kept_updates: frozenset[str] = frozenset()
        """The fields whose channels may keep the very list, dict or set that a node has returned, if it is not
        copied."""
        self.updates = updates
        """Reads the updates that the node returns."""
        self.plain_keys = updates.plain_keys
        """The fields whose updates can be used as they are; None if every result must be read by `updates`."""
        self.takes_state = parameters.takes_state
        """True if the node has a parameter for its input."""
        self.injected = parameters.injected or None
        """Pairs (parameter, name of the service that it receives); None if there are none."""
        self.state_only = self.takes_state and self.injected is None
        """True if the node is called with its input and nothing else."""
        self.sync_lane: Lane = "thread" if self.acall is None or sync_form is not None else "loop"
        """The lane of the sync driver if the node is the only task of its superstep. "thread" then means the driver's
        own thread, unless a reader wants parts of the stream meanwhile."""
        self.concurrent_lane: Lane = self.sync_lane
        """The lane of the sync driver if several tasks run concurrently."""
        self.async_lane: Lane = "thread" if self.acall is None else "loop"
        """The lane of the driver on an event loop."""
        self.remote: RemoteCalls | None = None
        """Its calls in other processes, if it has an executor."""
        self.policies: NodePolicies | None = None
        """The policies of the node; None if it has none."""
        self.successors: tuple[str, ...] = ()
        """The targets of the plain edges."""
        self.joins: tuple[JoinEdge, ...] = ()
        """The join edges of which the node is a source."""
        self.routes: tuple[Route, ...] = ()
        """The conditional edges."""
        self.single_route: Route | None = None
        """The conditional edge, if there is no other outgoing edge, and its path function is a plain function that
        reads the whole state."""
        self.has_async_routes = False
        """True if the path function of a conditional edge is a coroutine function."""
        self.writes: frozenset[str] | None = None
        """The only fields that the node may write, if it was declared with `writes=`; None if it may write any."""
        self.allowed_targets: frozenset[str] | None = None
        """The only targets of Commands and Sends, if the node was declared with `destinations=`; None if any node may
        be a target."""
        self.handler: str | None = None
        """The name of the hidden node that handles errors; None if there is no error handler."""

    def joins_reached_by_goto(self, target: str) -> tuple[JoinEdge, ...]:
        """Return the join edges at which the node arrives if it goes to `target` by a Command."""
        if target in self.successors:
            return ()
        return tuple(join for join in self.joins if join.end == target)


class Program:
    """A compiled graph in the form that runs use."""

    calls_tasks: ClassVar[bool] = False
    """True for an entrypoint: its only node calls `@task` functions, whose results are streamed."""
    passes_state_on: ClassVar[bool] = True
    """True if a result consists of the fields of the state, so that fields which equal the input were not changed."""
    begins_with_state: ClassVar[bool] = True
    """True if an input has values for fields of the state; False if it is stored as one value in a separate field."""

    def __init__(
        self,
        graph: Graph,
        *,
        unknown_keys: UnknownKeys = "warn",
        validate: Validate = "input",
        debug: bool = False,
        connect_remote: Callable[[Node, Parameters], RemoteCalls] | None = None,
    ) -> None:
        """`connect_remote` returns the calls of a node that has an executor. It is required if any node has one."""
        self.graph = graph
        self._connect_remote = connect_remote
        self.has_remote = any(node.executor is not None for node in graph.nodes.values())
        """True if a node runs in other processes."""
        self._policy_factory = PolicyFactory(graph)
        self.debug = debug
        self.node_order = graph.order
        """By node: its position in the order of declaration."""
        self.channels: Mapping[str, Channel] = graph.channels
        self.merging_channels = {
            name: channel for name, channel in self.channels.items() if type(channel) is not LastValue
        }
        """The channels whose new value is not just the last update, but made from the old value and the updates."""
        self.containers = container_fields(graph)
        """The fields that may hold a list, dict or set; None if any key may, because the state is open."""
        self._kept_updates = frozenset(name for name in self.containers or () if self.channels[name].keeps_update)
        self.transient_channels = tuple(name for name, channel in self.channels.items() if channel.transient)
        """The channels whose values are dropped after the superstep that follows their last update."""
        self.step_only_channels = frozenset(
            name
            for name, channel in self.channels.items()
            if isinstance(channel, Ephemeral) and channel.lifetime == "step"
        )
        """The transient channels whose values are dropped at the end of the same superstep: only conditional edges see
        them."""
        self.untracked_channels = frozenset(name for name, channel in self.channels.items() if not channel.saved)
        """The channels whose values are never saved."""
        self.hidden_fields = frozenset(name for name, channel in self.channels.items() if channel.hidden)
        """The fields that results do not contain."""
        self.managed_fields = {
            name: managed
            for schema in (graph.schema, *graph.node_schemas.values())
            for name, managed in schema.managed.items()
        }
        """The fields that are computed for each superstep, such as `RemainingSteps`."""
        self.subscribers = _subscribers(graph)
        """By channel: the nodes that become due when the channel is written."""
        self.deferring_nodes = frozenset(node.name for node in graph.nodes.values() if node.join != "any")
        """The nodes whose tasks may have to wait: see `frontier`."""
        self.uncounted_nodes = frozenset(node.name for node in graph.nodes.values() if node.metadata.get("hidden"))
        """Nodes that the library has added. If a superstep runs only these, the recursion limit does not stop it."""
        self.subgraphs = frozenset(node.name for node in graph.nodes.values() if node.is_subgraph)
        """The nodes that are graphs."""
        self.targets = frozenset((*graph.nodes, END, STOP))
        """The allowed targets of a node that declares none."""
        self.allows_fast_path = not (
            debug or self.managed_fields or any(node.error_handler for node in graph.nodes.values())
        )
        """False if tasks need more than to read the input, call the node and read its answer."""
        self.join_keys = frozenset(join.key for join in graph.joins)
        """The keys of all join edges, as checkpoints contain them."""
        self._current_names = _current_names(graph)
        self.former_names = _former_names(self._current_names)
        """By current name: the former names of a renamed node, which older checkpoints may contain."""
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
        self.derived_fields = graph.output_schema.derived
        """By name: the fields of results that are computed when a result is made."""
        self.reported_fields = (
            frozenset(name for name, channel in self.merging_channels.items() if not isinstance(channel, AnyValue))
            .difference(self.hidden_fields)
            .intersection(self.output_keys or self.channels)
        )
        """The fields of results that have a reducer. A caller that has reducers for them too needs their updates."""
        starts = ((name, _start_factory(field)) for name, field in graph.fields.items())
        self._start_factories = [(name, start) for name, start in starts if start is not None]
        """Pairs of a field that has a value before the first update, and the factory of that value."""

    @cached_property
    def stored_types(self) -> frozenset[type]:
        """The classes whose instances may be saved: types of fields and `saved_types`, of subgraphs too."""
        schemas = (self.graph.schema, self.graph.input_schema, *self.graph.node_schemas.values())
        subgraphs = [cast(Any, node.action).program for node in self.graph.nodes.values() if node.is_subgraph]
        nested = (program.stored_types for program in subgraphs if isinstance(program, Program))
        return stored_types(schemas, self.graph.saved_types).union(*nested)

    def current_name(self, name: str) -> str:
        """Return the current name of a node. `name` is that name, or a former one."""
        return self._current_names.get(name, name)

    def start_values(self) -> dict[str, Any]:
        """Return the state before the first update: the defaults of fields, and the initial values of reducers."""
        # Copied, because a factory may return the same object each time.
        values = {name: copy_container(start()) for name, start in self._start_factories}
        return {name: value for name, value in values.items() if value is not MISSING} if values else values

    def output(self, values: Mapping[str, Any], *, typed: bool = False, plain: bool = False) -> Any:
        """Return the result of a run with this state: the fields that a caller sees, with copies of lists and dicts.

        The result is an instance of the output schema if `typed`, or with `compile(validate="all")`. If `plain`, it is
        always a dict.
        """
        keys = self.output_keys
        if keys is None:
            visible = {k: v for k, v in values.items() if k not in self.hidden_fields} if self.hidden_fields else values
            result = copy_fields(visible)
        elif keys == (ROOT,):
            return copy_container(values.get(ROOT))
        else:
            result = copy_in_place(
                {key: values[key] for key in keys if key in values},
                keys if self.containers is None else self.containers,
            )
        if self.derived_fields:
            result.update((name, field.compute(values)) for name, field in self.derived_fields.items())
        return self._typed_output(result) if (typed or self.validate == "all") and not plain else result

    def is_visible(self, name: str) -> bool:
        """Return whether results contain the field `name`."""
        return name not in self.hidden_fields and (self.output_keys is None or name in self.output_keys)

    def visible_writes(self, result: TaskResult) -> Any:
        """Return the writes of a task for the stream mode `updates`: a dict, or a list of dicts with one write each."""
        writes = result.writes
        if isinstance(writes, dict):
            return {name: readable(value) for name, value in writes.items()} or None
        return [{name: readable(value)} for name, value in writes] or None

    def _typed_output(self, result: dict[str, Any]) -> Any:
        """Return a result as an instance of the output schema, if that is a dataclass or a pydantic model."""
        schema = self.graph.output_schema
        if schema.kind.name not in ("DATACLASS", "PYDANTIC"):
            return result
        if any(field.start is None and name not in result for name, field in schema.fields.items()):
            return result  # the run has stopped before all fields without a default were written
        return schema.instance(result)

    def _output_keys(self) -> tuple[str, ...] | None:
        """Return the keys of results; None if results have all keys of an open state."""
        schema = self.graph.output_schema
        if not schema.closed:
            return None
        return tuple(name for name in schema.fields if name not in self.hidden_fields)

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
                frozenset(self.merging_channels),
            )
            program.async_lane = "loop"
        if item_form(node.action) is not None:
            program.read = pass_items(read)
        if node.executor is not None:
            self._run_remotely(program, node, parameters)
        program.policies = self._policy_factory.policies_of(node)
        if program.policies is not None:
            program.async_lane = program.concurrent_lane = "loop"  # so that no thread is occupied by a task that waits
        if node.inline:
            program.sync_lane = program.concurrent_lane = "inline"
            # A task with policies may have to wait, which would block the driver's loop.
            program.async_lane = "inline" if program.policies is None else "loop"
        if node.writes is not None:
            program.writes = frozenset(node.writes)
            program.plain_keys = program.writes if program.plain_keys is not None else None
        if node.destinations is not None:
            program.allowed_targets = frozenset((*node.destinations, *self.graph.successors[node.name], END, STOP))
        if node.error_handler is not None:
            program.handler = node.name + HANDLER_SUFFIX
        self._connect(program, node.name)
        return program

    def _run_remotely(self, program: NodeProgram, node: Node, parameters: Parameters) -> None:
        """Make a node call its function in another process. To drivers it is a coroutine function of its input."""
        assert self._connect_remote is not None
        program.remote = self._connect_remote(node, parameters)
        program.acall = program.remote.acall
        program.takes_state, program.injected, program.state_only = True, None, True
        program.sync_lane = program.concurrent_lane = program.async_lane = "loop"

    def _reader(self, schema: StateSchema) -> Reader:
        """Return the reader of a schema. All nodes with the schema share it, so that values are validated only once."""
        reader = self._readers.get(id(schema))
        if reader is None:
            reader = self._readers[id(schema)] = reader_for(self.graph, schema, self.validate)
        return reader

    def _connect(self, program: NodeProgram, source: str) -> None:
        """Give `program` the outgoing edges that the node `source` has in the graph."""
        program.edge_source = source
        program.successors = tuple(name for name in self.graph.edges.get(source, ()) if name != END)
        program.joins = self.graph.joins_by_start.get(source, ())
        program.routes = tuple(self._route(branch) for branch in self.graph.branches.get(source, ()))
        if len(program.routes) == 1 and not program.successors and not self.managed_fields:
            route = program.routes[0]
            reads_all = route.read is read_mapping or type(route.read) is WholeReader
            if reads_all and route.injected is None and not route.is_coroutine:
                program.single_route = route
        if any(route.is_coroutine for route in program.routes):
            program.has_async_routes = True
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
        """Return the hidden nodes of error handlers. Each has the outgoing edges of the node that it handles."""
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
                handler.policies = NodePolicies(retries=node.retry_policy, timeout=node.timeout)
                handler.async_lane = handler.concurrent_lane = "loop"
            self._connect(handler, node.name)
            handlers[handler.name] = handler
        return handlers

    def _start(self) -> NodeProgram:
        """Return START as a node that returns the input of the run, so that input is applied like any other result."""
        schema = self.graph.input_schema
        channels = {name: self.channels[name] for name in schema.fields} if schema.closed else self.channels
        updates = self._update_reader(channels, closed=schema.closed, check=self.validate != "off")
        start = NodeProgram(START, _identity, _STATE_PARAMETER, lambda values, arg: arg, updates)
        start.kept_updates = self._kept_updates
        self._connect(start, START)
        return start


def _start_factory(field: Field) -> Callable[[], Any] | None:
    """Return the factory of the value that a field has before the first update; None if it has no such value."""
    start, channel = field.start, field.channel
    if start is None:
        return None if type(channel).start is Channel.start else channel.start
    if channel.prepares:  # the default must have the form that the channel keeps
        return lambda: channel.apply(MISSING, [channel.prepare(start(), "default")])
    return start


def _read_failed_input(values: Mapping[str, Any], arg: Any) -> Any:
    """Return the input of an error handler, which is the input of the failed node."""
    return copy_argument(arg.input)


def _identity(value: Any) -> Any:
    return value


def _parameters(action: Any) -> Parameters:
    if not callable(action):
        return _STATE_PARAMETER
    try:
        return read_parameters(action)
    except (TypeError, ValueError):  # a built-in function without a signature, which we assume to take the state
        return _STATE_PARAMETER


def _current_names(graph: Graph) -> Mapping[str, str]:
    """Return the current names of nodes by their former names, without names that another node has now."""
    names = {alias: node.name for node in graph.nodes.values() for alias in node.aliases if alias not in graph.nodes}
    return {**names, **{alias + HANDLER_SUFFIX: name + HANDLER_SUFFIX for alias, name in names.items()}}


def _former_names(current_names: Mapping[str, str]) -> Mapping[str, tuple[str, ...]]:
    """Return the former names of nodes by their current names."""
    names: dict[str, tuple[str, ...]] = {}
    for former, name in current_names.items():
        names[name] = (*names.get(name, ()), former)
    return names


def _subscribers(graph: Graph) -> dict[str, tuple[str, ...]]:
    """Return the nodes that become due when a channel is written (`on=`), by channel."""
    channels = {channel for node in graph.nodes.values() for channel in node.on}
    return {channel: tuple(node.name for node in graph.nodes.values() if channel in node.on) for channel in channels}


def readable(update: Any) -> Any:
    """Return an update for readers: a list of messages instead of a MessageBatch, otherwise a copy."""
    return list(update.items) if type(update) is MessageBatch else copy_update(update)


def display_name(task: Task) -> str:
    """Return the name of a task's node for users: for an error handler, the name of the node that it handles."""
    return task.node.removesuffix(HANDLER_SUFFIX)


def is_error_handled(result: TaskResult) -> bool:
    """Return whether the node has failed, and its error handler will run next."""
    sends = (target for target in result.targets if type(target) is Send)
    return result.goto and any(send.node.endswith(HANDLER_SUFFIX) for send in sends)


def is_hidden(task: Task) -> bool:
    """Return whether the node of a task is the hidden node of an error handler."""
    return task.node.endswith(HANDLER_SUFFIX)
