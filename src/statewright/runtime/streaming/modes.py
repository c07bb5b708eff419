"""Stream modes: views of events, in the shapes that people of this field know.

    values       the state after the input and after each superstep; where a call inside a node goes on, as it stands
    updates      {node: update} when a task ends
    messages     (message or piece of one, where it comes from), as models make them and nodes answer them
    custom       what nodes gave to their stream writer
    tasks        one part when a task starts, one when it ends
    checkpoints  one part for each superstep, as a snapshot
    debug        tasks and checkpoints, wrapped with step and kind

`output_keys` keeps those fields of values and updates; one name as text gives its bare value.

With several modes a part is `(mode, part)`; with `subgraphs=True` the namespace stands before. `version="v2"` gives
`{"type", "ns", "data"}` instead.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any, Final, Literal, cast

from statewright.channels import MessageBatch, copy_container, copy_fields
from statewright.checkpoint import Checkpoint, Interrupt, Task, TaskResult
from statewright.errors import InvalidConfig, suggestion
from statewright.events import Event, EventKind
from statewright.graph import Node
from statewright.ids import task_id
from statewright.langchain_messages import is_langchain_message
from statewright.messages import Message
from statewright.runtime.core.commit import error_text
from statewright.runtime.core.events import warn_hidden_messages
from statewright.runtime.core.fold import pairs_of
from statewright.runtime.core.program import Program, is_handed_over, readable, shown_name
from statewright.runtime.invocation.emitter import Listener, StreamBuffer
from statewright.runtime.invocation.outcome import Failure, Pause
from statewright.runtime.invocation.run import Run

StreamMode = Literal["values", "updates", "messages", "custom", "tasks", "checkpoints", "debug"]
StreamVersion = Literal["v1", "v2"]
MODES: tuple[StreamMode, ...] = ("values", "updates", "messages", "custom", "tasks", "checkpoints", "debug")
INTERRUPT = "__interrupt__"
"""The key under which results and parts carry the open questions."""
NO_STREAM: Final = "nostream"
"""A tag of nodes whose messages the mode `messages` does not show, as in LangGraph."""

OutputKeys = str | Sequence[str] | None
View = Callable[[Program, Event], Any]
"""Returns the part that a mode makes of an event; SKIP for none."""
SKIP: Any = object()


def checked_modes(mode: Any) -> tuple[StreamMode, ...]:
    """The modes asked for. Raises InvalidConfig for one that does not exist."""
    several = isinstance(mode, list | tuple | set | frozenset)
    modes = tuple(cast("list[Any]", mode)) if several else (mode,)
    unknown = [one for one in modes if one not in MODES]
    if unknown or not modes:
        found: Any = unknown[0] if unknown else "nothing"
        raise InvalidConfig(f"Unknown stream_mode {found!r}. " + suggestion(str(found), MODES, noun="Modes"))
    return modes


class StreamView:
    """Turns events into the parts that one reader asked for."""

    def __init__(
        self,
        program: Program,
        modes: Sequence[StreamMode],
        *,
        several: bool,
        subgraphs: bool,
        version: StreamVersion,
        output_keys: OutputKeys = None,
        buffer: StreamBuffer | None = None,
    ) -> None:
        self._program = program
        self._modes = modes
        self._several = several
        self._subgraphs = subgraphs
        self._version: StreamVersion = version
        self._output_keys = output_keys
        # What tasks say, and what ends inside of them, reaches the reader while they run.
        within = "custom" in modes or "messages" in modes or subgraphs or ("updates" in modes and program.calls_tasks)
        beside = not {"updates", "tasks", "debug"}.isdisjoint(modes)
        self.buffer = buffer or StreamBuffer(live=within, prompt=beside)
        self.run: Run | None = None
        """The run that is read; in its namespace a part counts as that of the graph itself."""
        self._muted: dict[tuple[str, str | None], bool] = {}
        self._shows_messages = "messages" not in modes
        """True once a message was shown, or if the reader does not stream messages."""
        self._hidden_node: str | None = None
        """A node whose subgraph produced a message that was not shown."""

    def listeners(self) -> Iterable[tuple[EventKind, Listener]]:
        """Return the listeners for the events that the reader wants, in the order of the modes."""
        for mode in self._modes:
            for kind, view in self._views(mode).items():
                yield kind, self._listener(mode, view)

    def _views(self, mode: StreamMode) -> Mapping[EventKind, View]:
        """Return the functions that make parts for this reader, by kind of event."""
        if mode == "messages":
            return MessagesView().views()
        keys, typed = self._output_keys, self._version == "v2"
        views: dict[EventKind, View] = dict(VIEWS[mode])
        if mode == "values" and (keys is not None or typed):
            chosen = partial(_chosen_values, keys, typed)
            views["input_applied"] = views["call_continued"] = views["superstep_finished"] = chosen
        if mode == "updates" and keys is not None:
            views["task_finished"] = partial(_chosen_update, keys)
        return views

    def _listener(self, mode: StreamMode, view: View) -> Listener:
        def listen(event: Event) -> None:
            namespace = namespace_within(self.run, event.namespace)
            if mode == "messages" and self._is_muted(namespace, event):
                return
            if namespace and not (self._subgraphs or self._is_shown(mode, namespace)):
                if event.kind == "message":
                    self._hidden_node = _node_of(namespace)
                return
            if namespace and event.kind == "call_continued":
                return  # who reads from outside has seen it get there
            part = view(event.program or self._program, event)
            if part is SKIP:
                return
            if mode == "messages":
                self._shows_messages = True
            is_live = event.kind in ("custom", "message")
            for one in part if type(part) is Several else (part,):
                self.buffer.add(self._shaped(mode, namespace, one), may_drop=is_live)

        return listen

    def _is_shown(self, mode: StreamMode, namespace: str) -> bool:
        """True if messages of a subgraph count as messages of its node: `metadata={"transparent": True}`."""
        node = self._program.graph.nodes.get(_node_of(namespace))
        return mode == "messages" and node is not None and bool(node.metadata.get("transparent"))

    def _is_muted(self, namespace: str, event: Event) -> bool:
        """Return whether the node that says something, or one that it works for, has the tag `nostream`."""
        key = (namespace, event.node)
        muted = self._muted.get(key)
        if muted is None:
            nodes = (event.program or self._program).graph.nodes
            muted = _has_tag(nodes.get(event.node or "")) or any(map(_has_tag, self._callers(namespace)))
            self._muted[key] = muted
        return muted

    def _callers(self, namespace: str) -> Iterator[Node]:
        """Yield the nodes of a namespace, from the outermost on, as far as they are known before they run."""
        graph: Any = self._program.graph
        for segment in namespace.split("|") if namespace else ():
            node: Node | None = graph.nodes.get(_node_of(segment))
            if node is None:
                return
            yield node
            if not node.is_subgraph:
                return
            graph = cast(Any, node.action).graph

    def warn_of_hidden(self) -> None:
        """Warn a reader of messages who had none though a model in a subgraph spoke."""
        if self._hidden_node is not None and not self._shows_messages:
            warn_hidden_messages(self._program, self._hidden_node)

    def _shaped(self, mode: StreamMode, namespace: str, part: Any) -> Any:
        path = tuple(namespace.split("|")) if namespace else ()
        if self._version == "v2":
            typed = {"type": mode, "ns": path, "data": part}
            asks = isinstance(part, dict) and INTERRUPT in part
            return {**typed, "interrupts": cast(dict[str, Any], part)[INTERRUPT]} if asks else typed
        if self._subgraphs:
            return (path, mode, part) if self._several else (path, part)
        return (mode, part) if self._several else part


def _node_of(namespace: str) -> str:
    """Return the name of the first node of a namespace."""
    return namespace.partition("|")[0].partition(":")[0]


def _has_tag(node: Node | None) -> bool:
    return node is not None and NO_STREAM in node.tags


def namespace_within(run: Run | None, namespace: str) -> str:
    """A namespace as seen from a run, which may be that of a subgraph itself."""
    own = run.namespace if run is not None else ""
    return namespace[len(own) :].removeprefix("|") if own and namespace.startswith(own) else namespace


def shown_values(program: Program, values: Mapping[str, Any], *, keys: OutputKeys, typed: bool) -> Any:
    """Return the part of the state that a caller sees: all of the output, some fields, or the bare value of one."""
    if keys is None:
        return program.output(values, typed=typed)
    if isinstance(keys, str):
        return copy_container(values.get(keys))
    return copy_fields({key: values[key] for key in keys if key in values})


def _chosen_values(keys: OutputKeys, typed: bool, program: Program, event: Event) -> Any:
    checkpoint: Checkpoint = event.data
    return shown_values(program, checkpoint.values, keys=keys, typed=typed)


def _chosen_update(keys: str | Sequence[str], program: Program, event: Event) -> Any:
    """An update as far as it writes the fields that are asked for; nothing if it writes none of them."""
    part = _update(program, event)
    if part is SKIP:
        return SKIP
    wanted = (keys,) if isinstance(keys, str) else keys
    node = shown_name(event.data.task)
    kept = {key: readable(update) for key, update in pairs_of(event.data) if key in wanted}
    return {**part, node: kept[keys] if isinstance(keys, str) else kept} if kept else SKIP


class Several(list[Any]):
    """Parts that come of one event."""


class MessagesView:
    """Messages as they come: pieces while a model speaks, the whole when nobody has seen pieces of it."""

    def __init__(self) -> None:
        self._seen: set[str] = set()

    def views(self) -> Mapping[EventKind, View]:
        return {"message": self._piece, "task_finished": self._answered}

    def _piece(self, program: Program, event: Event) -> Any:
        if isinstance(event.data, Message) and event.data.id is not None:
            self._seen.add(event.data.id)
        return event.data, _origin(program, event)

    def _answered(self, program: Program, event: Event) -> Any:
        if not isinstance(event.data, TaskResult) or event.node in program.subgraphs:
            return SKIP  # a subgraph's own tasks have told of theirs
        batches = [update for _, update in pairs_of(event.data) if type(update) is MessageBatch]
        messages = [one for batch in batches for one in batch.items if _is_shown(one)]
        fresh = [one for one in messages if one.id not in self._seen]
        self._seen.update(one.id for one in fresh if one.id is not None)
        return Several((one, _origin(program, event)) for one in fresh) if fresh else SKIP


def _is_shown(message: Any) -> bool:
    """Return whether an item of an update is a message, ours or LangChain's, and not the removal of one."""
    return isinstance(message, Message) or (is_langchain_message(message) and message.type != "remove")


