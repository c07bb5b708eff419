"""Files of recordings: their format, and the serde of their records.

A file is a line of text with the version of the format, and a tree of records encoded by a `Serde`. Times are omitted,
including those of timers, and random ids are replaced (`stable_ids`), so that two recordings of the same calls are
equal.
"""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Iterable
from pathlib import Path
from typing import Any, Final, cast

from statewright.checkpoint import Interrupt, InterruptKind
from statewright.data.fingerprint import fingerprint
from statewright.errors import NewerFormat, SerdeError, StorageError
from statewright.graph import Budget, Command
from statewright.ids import InterruptId
from statewright.runtime import CompiledGraph
from statewright.runtime.lifecycle.snapshot import subgraphs_of
from statewright.runtime.lifecycle.start import TIMED_OUT
from statewright.serde.annotations import plain_annotation, restore_annotation
from statewright.serde.serde import Serde
from statewright.testing.replay import records
from statewright.testing.replay.records import Recording
from statewright.testing.replay.stable_ids import StableIds
from statewright.testing.replay.states import add_fingerprints

FORMAT: Final = 1
"""The version of the format. No other version can be read, because a test can be recorded again at any time."""
_HEAD: Final = b"statewright replay "


def write_recording(path: Path, recording: Recording, ids: StableIds, serde: Serde) -> None:
    """Write a recording to a file, atomically and with stable ids."""
    stable: Recording = serde.decode(ids.replace_in_bytes(serde.encode(recording, "recording")))
    for call in stable.calls:
        add_fingerprints(call)
    temporary = path.with_name(path.name + ".part")
    temporary.write_bytes(_HEAD + str(FORMAT).encode() + b"\n" + serde.encode(stable, "recording"))
    os.replace(temporary, path)


def read_recording(path: str | os.PathLike[str], app: CompiledGraph, *, serde: Serde | None = None) -> Recording:
    """Return the recording in a file.

    Raises NewerFormat for a file of a newer version of Statewright, and SerdeError for a file of an older version, for
    a file that is not a recording, and for values of types that the graph does not declare.
    """
    path = Path(path)
    head, _, body = path.read_bytes().partition(b"\n")
    if not head.startswith(_HEAD) or not head.removeprefix(_HEAD).isdigit():
        raise SerdeError(f"{path}", "it is not a recording of Statewright. Make one with statewright.testing.record")
    version = int(head.removeprefix(_HEAD))
    if version > FORMAT:
        raise NewerFormat(f"{path}", version, FORMAT)
    if version < FORMAT:
        raise SerdeError(f"{path}", f"it has format {version}, and this version reads {FORMAT}. Record it again")
    return _decode(path, body, replay_serde(app, serde))


def _decode(path: Path, body: bytes, serde: Serde) -> Recording:
    try:
        recording = serde.decode(body)
    except SerdeError:
        raise
    except StorageError as error:
        raise SerdeError(f"{path}", "it was truncated or changed. Record it again") from error
    if not isinstance(recording, Recording):
        raise SerdeError(f"{path}", "it does not contain a recording. Record it again")
    return recording


# -- the serde of recordings: for records, and for the types that the state of a graph may contain

_PREFIX: Final = "statewright.replay."
"""Prefix of the names under which records are stored, so that none of them is the name of a user's class."""
_RECORDS: Final = {
    "recording": records.Recording,
    "run": records.RecordedRun,
    "found": records.ExistingCheckpoint,
    "rest": records.RecordedEnd,
    "step": records.RecordedStep,
    "state": records.RecordedState,
    "task": records.RecordedTask,
    "landed": records.Completed,
    "asked": records.Interrupted,
    "failed": records.Failed,
    "for-parent": records.ForParent,
    "budget": Budget,
}


def replay_serde(app: CompiledGraph, custom: Serde | None) -> Serde:
    """Return a serde for records, and for the types in the states of a graph and its subgraphs."""
    serde = custom or Serde()
    for name, kind in _RECORDS.items():
        serde.register(kind, name=_PREFIX + name)
    serde.register(object, name=_PREFIX + "timed-out", encode=_encode_time_out, decode=lambda _: TIMED_OUT)
    serde.register(Command, name=_PREFIX + "command", encode=_encode_command, decode=_decode_command)
    serde.register(
        Interrupt,
        name=_PREFIX + "interrupt",
        encode=lambda interrupt: _encode_interrupt(interrupt, serde),
        decode=lambda parts: _decode_interrupt(parts, serde),
    )
    if custom is None:  # a custom serde may have registered them itself
        for kind in (set, frozenset):
            serde.register(kind, name=_PREFIX + kind.__name__, encode=_sorted_members, decode=kind)
    serde.allow(app.program.stored_types)
    for graph in (app.graph, *(inner.graph for _, inner in subgraphs_of(app.graph, recurse=True))):
        schemas = (graph.schema, graph.input_schema, *graph.node_schemas.values())
        serde.allow(kind for schema in schemas if (kind := _stored_class(schema.source)) is not None)
    return serde


def _stored_class(source: Any) -> type | None:
    """Return the class of a schema, if its instances may be passed as an input or as the argument of a Send."""
    kind = cast("type[Any] | None", source if isinstance(source, type) else None)
    return kind if kind is not None and (dataclasses.is_dataclass(kind) or hasattr(kind, "model_fields")) else None


def _sorted_members(values: Iterable[Any]) -> list[Any]:
    """Return the members of a set in an order that is the same in every process."""
    return sorted(values, key=fingerprint)


def _encode_time_out(value: object) -> None:
    if value is not TIMED_OUT:
        raise ValueError("a plain object() has no identity that could be stored")


def _encode_command(command: Command[Any]) -> list[Any]:
    answer = [command.resume] if command.resumes else None
    return [command.update, list(command.targets), command.graph, answer]


def _decode_command(parts: list[Any]) -> Command[Any]:
    update, goto, graph, answer = parts
    return Command(update=update, goto=goto, graph=graph, resume=answer[0] if answer is not None else ...)


def _encode_interrupt(interrupt: Interrupt, serde: Serde) -> list[Any]:
    schema = plain_annotation(interrupt.schema, serde.name_of)
    return [interrupt.id, interrupt.kind, interrupt.value, interrupt.event, schema]


def _decode_interrupt(parts: list[Any], serde: Serde) -> Interrupt:
    interrupt_id, kind, value, event, schema = parts
    return Interrupt(
        id=InterruptId(interrupt_id),
        value=value,
        kind=cast(InterruptKind, kind),
        event=event,
        schema=restore_annotation(schema, serde.class_of),
    )
