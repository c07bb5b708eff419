"""The files that contain recordings: their format, and the serde that encodes them.

A file consists of one line of text with the version of the format, followed by a tree of records (`records.py`) that a
`Serde` has encoded. Times are omitted, including the due times of timers, and random ids are replaced by stable ids
(`stable_ids.py`), so that two recordings of the same calls are equal.
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
from statewright.serde.classes import Decoder, Encoder, conversions_of
from statewright.serde.serde import Serde
from statewright.testing.replay import records
from statewright.testing.replay.records import Recording
from statewright.testing.replay.stable_ids import StableIds
from statewright.testing.replay.states import add_fingerprints

FORMAT: Final = 1
"""The version of the format. Other versions cannot be read: a test can be recorded again at any time."""
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

    Raises NewerFormat if a newer version of Statewright wrote the file. Raises SerdeError if an older version wrote it,
    if it is not a recording, or if it contains values of types that neither the graph nor `serde` declares.
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


# -- the serde of recordings, which knows the records and the types that the state of a graph may contain

_PREFIX: Final = "statewright.replay."
"""Prefix of the names under which records are stored, so that they cannot be the names of users' classes."""
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
_STORED_NAMES: Final = {
    records.RecordedRun: {"input": "given", "existing_checkpoints": "found", "end": "rest"},
    records.RecordedState: {"deferred": "held"},
    records.ExistingCheckpoint: {"deferred": "held"},
}
"""The names of fields in files, for the attributes that have been renamed since the format was defined."""


def replay_serde(app: CompiledGraph, custom: Serde | None) -> Serde:
    """Return a serde that knows the records, and the types in the states of a graph and its subgraphs.

    If `custom` is not None, the types are registered with it and it is returned.
    """
    serde = custom or Serde()
    for name, cls in _RECORDS.items():
        encode, decode = _record_conversions(cls)
        serde.register(cls, name=_PREFIX + name, encode=encode, decode=decode)
    serde.register(object, name=_PREFIX + "timed-out", encode=_encode_time_out, decode=lambda _: TIMED_OUT)
    serde.register(Command, name=_PREFIX + "command", encode=_encode_command, decode=_decode_command)
    serde.register(
        Interrupt,
        name=_PREFIX + "interrupt",
        encode=lambda interrupt: _encode_interrupt(interrupt, serde),
        decode=lambda parts: _decode_interrupt(parts, serde),
    )
    if custom is None:  # a custom serde may have its own conversions of sets
        for cls in (set, frozenset):
            serde.register(cls, name=_PREFIX + cls.__name__, encode=_sort_members, decode=cls)
    serde.allow(app.program.stored_types)
    for graph in (app.graph, *(inner.graph for _, inner in subgraphs_of(app.graph, recurse=True))):
        schemas = (graph.schema, graph.input_schema, *graph.node_schemas.values())
        serde.allow(cls for schema in schemas if (cls := _stored_class(schema.source)) is not None)
    return serde


def _record_conversions(cls: type[Any]) -> tuple[Encoder, Decoder]:
    """Return an encoder and a decoder of a class of records, which translate between attributes and stored names."""
    encode, decode = conversions_of(cls, None)
    stored_names = _STORED_NAMES.get(cls)
    if stored_names is None:
        return encode, decode
    attributes = {stored: name for name, stored in stored_names.items()}
    return (
        lambda record: {stored_names.get(name, name): value for name, value in encode(record).items()},
        lambda fields: decode({attributes.get(name, name): value for name, value in fields.items()}),
    )


def _stored_class(schema_source: Any) -> type | None:
    """Return the class of a schema if its instances may be passed as an input or as the argument of a Send.

    Return None for a TypedDict, whose instances are plain dicts.
    """
    cls = cast("type[Any] | None", schema_source if isinstance(schema_source, type) else None)
    return cls if cls is not None and (dataclasses.is_dataclass(cls) or hasattr(cls, "model_fields")) else None


def _sort_members(values: Iterable[Any]) -> list[Any]:
    """Return the members of a set in an order that is the same in every process."""
    return sorted(values, key=fingerprint)


def _encode_time_out(value: object) -> None:
    if value is not TIMED_OUT:
        raise ValueError("a plain object() cannot be stored, because only its identity distinguishes it")


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
