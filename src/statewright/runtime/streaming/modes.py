"""Stream modes: they convert events to parts, which have the same shapes as in LangGraph.

    values       the state after the input and after each superstep; the current state when a subgraph call is resumed
    updates      {node: update} when a task ends
    messages     (message or message chunk, metadata), as models produce them and nodes return them
    custom       the values that nodes pass to their stream writer
    tasks        a part when a task starts, and another when it ends
    checkpoints  a snapshot of each checkpoint
    debug        the parts of `tasks` and `checkpoints`, each in a dict {"step", "type", "payload"}

`output_keys` selects fields in the parts of `values` and `updates`. If it is a single name instead of a list, the part
has the bare value of that field.

If several modes are requested, each part is `(mode, part)`. With `subgraphs=True` the namespace comes first, as a
tuple. With `version="v2"` each part is `{"type": mode, "ns": namespace, "data": part}` instead.
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
from statewright.langchain_forms import is_langchain_message
from statewright.messages import Message
from statewright.runtime.core.commit import error_text
from statewright.runtime.core.events import warn_hidden_messages
from statewright.runtime.core.fold import write_pairs
from statewright.runtime.core.program import Program, display_name, is_error_handled, readable
from statewright.runtime.invocation.emitter import Listener, StreamBuffer
from statewright.runtime.invocation.outcome import Failure, Pause
from statewright.runtime.invocation.run import Run

StreamMode = Literal["values", "updates", "messages", "custom", "tasks", "checkpoints", "debug"]
StreamVersion = Literal["v1", "v2"]
MODES: tuple[StreamMode, ...] = ("values", "updates", "messages", "custom", "tasks", "checkpoints", "debug")
INTERRUPT = "__interrupt__"
"""The key of the open questions in results and parts."""
NO_STREAM: Final = "nostream"
"""The tag of nodes whose messages are omitted from the mode `messages`, as in LangGraph."""

OutputKeys = str | Sequence[str] | None
Converter = Callable[[Program, Event], Any]
"""Converts an event to a part of a mode. Returns SKIP if the event has no part, and a `PartList` for several parts."""
SKIP: Any = object()


def checked_modes(mode: Any) -> tuple[StreamMode, ...]:
    """Return one mode or several as a tuple. Raises InvalidConfig for an unknown mode, and if there is none."""
    is_collection = isinstance(mode, list | tuple | set | frozenset)
    modes = tuple(cast("list[Any]", mode)) if is_collection else (mode,)
    unknown = [name for name in modes if name not in MODES]
    if unknown or not modes:
        name: Any = unknown[0] if unknown else "nothing"
        raise InvalidConfig(f"Unknown stream_mode {name!r}. " + suggestion(str(name), MODES, noun="Modes"))
    return modes


class StreamFormatter:
    """Converts events to the parts that a reader has requested, and adds them to a buffer."""

    def __init__(
        self,
        program: Program,
        modes: Sequence[StreamMode],
        *,
        shows_mode: bool,
        subgraphs: bool,
        version: StreamVersion,
        output_keys: OutputKeys = None,
        buffer: StreamBuffer | None = None,
    ) -> None:
        self._program = program
        self._modes = modes
        self._shows_mode = shows_mode
        """True if each part names its mode, because the reader has requested a list of modes."""
        self._subgraphs = subgraphs
        self._version: StreamVersion = version
        self._output_keys = output_keys
        # Parts that a task or its calls produce must reach the reader while the task is running.
        during_tasks = (
            "custom" in modes or "messages" in modes or subgraphs or ("updates" in modes and program.calls_tasks)
        )
        during_supersteps = not {"updates", "tasks", "debug"}.isdisjoint(modes)
        self.buffer = buffer or StreamBuffer(during_tasks=during_tasks, during_supersteps=during_supersteps)
        self.run: Run | None = None
        """The run whose stream is read. The namespaces in parts are relative to its namespace."""
        self._muted: dict[tuple[str, str | None], bool] = {}
        """By namespace and node: whether its messages are omitted because of the tag NO_STREAM."""
        self._has_sent_message = False
        self._hidden_node: str | None = None
        """A node whose subgraph has produced a message that the reader did not get; None if there is none."""

    def listeners(self) -> Iterable[tuple[EventKind, Listener]]:
        """Yield pairs of a kind of event and a listener, for all requested modes."""
        for mode in self._modes:
            for kind, converter in self._converters(mode).items():
                yield kind, self._listener(mode, converter)

    def _converters(self, mode: StreamMode) -> Mapping[EventKind, Converter]:
        """Return the converters of a mode, by kind of event."""
        if mode == "messages":
            return MessageConverters().converters()
        keys, typed = self._output_keys, self._version == "v2"
        converters: dict[EventKind, Converter] = dict(CONVERTERS[mode])
        if mode == "values" and (keys is not None or typed):
            select = partial(_select_values, keys, typed)
            converters["input_applied"] = converters["call_continued"] = converters["superstep_finished"] = select
        if mode == "updates" and keys is not None:
            converters["task_finished"] = partial(_select_update, keys)
        return converters

    def _listener(self, mode: StreamMode, converter: Converter) -> Listener:
        def listen(event: Event) -> None:
            namespace = relative_namespace(self.run, event.namespace)
            if mode == "messages" and self._is_muted(namespace, event):
                return
            if namespace and not (self._subgraphs or (mode == "messages" and self._is_transparent(namespace))):
                if event.kind == "message":
                    self._hidden_node = _node_of(namespace)
                return
            if namespace and event.kind == "call_continued":
                return  # the reader of the outer graph has got this state already, before the call was interrupted
            part = converter(event.program or self._program, event)
            if part is SKIP:
                return
            if mode == "messages":
                self._has_sent_message = True
            may_drop = event.kind in ("custom", "message")
            for one_part in part if type(part) is PartList else (part,):
                self.buffer.add(self._format(mode, namespace, one_part), may_drop=may_drop)

        return listen

    def _is_transparent(self, namespace: str) -> bool:
        """Return whether a subgraph's messages are shown as those of its node: `metadata={"transparent": True}`."""
        node = self._program.graph.nodes.get(_node_of(namespace))
        return node is not None and bool(node.metadata.get("transparent"))

    def _is_muted(self, namespace: str, event: Event) -> bool:
        """Return whether the node of an event, or a node that calls its graph, has the tag `nostream`."""
        key = (namespace, event.node)
        muted = self._muted.get(key)
        if muted is None:
            nodes = (event.program or self._program).graph.nodes
            muted = _has_nostream(nodes.get(event.node or "")) or any(map(_has_nostream, self._callers(namespace)))
            self._muted[key] = muted
        return muted

    def _callers(self, namespace: str) -> Iterator[Node]:
        """Yield the nodes that a namespace consists of, the outermost first.

        End after a node whose function calls a graph, because the nodes of that graph are not known.
        """
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
        """Warn if the reader has requested messages, but all messages came from subgraphs and were omitted."""
        if self._hidden_node is not None and not self._has_sent_message:
            warn_hidden_messages(self._program, self._hidden_node)

    def _format(self, mode: StreamMode, namespace: str, part: Any) -> Any:
        """Return a part in the shape that the reader has requested. The docstring of this module has the shapes."""
        path = tuple(namespace.split("|")) if namespace else ()
        if self._version == "v2":
            typed = {"type": mode, "ns": path, "data": part}
            has_questions = isinstance(part, dict) and INTERRUPT in part
            return {**typed, "interrupts": cast(dict[str, Any], part)[INTERRUPT]} if has_questions else typed
        if self._subgraphs:
            return (path, mode, part) if self._shows_mode else (path, part)
        return (mode, part) if self._shows_mode else part


