"""A model that is recorded once, and replayed in tests without a key and without a network."""

from __future__ import annotations

import os
from collections.abc import AsyncIterator, Callable, Sequence
from typing import Final, Literal, Self, cast

from statewright.errors import InvalidConfig, MissingApiKey, ModelAnswerInvalid, ModelError, suggestion
from statewright.models.conversation.prepare import check_request
from statewright.models.model import ModelEvent, ModelRequest, ModelResponse, ResponseFinished
from statewright.models.port import ChatModel, closing, response_events, stream_model
from statewright.models.recorded.cassette import Cassette, Record
from statewright.models.recorded.cassette_format import (
    JsonObject,
    decode_error,
    decode_event,
    decode_response,
    encode_error,
    encode_event,
    encode_request,
    encode_response,
)

RecordMode = Literal["replay", "auto", "record"]
VARIABLE: Final = "STATEWRIGHT_RECORD"
"""Environment variable: `none` replays, `new` records missing requests, `all` records everything again."""
_MODES: Final[dict[str, RecordMode]] = {"": "replay", "none": "replay", "new": "auto", "all": "record"}


class RecordedModel:
    """A model that replays a cassette, a file that it writes in recording mode.

    `mode` is `replay` (call no model), `auto` (call the model for missing requests, and record these) or `record` (call
    it for all requests; the file is replaced when the first answer arrives). By default the environment variable
    `STATEWRIGHT_RECORD` selects one of these by `none`, `new` or `all`; unset means replay. So a test is written
    once, recorded with `STATEWRIGHT_RECORD=new pytest tests/test_agent.py`, and replayed from then on:

        model = RecordedModel("tests/cassettes/agent.json", lambda: connect_model("openai:gpt-5"))

    `model` is the model to record, or a function that creates it, which is called only when needed: replaying needs no
    key. Without a model the environment is ignored, and the cassette is replayed.

    A request is matched by its content; equal requests are answered in the order of their recording. Ids of messages,
    metadata, the timeout and secrets in the settings, which are masked, are ignored. A request that was not recorded
    raises ModelError, which reports the difference from the nearest one. With `record_errors=True` a ModelError of
    the model is recorded and replayed too; otherwise it is raised and not recorded. Several models may share a file by
    one `Cassette`.
    """

    def __init__(
        self,
        path: str | os.PathLike[str] | Cassette,
        model: ChatModel | Callable[[], ChatModel] | None = None,
        mode: RecordMode | None = None,
        *,
        record_errors: bool = False,
    ) -> None:
        self.mode = _resolve_mode(mode, has_model=model is not None)
        self.cassette = path if isinstance(path, Cassette) else Cassette(path)
        self._model = model
        self._record_errors = record_errors
        if self.mode == "record":
            self.cassette.start_anew()
        else:
            self.cassette.load()

    @property
    def unused(self) -> Sequence[Record]:
        """The records that were never replayed; `assert not model.unused` finds obsolete ones."""
        return self.cassette.unused

    async def complete(self, request: ModelRequest) -> ModelResponse:
        encoded = _encode_checked(request)
        record = self._find_record(encoded)
        if record is not None:
            return _replay(record)
        with self._start_recording(encoded, request) as recording:
            response = await self._resolve_model().complete(request)
            recording.finish(response)
        return response

    async def stream(self, request: ModelRequest) -> AsyncIterator[ModelEvent]:
        encoded = _encode_checked(request)
        record = self._find_record(encoded)
        if record is None:
            with self._start_recording(encoded, request) as recording:
                async with closing(stream_model(self._resolve_model(), request)) as events:
                    async for event in events:
                        recording.record_event(event)
                        yield event
            return
        if record.pieces:
            for piece in record.pieces:
                yield decode_event(piece)
            yield ResponseFinished(_replay(record))
        else:
            for event in response_events(_replay(record)):
                yield event

    def _find_record(self, request: JsonObject) -> Record | None:
        """Return the record to replay; None to call the model."""
        record = None if self.mode == "record" else self.cassette.take(request)
        if record is None and self.mode == "replay":
            raise self.cassette.missing(request)
        return record

    def _start_recording(self, encoded: JsonObject, request: ModelRequest) -> _Recording:
        return _Recording(self.cassette, encoded, request, keeps_errors=self._record_errors)

    def _resolve_model(self) -> ChatModel:
        model = self._model
        if isinstance(model, ChatModel) and not isinstance(model, type):
            return model
        self._model = created = cast("Callable[[], ChatModel]", model)()
        return created


class _Recording:
    """The recording of one call, which is discarded if it does not complete."""

    def __init__(self, cassette: Cassette, encoded: JsonObject, request: ModelRequest, *, keeps_errors: bool) -> None:
        self._cassette = cassette
        self._settings = request.extra
        self._keeps_errors = keeps_errors
        self._record = cassette.begin(encoded)
        self._pieces: list[JsonObject] = []

    def record_event(self, event: ModelEvent) -> None:
        """Record one event of a stream, and the response with the last one."""
        piece = encode_event(event)
        if piece is not None:
            self._pieces.append(piece)
        if isinstance(event, ResponseFinished):
            self.finish(event.response)

    def finish(self, response: ModelResponse) -> None:
        """Save the record with its response."""
        self._keeps_errors = False  # later failures are not errors of the model
        written = encode_response(response)
        self._record.pieces = self._pieces  # before the response, which marks the record as complete
        self._record.response = written
        self._cassette.save()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: object) -> None:
        if self._record.response is None:
            self._record_failure(error)

    def _record_failure(self, error: BaseException | None) -> None:
        """Save the error of a call without a response, or discard the call."""
        if self._keeps_errors and isinstance(error, ModelError) and not isinstance(error, MissingApiKey):
            self._record.pieces = self._pieces
            self._record.error = encode_error(error, self._settings)
            self._cassette.save()
            return
        self._cassette.drop(self._record)
        if error is None:
            raise ModelAnswerInvalid("The model that is recorded ended its stream without a ResponseFinished.")


def _encode_checked(request: ModelRequest) -> JsonObject:
    """Return a request as it is recorded. Raises ModelError for one that a provider would refuse."""
    check_request(request)
    return encode_request(request)


def _replay(record: Record) -> ModelResponse:
    if record.error is not None:
        raise decode_error(record.error)
    return decode_response(cast(JsonObject, record.response))


def _resolve_mode(mode: RecordMode | None, *, has_model: bool) -> RecordMode:
    if mode is None:
        return _mode_from_environment() if has_model else "replay"
    modes = tuple(_MODES.values())
    if mode not in modes:
        raise InvalidConfig(f"RecordedModel(mode={mode!r}): unknown. {suggestion(str(mode), modes, noun='Modes')}")
    if mode != "replay" and not has_model:
        raise InvalidConfig(f"RecordedModel(mode={mode!r}) needs the model to record: pass model=.")
    return mode


def _mode_from_environment() -> RecordMode:
    setting = os.environ.get(VARIABLE, "")
    try:
        return _MODES[setting.strip().lower()]
    except KeyError:
        hint = suggestion(setting, ("none", "new", "all"), noun="Choices")
        raise InvalidConfig(f"{VARIABLE} is {setting!r} in the environment. {hint}") from None