def _origin(program: Program, event: Event) -> Mapping[str, Any]:
    """The origin of a message."""
    node = program.graph.nodes.get(event.node or "")
    return {
        "node": event.node,
        "step": event.step,
        "run_id": event.run_id,
        "thread_id": event.thread_id,
        "namespace": event.namespace,
        "tags": list(node.tags) if node is not None else [],
    }


def _values(program: Program, event: Event) -> Any:
    checkpoint: Checkpoint = event.data
    return program.output(checkpoint.values)


def _interrupted(program: Program, event: Event) -> Any:
    return {INTERRUPT: event.data}


def _update(program: Program, event: Event) -> Any:
    if not isinstance(event.data, TaskResult) or is_handed_over(event.data):
        return SKIP  # an error handler answers for its node, and is shown under the node's name
    shown = program.shown(event.data)
    update = {shown_name(event.data.task): shown if shown is not None else None}
    return {**update, "__metadata__": {"cached": True}} if event.attempt == 0 else update


def _called(program: Program, event: Event) -> Any:
    name, value = event.data
    return {name: value}


def _custom(program: Program, event: Event) -> Any:
    return event.data


def _task_started(program: Program, event: Event) -> Any:
    task, state = cast("tuple[Task, Any]", event.data)
    return {"id": task.id, "name": task.node, "input": state}


