"""The file of a recording: what it holds, how it is written, and how its ids come to be the same every time.

A recording is a list of calls. A call holds its supersteps, these hold their tasks, and a task holds the calls of
subgraphs that it made: a tree, as deep as the graphs. The file is one line of text with the number of the format, and
the tree as a `Serde` writes it.

Ids of commits, tasks, interrupts and messages derive from ids that are drawn, so they differ from run to run. In the
file they stand as they would be if call 1 were the run `run-1`, and its commits were counted: `replay` makes the very
same ones, so whatever derives from an id fits. Instants are left out, of timers too.
"""

from __future__ import annotations

import dataclasses
import os
import re
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, cast

from statewright.channels import MISSING, changed
from statewright.checkpoint import (
    NO_ARG,
    Checkpoint,
    DeferredTask,
    Interrupt,
    InterruptKind,
    Joins,
    Pending,
    SavedCheckpoint,
    Task,
)
from statewright.checkpoint.forms import Entry, made_pending, made_task, plain_pending, plain_task
from statewright.errors import NewerFormat, SerdeError, StorageError, StoredError
from statewright.fingerprint import fingerprint
from statewright.graph import Budget, Command
from statewright.ids import InterruptId, digest, short_id, task_id
from statewright.runtime.core.program import Program
from statewright.runtime.lifecycle.snapshot import subgraphs_of
from statewright.runtime.lifecycle.start import TIMED_OUT
from statewright.serde.annotations import made_annotation, plain_annotation
from statewright.serde.codecs import type_name
from statewright.serde.serde import Serde

if TYPE_CHECKING:
    from statewright.runtime import CompiledGraph

FORMAT: Final = 1
"""The format that this version writes. It reads no other: a recording is made again in a moment."""
_HEAD: Final = b"statewright replay "
_PREFIX: Final = "statewright.replay."
"""Before the names of the records, so that none is that of a user's class."""


# -- outcomes


@dataclass(slots=True)
class Landed:
    """The task brought a result."""

    writes: Any
    targets: list[Any]
    goto: bool


@dataclass(slots=True)
class Asked:
    """The task waits for answers."""

    interrupts: list[Interrupt]


@dataclass(slots=True)
class Failed:
    """The task raised."""

    error: BaseException


@dataclass(slots=True)
class ForParent:
    """The task answered a Command for the graph that called its own."""

    command: Command[Any]
    more: list[Command[Any]] = field(default_factory=list["Command[Any]"])
    """Those that it answered besides."""


Recorded = Landed | Asked | Failed | ForParent | None
"""What came of a task; None if it was stopped because another one failed."""


# -- the tree


@dataclass(slots=True)
class RecordedTask:
    """One execution of one node."""

    node: str
    arg: Any
    """The argument of a Send; NO_ARG if the input was read from the state."""
    id: str
    outcome: Recorded = None
    attempts: int = 1
    """How often it was tried; 0 if its result came from a cache."""
    journal: list[list[Any]] = field(default_factory=list[list[Any]])
    """The steps that it had done: who in the task did it (nobody but the node, or a called task), the name, the
    ordinal, what it was given as a fingerprint, and what came of it."""
    calls: list[RecordedRun] = field(default_factory=list["RecordedRun"])
    """The calls of subgraphs that it made."""


@dataclass(slots=True)
class RecordedState:
    """Where a run stood after a superstep."""

    changes: dict[str, Any]
    """What differs from the state before it, field by field, in the form in which checkpoints store it."""
    frontier: list[list[Any]]
    """For each task that was due then its node and argument."""
    held: list[list[Any]]
    """For each task that was held its node, its argument, and whether it was to be gathered."""
    joins: list[list[Any]]
    """For each join edge that some had reached its starts, its end, and who had."""
    fingerprint: str = ""
    """Of the whole state."""


@dataclass(slots=True)
class RecordedStep:
    """A superstep, or fresh input, which has no tasks."""

    number: int
    tasks: list[RecordedTask]
    after: RecordedState | None = None
    """None if it was not completed."""
    is_input: bool = False
    tokens: int = 0
    """What its tasks spent."""
    cost: float = 0.0
    out_of_budget: bool = False
    """Whether it ran the node that the budget names, because something was used up."""


@dataclass(slots=True)
class RecordedRest:
    """How a run came to rest."""

    status: str
    interrupts: list[str]
    node: str | None
    error: list[str] | None
    """The name of the class of the error, and what it said."""
    stopped: list[str] | None = None
    """`cancel` or `drain`, and why, if it was asked to stop."""


