"""The executor for nodes that run in other processes: fan-outs, without a thread or coroutine for each task.

One thread for each node of the superstep reads the inputs of tasks when there is room for another chunk, and concludes
tasks as their chunks return, so that results are saved, streamed and counted while others are still running. A node
with policies is not run here: each of its tasks awaits its attempts on an event loop, and `LoopCalls` joins their calls
to chunks.
"""

from __future__ import annotations

import contextvars
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from queue import SimpleQueue
from typing import cast

from statewright.checkpoint import Task, TaskResult
from statewright.errors import RemoteCallError
from statewright.executors.dispatcher import Dispatcher, ItemResult, RemoteItem
from statewright.runtime.concurrency.superstep import Superstep
from statewright.runtime.concurrency.worker_threads import DEFAULT_THREADS, workers
from statewright.runtime.core.program import Lane, NodeProgram
from statewright.runtime.invocation.limits import Slots
from statewright.runtime.invocation.outcome import Failure, Outcome
from statewright.runtime.invocation.run import Run
from statewright.runtime.tasks.execute import begin_task, conclude_task, settle_error
from statewright.runtime.tasks.remote_node import RemoteNode, shipment_for
from statewright.runtime.tasks.scope import Scope, enter_scope

Lanes = Mapping[Lane, Sequence[int]]


def is_sent_in_chunks(run: Run, node: NodeProgram) -> bool:
    """Return whether the tasks of a node need nothing but to be called in a worker: no attempts, no awaiting."""
    return (
        node.remote is not None
        and node.policies is None
        and not run.all_tasks_need_attempts
        and not node.has_async_routes
    )


def start_in_chunks(step: Superstep, lanes: Lanes) -> Lanes:
    """Start the tasks that can be sent in chunks, and return the lanes of the others."""
    nodes, tasks, candidates = step.nodes, step.tasks, lanes.get("loop", ())
    names = dict.fromkeys(tasks[index].node for index in candidates)
    if len(names) == 1:  # the range of a wide fan-out, of which a list would cost as much memory as the tasks
        indices_by_name: dict[str, Sequence[int]] = dict.fromkeys(names, candidates)
    else:
        indices_by_name = {name: [index for index in candidates if tasks[index].node == name] for name in names}
    others: list[int] = []
    for name, indices in indices_by_name.items():
        if is_sent_in_chunks(step.run, nodes[name]):
            workers.submit(_NodeFeed(step, nodes[name], indices))
        else:
            others += indices
    others.sort()
    remaining: dict[Lane, Sequence[int]] = {lane: indices for lane, indices in lanes.items() if lane != "loop"}
    if others:
        remaining["loop"] = others
    return remaining