def _node_of(namespace: str) -> str:
    """Return the name of the first node of a namespace."""
    return namespace.partition("|")[0].partition(":")[0]


def _has_nostream(node: Node | None) -> bool:
    return node is not None and NO_STREAM in node.tags


def relative_namespace(run: Run | None, namespace: str) -> str:
    """Return a namespace relative to the namespace of a run, which may itself be the run of a subgraph."""
    own = run.namespace if run is not None else ""
    return namespace[len(own) :].removeprefix("|") if own and namespace.startswith(own) else namespace


def shown_values(program: Program, values: Mapping[str, Any], *, keys: OutputKeys, typed: bool) -> Any:
    """Return what a caller sees of the state: the whole output, the fields in a list `keys`, or one bare value.

    With `typed`, the whole output is an instance of the output schema.
    """
    if keys is None:
        return program.output(values, typed=typed)
    if isinstance(keys, str):
        return copy_container(values.get(keys))
    return copy_fields({key: values[key] for key in keys if key in values})


def _select_values(keys: OutputKeys, typed: bool, program: Program, event: Event) -> Any:
    checkpoint: Checkpoint = event.data
    return shown_values(program, checkpoint.values, keys=keys, typed=typed)


def _select_update(keys: str | Sequence[str], program: Program, event: Event) -> Any:
    """Return the writes of a task to the selected fields; SKIP if there are none."""
    part = _update(program, event)
    if part is SKIP:
        return SKIP
    names = (keys,) if isinstance(keys, str) else keys
    node = display_name(event.data.task)
    selected = {key: readable(update) for key, update in write_pairs(event.data) if key in names}
    return {**part, node: selected[keys] if isinstance(keys, str) else selected} if selected else SKIP