@dataclass(slots=True)
class Found:
    """A checkpoint that a run met, and that no recorded run had made."""

    id: str
    step: int
    values: dict[str, Any]
    frontier: list[Any]
    held: list[Any]
    joins: dict[str, list[str]]
    reported: list[Any]
    source: str
    metadata: dict[str, Any]
    pending: list[Any]
    version: str | None


@dataclass(slots=True)
class RecordedRun:
    """One run from its input to rest: a call, or that of a subgraph by a task."""

    number: int
    """Counts the calls of the recording; a subgraph has that of the call that it belongs to."""
    graph: str
    version: str | None
    namespace: str
    given: Any
    thread_id: str | None
    branch: str
    checkpoint_id: str | None
    saves: bool
    saves_at_rest: bool
    recursion_limit: int
    breaks_before: list[str]
    breaks_after: list[str]
    on_unfinished: str | None
    budget: Budget | None
    keeps_calls: bool
    parent_task: str | None = None
    head: str | None = None
    """The checkpoint that it went on from, or would have but for fresh input."""
    found: list[Found] = field(default_factory=list[Found])
    steps: list[RecordedStep] = field(default_factory=list[RecordedStep])
    rest: RecordedRest | None = None
    """None if it was abandoned, as a stream is that nobody reads to its end."""


@dataclass(slots=True)
class Recording:
    """What a file holds."""

    calls: list[RecordedRun]


_RECORDS: Final = {
    "recording": Recording,
    "run": RecordedRun,
    "found": Found,
    "rest": RecordedRest,
    "step": RecordedStep,
    "state": RecordedState,
    "task": RecordedTask,
    "landed": Landed,
    "asked": Asked,
    "failed": Failed,
    "for-parent": ForParent,
    "budget": Budget,
}


# -- types


def replay_serde(app: CompiledGraph, given: Serde | None) -> Serde:
    """A serde that knows the records, and the types that the state of a graph and its subgraphs may hold."""
    serde = given or Serde()
    for name, kind in _RECORDS.items():
        serde.register(kind, name=_PREFIX + name)
    serde.register(object, name=_PREFIX + "timed-out", encode=_plain_time_out, decode=lambda _: TIMED_OUT)
    serde.register(Command, name=_PREFIX + "command", encode=_plain_command, decode=_made_command)
    serde.register(
        Interrupt,
        name=_PREFIX + "interrupt",
        encode=lambda one: _plain_interrupt(one, serde),
        decode=lambda parts: _made_interrupt(parts, serde),
    )
    if given is None:  # in a user's serde sets have a form already
        for kind in (set, frozenset):
            serde.register(kind, name=_PREFIX + kind.__name__, encode=_in_order, decode=kind)
    serde.allow(app.program.stored_types)
    for graph in (app.graph, *(inner.graph for _, inner in subgraphs_of(app.graph, recurse=True))):
        schemas = (graph.schema, graph.input_schema, *graph.node_schemas.values())
        serde.allow(kind for schema in schemas if (kind := _stored_class(schema.source)) is not None)
    return serde


def _stored_class(source: Any) -> type | None:
    """The class of a schema, if its instances may be an input or the argument of a Send."""
    kind = cast("type[Any] | None", source if isinstance(source, type) else None)
    return kind if kind is not None and (dataclasses.is_dataclass(kind) or hasattr(kind, "model_fields")) else None


def _in_order(values: Iterable[Any]) -> list[Any]:
    """The members of a set in an order that does not depend on the process."""
    return sorted(values, key=fingerprint)


def _plain_time_out(value: object) -> None:
    if value is not TIMED_OUT:
        raise ValueError("a bare object() cannot be told from others")


def _plain_command(command: Command[Any]) -> list[Any]:
    answer = [command.resume] if command.resumes else None
    return [command.update, list(command.targets), command.graph, answer]


def _made_command(parts: list[Any]) -> Command[Any]:
    update, goto, graph, answer = parts
    return Command(update=update, goto=goto, graph=graph, resume=answer[0] if answer is not None else ...)


def _plain_interrupt(one: Interrupt, serde: Serde) -> list[Any]:
    return [one.id, one.kind, one.value, one.event, plain_annotation(one.schema, serde.name_of)]


def _made_interrupt(parts: list[Any], serde: Serde) -> Interrupt:
    identity, kind, value, event, schema = parts
    return Interrupt(
        id=InterruptId(identity),
        value=value,
        kind=cast(InterruptKind, kind),
        event=event,
        schema=made_annotation(schema, serde.named),
    )


# -- ids


