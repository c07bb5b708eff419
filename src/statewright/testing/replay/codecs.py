"""The serde of recordings: the records, and the types that the state of a graph may contain."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, Final, cast

from statewright.checkpoint import Interrupt, InterruptKind
from statewright.data.fingerprint import fingerprint
from statewright.graph import Budget, Command
from statewright.ids import InterruptId
from statewright.runtime.lifecycle.snapshot import subgraphs_of
from statewright.runtime.lifecycle.start import TIMED_OUT
from statewright.serde.annotations import plain_annotation, restore_annotation
from statewright.serde.serde import Serde
from statewright.testing.replay import records

if TYPE_CHECKING:
    from statewright.runtime import CompiledGraph

_PREFIX: Final = "statewright.replay."
"""Prefix of the tags of records, so that no tag is that of a user's class."""
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
    """Return a serde for records and for the types in the states of a graph and its subgraphs."""
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
    if custom is None:  # a user's serde has a codec for sets already
        for kind in (set, frozenset):
            serde.register(kind, name=_PREFIX + kind.__name__, encode=_in_order, decode=kind)
    serde.allow(app.program.stored_types)
    for graph in (app.graph, *(inner.graph for _, inner in subgraphs_of(app.graph, recurse=True))):
        schemas = (graph.schema, graph.input_schema, *graph.node_schemas.values())
        serde.allow(kind for schema in schemas if (kind := _stored_class(schema.source)) is not None)
    return serde


def _stored_class(source: Any) -> type | None:
    """Return the class of a schema, if its instances may be an input or the argument of a Send."""
    kind = cast("type[Any] | None", source if isinstance(source, type) else None)
    return kind if kind is not None and (dataclasses.is_dataclass(kind) or hasattr(kind, "model_fields")) else None


def _in_order(values: Iterable[Any]) -> list[Any]:
    """Return the members of a set in an order that does not depend on the process."""
    return sorted(values, key=fingerprint)


def _encode_time_out(value: object) -> None:
    if value is not TIMED_OUT:
        raise ValueError("an object() is equal to no other object, so it cannot be restored")


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
        schema=restore_annotation(schema, serde.named),
    )
