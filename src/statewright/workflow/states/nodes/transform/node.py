"""The transform node, which reads a source, computes fields in order, and converts them to the types of its schema."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple, cast

from statewright.errors import ExpressionError, InvalidUpdateError, RoutingError, StatewrightError, suggestion
from statewright.runtime.concurrency.thread_calls import call_in_thread
from statewright.workflow.states.expressions.output import parse_json_text, parse_output
from statewright.workflow.states.expressions.paths import MISSING, follow_path, parse_path
from statewright.workflow.states.handlers import Call, Outcome
from statewright.workflow.states.handlers.call import make_unresolved_reporter
from statewright.workflow.states.language.model import CustomNode
from statewright.workflow.states.language.yaml.nodes import shorten
from statewright.workflow.states.nodes.config import ConfigFault, ConfigReader
from statewright.workflow.states.nodes.transform.mappings import READERS, Data, FieldMapping, TemplateMapping
from statewright.workflow.states.nodes.transform.output_schema import OutputShape, read_shape
from statewright.workflow.states.templates.template import UnresolvedCallback

# -- sources: the context, the last message, the user's input, or the state


def _read_last_message(call: Call) -> Any:
    return parse_output(call.history[-1].text) if call.history else {}


def _read_state(call: Call) -> Any:
    """Return the parts of the state that a node may read, by name."""
    return {
        "context_store": dict(call.context),
        "messages": [{"role": message.role, "content": message.text, "name": message.name} for message in call.history],
        "user_input": call.lineage.raw_input,
        "task": call.scope.get("task"),
        "state_id": call.state.id,
    }


SOURCES: Final[Mapping[str, Callable[[Call], Any]]] = {
    "context_store": lambda call: dict(call.context),
    "messages": _read_last_message,
    "user_input": lambda call: call.lineage.input.result,
    "state_schema": _read_state,
}
"""Functions that read a source, by `input_source`."""


@dataclass(frozen=True, slots=True)
class Source:
    """One of the `SOURCES`, or a part of it."""

    name: str = "context_store"
    key: str | None = None
    """The path of the part, which may have `[n]`, `[-n]` and `[a:b]`; None for the whole source."""

    def read(self, call: Call) -> Data:
        """Return the data that the mappings read. Raises RoutingError if the key does not exist."""
        value = SOURCES[self.name](call)
        data = cast("Data", value) if isinstance(value, dict) else {self.name: value}
        return data if self.key is None else select_part(data, self.key)


def select_part(data: Data, key: str) -> Data:
    """Return a part of the data as a map.

    A map at a plain key is returned itself. Any other value is returned in a map, under the last name in its path. JSON
    text on the path is parsed. Raises RoutingError if the key does not exist.
    """
    steps = (key,) if key in data else parse_path(key)
    if steps is None:
        raise RoutingError(f"{shorten(key)!r} is not a path. Write name.field[0] or rows[1:3].")
    part: Any = data
    for step in steps:
        container, part = part, parse_json_text(follow_path(part, (step,)))
        if part is MISSING:
            raise RoutingError(_describe_missing(key, step, container))
    if len(steps) == 1 and isinstance(part, dict):
        return cast("Data", part)
    last_name = next(step for step in reversed(steps) if isinstance(step, str))
    return {last_name: part}


def _describe_missing(key: str, step: str | int | slice, container: Any) -> str:
    label = f"[{step.start or ''}:{step.stop or ''}]" if isinstance(step, slice) else repr(step)
    names = list(cast("Data", container))[:20] if isinstance(container, dict) else []
    hint = f" {suggestion(str(step), map(str, names), noun='Keys')}" if names else ""
    return f"The path {shorten(key)!r} does not exist: there is no {label}.{hint}"


# -- the node

ON_ERROR: Final = ("fail", "skip", "default", "partial")
_ANY_SHAPE: Final = OutputShape()


class OutputField(NamedTuple):
    """A field of the output, with its mapping."""

    name: str
    mapping: FieldMapping


@dataclass(frozen=True, slots=True)
class TransformConfig:
    """Settings of a node."""

    source: Source = Source()
    fields: tuple[OutputField, ...] = ()
    shape: OutputShape = _ANY_SHAPE
    on_error: str = "fail"
    """What happens if a field cannot be computed: with `fail` the state fails, with `skip` the output is empty, with
    `default` it is `default_output`, and with `partial` it consists of the fields that did not fail."""
    default_output: Data = field(default_factory=dict[str, Any])


class TransformNode:
    """Computes its output without a model."""

    def __init__(self, config: TransformConfig) -> None:
        self._config = config

    async def perform(self, call: Call) -> Outcome:
        if any(isinstance(mapping, TemplateMapping) for _, mapping in self._config.fields):
            return Outcome(await call_in_thread(self._transform, call))  # templates may contain loops, and take long
        return Outcome(self._transform(call))

    def _transform(self, call: Call) -> Data:
        config, on_unresolved = self._config, make_unresolved_reporter(call.runtime, call.state.id)
        try:
            return self._convert(self._compute_fields(self._read_data(call), on_unresolved))
        except StatewrightError as error:
            if config.on_error == "skip":
                return {}
            if config.on_error == "default":
                return dict(config.default_output)
            raise type(error)(f"State {call.state.id!r} cannot transform its input: {error}") from error

    @property
    def _skips_failed_fields(self) -> bool:
        return self._config.on_error == "partial"

    def _read_data(self, call: Call) -> Data:
        try:
            return self._config.source.read(call)
        except StatewrightError as error:
            if self._skips_failed_fields:
                return {}
            raise ExpressionError(f"input_key: {error}") from error

    def _compute_fields(self, data: Data, on_unresolved: UnresolvedCallback) -> Data:
        """Compute the fields in order, each from the data and the fields before it."""
        output: Data = {}
        scope = dict(data)
        for name, mapping in self._config.fields:
            try:
                output[name] = scope[name] = mapping.compute(scope, on_unresolved)
            except StatewrightError as error:
                if not self._skips_failed_fields:
                    raise ExpressionError(f"field {name!r}: {error}") from error
        return output

    def _convert(self, output: Data) -> Data:
        """Convert the fields to the types in the output schema, and check that no required field is missing."""
        shape, converted = self._config.shape, Data()
        for name, value in output.items():
            try:
                converted[name] = shape.coerce(name, value)
            except InvalidUpdateError as error:
                if not self._skips_failed_fields:
                    raise InvalidUpdateError(f"field {name!r}: {error}") from error
        missing = [] if self._skips_failed_fields else list(shape.iter_missing(converted))
        if missing:
            names = ", ".join(map(repr, missing))
            raise InvalidUpdateError(
                f"the output lacks {names}, which its output_schema requires. Give a default, or on_error: default."
            )
        return converted


def read_config(definition: CustomNode) -> tuple[TransformConfig, list[ConfigFault]]:
    """Return the config of a node, and the faults in it."""
    reader = ConfigReader(definition.config)
    config = TransformConfig(
        source=_read_source(reader),
        fields=_read_fields(reader),
        shape=read_shape(reader),
        on_error=reader.choice("on_error", ON_ERROR, "fail"),
        default_output=reader.map("default_output") or {},
    )
    reader.finish()
    return config, reader.faults


def _read_source(reader: ConfigReader) -> Source:
    name = reader.choice("input_source", SOURCES, "context_store")
    key = reader.path("input_key", "name.field[0] or rows[1:3]") if reader.text("input_key") else None
    return Source(name, key)


def _read_fields(reader: ConfigReader) -> tuple[OutputField, ...]:
    items = reader.items("mappings")
    if not items and reader.anything("mappings") in (None, []):
        reader.fault("mappings", "There are no mappings.", "Write at least one, with an output_field and a type.")
    fields = [_read_field(reader, index, item) for index, item in enumerate(items)]
    return tuple(field for field in fields if field is not None)


def _read_field(reader: ConfigReader, index: int, item: Any) -> OutputField | None:
    if not isinstance(item, dict):
        inner = reader.inner({}, "mappings", index)
        inner.fault(None, "A mapping must be a map.", "Write output_field, type and so on.")
        return None
    inner = reader.inner(cast("Data", item), "mappings", index)
    name = inner.required("output_field", inner.text("output_field"), "the name of the field")
    mapping = READERS[kind](inner) if (kind := inner.choice("type", READERS, "extract")) else None
    inner.finish()
    return OutputField(name, mapping) if name and mapping is not None else None