_ID: Final = re.compile("[0-9a-f]{32}")
_ID_BYTES: Final = re.compile(rb"[0-9a-f]{32}")
_SHORT_ID: Final = re.compile(rb"(?=\xc4[\x10-\xff](.{16}))", re.S)
"""An id of a message, as `short_id` has packed it: bytes, their length, and those of the id."""


class Names:
    """The ids of a recording, by those that were drawn. Both have 32 digits, so bytes can be exchanged in place."""

    def __init__(self) -> None:
        self._known: dict[str, str] = {}
        self._runs: dict[str, str] = {}
        self._asked: Counter[str] = Counter()
        """How many questions each task has asked."""

    def add_run(self, drawn: str, number: int) -> None:
        self._runs[drawn] = run_name(number)

    def add_commit(self, drawn: str, number: int, namespace: str, step: int) -> None:
        self._add(drawn, commit_name(run_name(number), self.text(namespace), step))

    def add_found(self, drawn: str, *where: object) -> None:
        self._add(drawn, digest("found", *where))

    def add_task(self, task: Task) -> None:
        self._add(task.id, task_id(self._origin(task.origin), task.position))

    def add_interrupt(self, drawn: str, task: str) -> None:
        """Take an interrupt as the next one of those of a task, unless it is known: those of subgraphs come up."""
        if drawn not in self._known:
            asker = self.text(task)
            self._add(drawn, digest("question", asker, self._asked[asker]))
            self._asked[asker] += 1

    def _add(self, drawn: str, name: str) -> None:
        if _ID.fullmatch(drawn):
            self._known.setdefault(drawn, name)

    def knows(self, drawn: str) -> bool:
        return drawn in self._known

    def _origin(self, origin: str) -> str:
        run, dot, step = origin.rpartition(".")
        if run in self._runs:
            return f"{self._runs[run]}{dot}{step}"
        return self._runs.get(origin) or self.text(origin)

    def text(self, text: str) -> str:
        """A text with the ids of the recording in it."""
        return _ID.sub(lambda found: self._known.get(found[0], found[0]), text)

    def data(self, stored: bytes) -> bytes:
        """What a serde has written, with the ids of the recording in it."""
        known = {drawn.encode(): name.encode() for drawn, name in self._known.items()}
        replaced = bytearray(_ID_BYTES.sub(lambda found: known.get(found[0], found[0]), stored))
        short = {cast(bytes, short_id(drawn)): cast(bytes, short_id(name)) for drawn, name in self._known.items()}
        for found in _SHORT_ID.finditer(bytes(replaced)):
            name = short.get(found[1])
            if name is not None:
                replaced[found.start(1) : found.end(1)] = name
        return bytes(replaced)


def run_name(number: int) -> str:
    """The id of the run of a call."""
    return f"run-{number}"


def commit_name(run_id: str, namespace: str, step: int) -> str:
    """The id of a commit, where there is a saver."""
    return digest("commit", run_id, namespace, step)


# -- states


class StateReader:
    """The states of a recorded run, one after another, and their fingerprints."""

    def __init__(self) -> None:
        self.values: dict[str, Any] = {}
        self._marks = Marks()

    def go_on(self, changes: Mapping[str, Any]) -> str:
        """Take the changes of a superstep; the fingerprint of the state after it."""
        new = dict(self.values)
        for name, change in changes.items():
            value = changed(new.get(name, MISSING), change)
            if value is MISSING:
                new.pop(name, None)
            else:
                new[name] = value
        self.values = new
        return self._marks.of(new)


class Marks:
    """Fingerprints of states. What is the same object as before, a field or an item of a list, is not looked at again:
    a conversation grows in every superstep."""

    def __init__(self) -> None:
        self._by_field: dict[str, tuple[Any, str]] = {}
        self._by_item: dict[int, tuple[Any, str]] = {}

    def of(self, values: Mapping[str, Any]) -> str:
        """The fingerprint of a state."""
        self._by_field = {name: self._field(name, value) for name, value in values.items()}
        return fingerprint({name: mark for name, (_, mark) in self._by_field.items()})

    def _field(self, name: str, value: Any) -> tuple[Any, str]:
        known = self._by_field.get(name)
        if known is not None and known[0] is value:
            return known
        if type(value) is not list:
            return value, fingerprint(value)
        items = cast("list[Any]", value)
        return items, fingerprint(list(map(self._item, items)))

    def _item(self, item: Any) -> str:
        known = self._by_item.get(id(item))
        if known is None or known[0] is not item:
            known = self._by_item[id(item)] = (item, fingerprint(item))
        return known[1]


def mark_states(run: RecordedRun) -> None:
    """Fill in the fingerprints of a run and of the calls in it."""
    reader = StateReader()
    for step in run.steps:
        for task in step.tasks:
            for call in task.calls:
                mark_states(call)
        if step.after is not None:
            step.after.fingerprint = reader.go_on(step.after.changes)


