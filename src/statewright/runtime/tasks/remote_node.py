"""Nodes that run in other processes: the data sent to a worker, and the handling of its reply.

To the rest of the runtime such a node looks like a coroutine function: retries, timeouts, caches, limits and error
handlers work around the call, in the process of the run. Only the call itself happens elsewhere. `node_call.NodeCall`
is the part that is pickled; everything here stays with the run.

Data is sent to a worker as rarely as possible. The function of a node that asks for no services is sent once in the
life of the program. With services, it is sent with the data of its superstep once per superstep (`Shipment`), and so
are the fields of the state, each when a worker first looks at it.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any, Final, cast

from statewright.channels import CONTAINERS
from statewright.checkpoint import NO_ARG, Checkpoint
from statewright.clock import uses_system_timers
from statewright.executors.chunks import ChunkSizes
from statewright.executors.dispatcher import ItemResult
from statewright.executors.loop_calls import LoopCalls
from statewright.executors.port import Executor, SharedValue, pickling_error
from statewright.graph import ItemForm, Node, NodeError, Parameters, is_coroutine_function, item_form
from statewright.runtime.invocation.run import Run
from statewright.runtime.tasks.context import RuntimeHost
from statewright.runtime.tasks.liveness import innermost_superstep, reason_to_refuse
from statewright.runtime.tasks.node_call import NodeCall, Parts
from statewright.runtime.tasks.scope import Scope, current_scope
from statewright.runtime.tasks.worker_host import Effect, SuperstepData

_lock = threading.Lock()
_SMALL: Final = (int, float, bool, type(None))
"""Types of values that are cheaper to repeat than to refer to."""


class RemoteNode:
    """A node that runs in other processes, as its run sees it."""

    __slots__ = (
        "_function",
        "_send",
        "executor",
        "function",
        "injected",
        "name",
        "parameters",
        "resources",
        "sizes",
    )

    def __init__(self, node: Node, parameters: Parameters, executor: Executor) -> None:
        self.name = node.name
        self.function, self._send = item_form(node.action) or ItemForm(cast(Any, node.action), None)
        """Makes the value of a call the answer of the node; None if it is."""
        self.parameters = parameters
        self.injected = parameters.injected
        self.executor = executor
        self.resources = node.resources
        self.sizes = ChunkSizes()
        """The measured cost of its calls, over all runs."""
        self._function: SharedValue | None = None

    def function_for(self, run: Run, shipment: Shipment) -> SharedValue:
        """Return the pickled `NodeCall` as a shared value. Raises RemoteCallError if it cannot be pickled."""
        if not self.injected:
            if self._function is None:
                self._function = self._share(None)
            return self._function
        if self.name not in shipment.functions:
            shipment.functions[self.name] = self._share(shipment.data_for(run, self))
        return shipment.functions[self.name]

    def _share(self, data: SuperstepData | None) -> SharedValue:
        call = NodeCall(
            self.name,
            self.function,
            self.injected,
            data,
            takes_state=self.parameters.takes_state,
            is_coroutine=is_coroutine_function(self.function),
        )
        try:
            return self.executor.share(self.executor.dumps_function(call))
        except Exception as error:
            what = f"Node {self.name!r}, with its function and the services that it takes,"
            raise pickling_error(what, error) from error

    def item_for(self, scope: Scope, state: Any, shipment: Shipment) -> Any:
        """Return what is sent for one call: the argument of `NodeCall`."""
        task = scope.task
        fields: dict[str, SharedValue] | None = None
        if not self.parameters.takes_state:
            state = None
        elif task is not None and task.arg is NO_ARG and type(state) is dict and scope.sibling_group is not None:
            # Several tasks of this superstep may read the state: its fields are sent once for all of them.
            fields = shipment.refer_to(scope.run, cast("dict[str, Any]", state))
            state = {name: None if name in fields else value for name, value in cast("dict[str, Any]", state).items()}
        if not self.injected:
            return cast(Any, state) if fields is None else Parts(state, fields, None)
        info = RuntimeHost(scope).execution_info if any(kind == "runtime" for _, kind in self.injected) else None
        error = task.arg if task is not None and isinstance(task.arg, NodeError) else None
        return Parts(state, fields, (info, error))

    async def acall(self, state: Any) -> Any:
        """Call the node in a worker: the `acall` of its NodeProgram."""
        scope = cast(Scope, current_scope())
        loop = asyncio.get_running_loop()
        shipment, attempt = shipment_for(scope, self.executor), scope.attempt
        result = await shipment.calls_of(scope.run, self, loop).call(
            self.item_for(scope, state, shipment),
            on_begin=attempt.on_begin if attempt is not None else None,
            may_finish=partial(_may_finish, scope),
        )
        return self.settle_result(scope, result)

    def settle_result(self, scope: Scope, result: ItemResult) -> Any:
        """Perform the effects of a call, and return the answer of the node. Raises the error that it has raised."""
        value, error, effects = result
        if effects:
            perform_effects(scope, effects)
        if error is not None:
            raise error
        return value if self._send is None else self._send(value)


def perform_effects(scope: Scope, effects: Sequence[Effect]) -> None:
    """Perform the side effects that a node had in its worker, in the same order: see `Effect`."""
    host = RuntimeHost(scope)
    for kind, *args in effects:
        if kind == "custom":
            host.stream_writer(args[0])
        elif kind == "message":
            host.push_message(args[0])
        elif kind == "spend":
            host.spend(args[0], args[1])
        else:
            host.record(args[0], args[1])


class Shipment:
    """Data that is sent to the workers of an executor once for all nodes of a superstep.

    The run refers to it, so it does not refer to the run: as a cycle, the tasks of the superstep would stay in memory.
    """

    __slots__ = ("_calls", "_checkpoint", "_executor", "_fields", "functions")

    def __init__(self, checkpoint: Checkpoint, executor: Executor) -> None:
        self._checkpoint = checkpoint
        self._executor = executor
        self._fields: dict[str, SharedValue] = {}
        self.functions: dict[str, SharedValue] = {}
        self._calls: dict[tuple[str, asyncio.AbstractEventLoop], LoopCalls] = {}

    def is_for(self, checkpoint: Checkpoint) -> bool:
        return self._checkpoint is checkpoint

    def field(self, name: str) -> SharedValue:
        """Return a field of the state as a shared value."""
        with _lock:  # the nodes of a superstep are fed by several threads
            shared = self._fields.get(name)
            if shared is None:
                shared = self._fields[name] = self._executor.share(self._checkpoint.values[name])
        return shared

    def refer_to(self, run: Run, state: dict[str, Any]) -> dict[str, SharedValue]:
        """Return the fields of an input that are those of the state, as shared values."""
        values, managed = self._checkpoint.values, run.program.managed_fields
        return {
            name: self.field(name)
            for name, value in state.items()
            if name in values
            and name not in managed
            and type(value) not in _SMALL
            and (value is values[name] or type(value) in CONTAINERS)
        }

    @property
    def shared(self) -> list[SharedValue]:
        """The values shared so far, to be kept while chunks that refer to them are in flight."""
        return _values_of(self._fields, self.functions)

    def data_for(self, run: Run, node: RemoteNode) -> SuperstepData:
        """Return the data of the superstep for one node: the context, config and state only if it can ask for them."""
        kinds = {kind for _, kind in node.injected}
        has_runtime, emitter = "runtime" in kinds, run.emitter
        return SuperstepData(
            context=run.config.context if has_runtime else None,
            config=run.node_config() if "config" in kinds else None,
            state={name: self.field(name) for name in self._checkpoint.values} if has_runtime else {},
            has_listener=emitter is not None,
            shows_messages=emitter is not None and emitter.wants("message"),
            is_recorded=run.saver is not None or emitter is not None,
            remaining_steps=run.step_limit - self._checkpoint.step,
            has_system_clock=uses_system_timers(run.ports.clock),
        )

    def calls_of(self, run: Run, node: RemoteNode, loop: asyncio.AbstractEventLoop) -> LoopCalls:
        """Return the calls of a node that are awaited on an event loop."""
        key = (node.name, loop)
        if key not in self._calls:
            self._calls[key] = LoopCalls(
                node.executor,
                node.function_for(run, self),
                loop,
                name=f"node {node.name!r}",
                resources=node.resources,
                sizes=node.sizes,
                shared=partial(_values_of, self._fields, self.functions),
            )
        return self._calls[key]


def _values_of(*shared: dict[str, SharedValue]) -> list[SharedValue]:
    return [value for values in shared for value in values.copy().values()]


def shipment_for(scope: Scope, executor: Executor) -> Shipment:
    """Return the shipment of the current superstep for an executor."""
    run, checkpoint = scope.run, cast(Checkpoint, scope.checkpoint)
    with _lock:
        shipments: Mapping[Executor, Shipment] = run.shipments or {}
        shipment = shipments.get(executor)
        if shipment is None or not shipment.is_for(checkpoint):
            shipment = Shipment(checkpoint, executor)
            current = {key: value for key, value in shipments.items() if value.is_for(checkpoint)}
            run.shipments = {**current, executor: shipment}
    return shipment


def _may_finish(scope: Scope) -> bool:
    """Return whether a call in progress may finish: its superstep ends only because a sibling has failed.

    Its result is saved then, like that of a plain function, so that its work is not repeated.
    """
    step = innermost_superstep(scope)
    return step is not None and step.ending and not step.closed and reason_to_refuse(scope) is None