def _task_finished(program: Program, event: Event) -> Any:
    outcome = event.data
    part: dict[str, Any] = {"id": outcome.task.id, "name": outcome.task.node, "error": None, "interrupts": []}
    if isinstance(outcome, Failure):
        return {**part, "result": None, "error": error_text(outcome.error)}
    if isinstance(outcome, Pause):
        return {**part, "result": None, "interrupts": [interrupt_dict(one) for one in outcome.interrupts]}
    return {**part, "result": {name: readable(update) for name, update in pairs_of(outcome)}}


def _checkpoint(program: Program, event: Event) -> Any:
    checkpoint: Checkpoint = event.data
    return {
        "checkpoint_id": checkpoint.id,
        "step": checkpoint.step,
        "values": program.output(checkpoint.values),
        "next": [task.node for task in checkpoint.frontier],
        "tasks": [{"id": task_id(task.origin, task.position), "name": task.node} for task in checkpoint.frontier],
    }


def _debugged(kind: str, view: View) -> View:
    def debug(program: Program, event: Event) -> Any:
        return {"step": event.step, "type": kind, "payload": view(program, event)}

    return debug


def interrupt_dict(interrupt: Interrupt) -> Mapping[str, Any]:
    shown = {"id": interrupt.id, "value": copy_container(interrupt.value), "kind": interrupt.kind}
    optional = {"event": interrupt.event, "due_at": interrupt.due_at}
    return {**shown, **{name: value for name, value in optional.items() if value is not None}}


VIEWS: Mapping[str, Mapping[EventKind, View]] = {
    "values": {
        "input_applied": _values,
        "call_continued": _values,
        "superstep_finished": _values,
        "interrupted": _interrupted,
    },
    "updates": {"task_finished": _update, "call_finished": _called, "interrupted": _interrupted},
    "custom": {"custom": _custom},
    "tasks": {"task_started": _task_started, "task_finished": _task_finished},
    "checkpoints": {"input_applied": _checkpoint, "call_continued": _checkpoint, "superstep_finished": _checkpoint},
    "debug": {
        "task_started": _debugged("task", _task_started),
        "task_finished": _debugged("task_result", _task_finished),
        "input_applied": _debugged("checkpoint", _checkpoint),
        "call_continued": _debugged("checkpoint", _checkpoint),
        "superstep_finished": _debugged("checkpoint", _checkpoint),
    },
}