# -- the file


def write_recording(path: Path, recording: Recording, names: Names, serde: Serde) -> None:
    """Write a file, whole or not at all."""
    named: Recording = serde.decode(names.data(serde.encode(recording, "recording")))
    for call in named.calls:
        mark_states(call)
    written = path.with_name(path.name + ".part")
    written.write_bytes(_HEAD + str(FORMAT).encode() + b"\n" + serde.encode(named, "recording"))
    os.replace(written, path)


def read_recording(path: str | os.PathLike[str], app: CompiledGraph, *, serde: Serde | None = None) -> Recording:
    """What a file holds, for those who want to look at it.

    Raises NewerFormat for a file of a newer version of Statewright; SerdeError for one of an older version, for what
    is no recording, and for values of types that the graph does not name.
    """
    path = Path(path)
    head, _, body = path.read_bytes().partition(b"\n")
    if not head.startswith(_HEAD) or not head.removeprefix(_HEAD).isdigit():
        raise SerdeError(f"{path}", "it is no recording of Statewright. Make one with statewright.testing.record")
    found = int(head.removeprefix(_HEAD))
    if found > FORMAT:
        raise NewerFormat(f"{path}", found, FORMAT)
    if found < FORMAT:
        raise SerdeError(f"{path}", f"it has format {found}, and this version reads {FORMAT}. Record it again")
    return _decoded(path, body, replay_serde(app, serde))


def _decoded(path: Path, body: bytes, serde: Serde) -> Recording:
    try:
        recording = serde.decode(body)
    except SerdeError:
        raise
    except StorageError as error:
        raise SerdeError(f"{path}", "it is cut short, or was changed. Record it again") from error
    if not isinstance(recording, Recording):
        raise SerdeError(f"{path}", "it does not hold a recording. Record it again")
    return recording


# -- what is recorded of checkpoints and errors


def found_checkpoint(saved: SavedCheckpoint, serde: Serde) -> Found:
    """A checkpoint as a record. Raises SerdeError for what cannot be stored."""
    checkpoint = saved.checkpoint
    found = Found(
        id=checkpoint.id,
        step=checkpoint.step,
        values=checkpoint.values,
        frontier=[plain_task(task, "", -1) for task in checkpoint.frontier],
        held=[[plain_task(one.task, "", -1), one.gather, one.sender] for one in checkpoint.held],
        joins={key: sorted(arrived) for key, arrived in checkpoint.joins.items()},
        reported=[list(pair) for pair in checkpoint.reported],
        source=saved.source,
        metadata=dict(saved.metadata),
        pending=[list(entry) for entry in plain_pending(saved.pending, serde)],
        version=saved.graph_version,
    )
    return serde.decode(serde.encode(found, f"checkpoint {checkpoint.step}"))


def made_checkpoint(found: Found, serde: Serde) -> tuple[Checkpoint, Pending]:
    """The checkpoint again, and what was known of its frontier."""
    tasks = tuple(made_task(task, "", -1) for task in found.frontier)
    checkpoint = Checkpoint(
        found.id,
        found.step,
        found.values,
        tasks,
        tuple(DeferredTask(made_task(one, "", -1), gather=gather, sender=sender) for one, gather, sender in found.held),
        {key: frozenset(arrived) for key, arrived in found.joins.items()},
        tuple((name, update) for name, update in found.reported),
    )
    return checkpoint, made_pending([cast(Entry, tuple(entry)) for entry in found.pending], tasks, serde)


def plain_held(held: Iterable[DeferredTask]) -> list[list[Any]]:
    """The nodes of tasks that wait, their arguments if they have one, and whether they are gathered."""
    return [[*plain_tasks([one.task])[0], one.gather] for one in held]


def plain_joins(program: Program, joins: Joins) -> list[list[Any]]:
    """The join edges that some have reached: their starts, their end, and who has."""
    by_key = {join.key: join for join in program.graph.joins}
    return [[list(by_key[key].starts), by_key[key].end, sorted(joins[key])] for key in sorted(joins)]


def told_error(error: BaseException) -> list[str]:
    """The name of the class of an error, though it may be read from a file, and what it says."""
    return [error.kind if isinstance(error, StoredError) else type_name(type(error)), str(error)]


def plain_tasks(tasks: Iterable[Task]) -> list[list[Any]]:
    """The nodes of tasks, and their arguments if they have one."""
    return [[task.node] if task.arg is NO_ARG else [task.node, task.arg] for task in tasks]