class PartList(list[Any]):
    """A list that a converter returns if an event has several parts."""


class MessageConverters:
    """The converters of the mode `messages`: for chunks while a model streams, and for messages that nodes return.

    A message that was streamed in chunks is omitted when a node returns it.
    """

    def __init__(self) -> None:
        self._streamed_ids: set[str] = set()

    def converters(self) -> Mapping[EventKind, Converter]:
        """Return the converters, by kind of event."""
        return {"message": self._chunk, "task_finished": self._new_messages}

    def _chunk(self, program: Program, event: Event) -> Any:
        if isinstance(event.data, Message) and event.data.id is not None:
            self._streamed_ids.add(event.data.id)
        return event.data, _metadata(program, event)

    def _new_messages(self, program: Program, event: Event) -> Any:
        if not isinstance(event.data, TaskResult) or event.node in program.subgraphs:
            return SKIP  # the tasks of the subgraph have emitted events with these messages
        batches = [update for _, update in write_pairs(event.data) if type(update) is MessageBatch]
        messages = [item for batch in batches for item in batch.items if _is_message(item)]
        new = [message for message in messages if message.id not in self._streamed_ids]
        self._streamed_ids.update(message.id for message in new if message.id is not None)
        return PartList((message, _metadata(program, event)) for message in new) if new else SKIP


def _is_message(item: Any) -> bool:
    """Return whether an item of an update is a message of this library or of LangChain, and not a RemoveMessage."""
    return isinstance(item, Message) or (is_langchain_message(item) and item.type != "remove")


def _metadata(program: Program, event: Event) -> Mapping[str, Any]:
    """Return the metadata that accompanies a message."""
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
    if not isinstance(event.data, TaskResult) or is_error_handled(event.data):
        return SKIP  # the task of its error handler is streamed instead, under the name of the node
    update = {display_name(event.data.task): program.visible_writes(event.data)}
    return {**update, "__metadata__": {"cached": True}} if event.attempt == 0 else update


def _call_finished(program: Program, event: Event) -> Any:
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
        return {**part, "result": None, "interrupts": [interrupt_dict(question) for question in outcome.interrupts]}
    return {**part, "result": {name: readable(update) for name, update in write_pairs(outcome)}}


def _checkpoint(program: Program, event: Event) -> Any:
    checkpoint: Checkpoint = event.data
    return {
        "checkpoint_id": checkpoint.id,
        "step": checkpoint.step,
        "values": program.output(checkpoint.values),
        "next": [task.node for task in checkpoint.frontier],
        "tasks": [{"id": task.id, "name": task.node} for task in checkpoint.frontier],
    }


def _debug(type_name: str, converter: Converter) -> Converter:
    """Return a converter for the mode `debug`, which wraps the parts of another converter."""

    def debug(program: Program, event: Event) -> Any:
        return {"step": event.step, "type": type_name, "payload": converter(program, event)}

    return debug


def interrupt_dict(interrupt: Interrupt) -> Mapping[str, Any]:
    """Return an interrupt as plain data, without fields that are None."""
    required = {"id": interrupt.id, "value": copy_container(interrupt.value), "kind": interrupt.kind}
    optional = {"event": interrupt.event, "due_at": interrupt.due_at}
    return {**required, **{name: value for name, value in optional.items() if value is not None}}


CONVERTERS: Mapping[str, Mapping[EventKind, Converter]] = {
    "values": {
        "input_applied": _values,
        "call_continued": _values,
        "superstep_finished": _values,
        "interrupted": _interrupted,
    },
    "updates": {"task_finished": _update, "call_finished": _call_finished, "interrupted": _interrupted},
    "custom": {"custom": _custom},
    "tasks": {"task_started": _task_started, "task_finished": _task_finished},
    "checkpoints": {"input_applied": _checkpoint, "call_continued": _checkpoint, "superstep_finished": _checkpoint},
    "debug": {
        "task_started": _debug("task", _task_started),
        "task_finished": _debug("task_result", _task_finished),
        "input_applied": _debug("checkpoint", _checkpoint),
        "call_continued": _debug("checkpoint", _checkpoint),
        "superstep_finished": _debug("checkpoint", _checkpoint),
    },
}