class _NodeFeed:
    """Runs the tasks of one node of a superstep. The job of a worker thread, which is the home of its dispatcher.

    Most tasks need no scope and no context of their own here, because no code of the user runs: their argument is sent,
    and the answer becomes a result. They take turns with one scope, and their results are handed over together.
    """

    is_stopping = False  # it has no coroutines to cancel

    def __init__(self, step: Superstep, node: NodeProgram, indices: Sequence[int]) -> None:
        self._step = step
        self._node = node
        self._remote = cast(RemoteNode, node.remote)
        self._indices = iter(indices)
        self._unsent = len(indices)
        self._reports: SimpleQueue[Callable[[], object]] = SimpleQueue()
        self._context = contextvars.copy_context()
        self._scope = Scope(step.run, None, step.checkpoint)
        self._shares_scope = self._scope.fast_path and not node.routes and not self._remote.injected
        self._results: list[tuple[int, TaskResult]] = []
        """The results that have arrived together, with the indices of their tasks."""
        self.threads = Slots(DEFAULT_THREADS)

    def __call__(self) -> None:
        try:
            self._context.run(self._run)
        except BaseException as error:  # without an outcome the superstep would wait forever
            index = next(self._indices, None)
            if index is None:
                index = next(iter(self._step.running_indices.copy()), 0)
            self._step.accept(index, Failure(self._step.tasks[index], error))
        finally:
            self._scope.sibling_group = None  # a cycle: see `Scope.enter_sibling`
            while not self._reports.empty():
                self._reports.get()

    def _run(self) -> None:
        step, remote, scope = self._step, self._remote, self._scope
        scope.sibling_group = self
        enter_scope(scope)  # never left: the context ends with this job
        self._shipment = shipment = shipment_for(scope, remote.executor)
        try:
            function = remote.function_for(step.run, shipment)
        except RemoteCallError as error:
            self._fail_all(error)
            return
        dispatcher = Dispatcher(
            remote.executor,
            function,
            name=f"node {remote.name!r}",
            resources=remote.resources,
            take=self._take,
            unsent=lambda: self._unsent,
            deliver=self._deliver,
            post=self._reports.put,
            shared=lambda: shipment.shared,
            drop=self._drop,
            sizes=remote.sizes,
        )
        with step.on_end(partial(self._reports.put, partial(self._end, dispatcher))):
            try:
                dispatcher.feed()
                self._hand_over_results()
                while dispatcher.has_in_flight and not step.closed:
                    self._reports.get()()
                    self._hand_over_results()
            finally:
                dispatcher.cancel_all()

    def _fail_all(self, error: RemoteCallError) -> None:
        """Give each task the error that its function cannot be sent, as if the function had raised it."""
        while items := self._take(1):
            self._deliver(items[0], (None, error, ()))
        self._hand_over_results()

    def _end(self, dispatcher: Dispatcher) -> None:
        """Send nothing more, since the superstep is ending; what is in flight may finish."""
        if not self._step.closed:
            dispatcher.stop_sending()

    def _take(self, count: int) -> list[RemoteItem]:
        """Begin up to a number of tasks, and return their calls."""
        step, items = self._step, list[RemoteItem]()
        while len(items) < count:
            begun = step.begin_next_of(self._indices, count - len(items))
            if not begun:
                self._unsent = 0
                break
            self._unsent -= len(begun)
            for index in begun:
                if step.ending or step.closed:
                    step.record_stop(index)
                elif type(item := self._begin(index)) is RemoteItem:
                    items.append(item)
                else:
                    step.accept(index, cast(Outcome, item))
        return items

    def _begin(self, index: int) -> RemoteItem | Outcome:
        """Return the call of a task; its outcome if its input cannot be read."""
        task = self._step.tasks[index]
        if self._shares_scope:
            self._scope.task, self._scope.index = task, index
            return self._read(self._scope, task, index)
        context = self._context.copy()
        return context.run(self._begin_in_scope, task, index, context)

    def _begin_in_scope(self, task: Task, index: int, context: contextvars.Context) -> RemoteItem | Outcome:
        scope = self._scope.enter_sibling(self, task, index)
        return self._read(scope, task, (scope, context))

    def _read(self, scope: Scope, task: Task, key: int | tuple[Scope, contextvars.Context]) -> RemoteItem | Outcome:
        try:
            state = begin_task(scope, self._node, task, self._step.checkpoint)
            return RemoteItem(key, self._remote.item_for(scope, state, self._shipment))
        except BaseException as error:
            return settle_error(scope, self._node, task, error)

    def _deliver(self, item: RemoteItem, result: ItemResult) -> None:
        scope: Scope
        if type(item.key) is int:
            scope, index = self._scope, item.key
            scope.task = task = self._step.tasks[index]
            scope.index = index
            outcome = self._conclude(scope, task, result)
        else:
            scope, context = item.key
            index = scope.index
            outcome = context.run(self._conclude, scope, self._step.tasks[index], result)
        if type(outcome) is TaskResult:
            self._results.append((index, outcome))
        else:
            self._hand_over_results()
            self._step.accept(index, outcome)

    def _conclude(self, scope: Scope, task: Task, result: ItemResult) -> Outcome:
        try:
            answer = self._remote.settle_result(scope, result)
            return conclude_task(scope, self._node, task, self._step.checkpoint, answer)
        except BaseException as error:
            return settle_error(scope, self._node, task, error)

    def _hand_over_results(self) -> None:
        if self._results:
            results, self._results = self._results, []
            self._step.accept_results(results)

    def _drop(self, item: RemoteItem) -> None:
        """Record that a task has no outcome: its worker has died while the superstep was ending."""
        self._step.record_stop(item.key if type(item.key) is int else item.key[0].index)

    def report_end(self, scope: Scope, outcome: Outcome) -> None:
        self._step.accept(scope.index, outcome)
