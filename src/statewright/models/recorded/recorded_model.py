"""A model whose calls are recorded once, and replayed in tests without an API key or a network."""

from __future__ import annotations

import os
from collections.abc import AsyncIterator, Callable, Generator, Sequence
from contextlib import contextmanager
from typing import Final, Literal, cast

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
"""Environment variable: `none` replays, `new` records only new requests, `all` records everything again."""
_MODES: Final[dict[str, RecordMode]] = {"": "replay", "none": "replay", "new": "auto", "all": "record"}


class RecordedModel:
    """A chat model that replays answers from a cassette, or records those of another model.

    `mode` is `replay` (call no model), `auto` (call the model for requests without a record, and record these) or
    `record` (call it for all requests; the file is replaced when the first answer arrives). By default the environment
    variable `STATEWRIGHT_RECORD` selects one of these by `none`, `new` or `all`; unset means replay. So a test is
    written once, recorded with `STATEWRIGHT_RECORD=new pytest tests/test_agent.py`, and replayed from then on:

        model = RecordedModel("tests/cassettes/agent.json", lambda: connect_model("openai:gpt-5"))

    `model` is the model to record, or a function that creates it. The function is called only when needed, so replaying
    needs no API key. Without a model the environment is ignored, and the cassette is replayed.

    A request is matched by its content; equal requests are answered in the order in which they were recorded. Message
    ids, metadata, the timeout, and secrets in the settings, which are masked, are ignored. A request that was not
    recorded raises ModelError, with the difference from the most similar one. With `record_errors=True` a ModelError of
    the model is recorded and replayed too; otherwise it is only raised. Several models may share a file by sharing a
    `Cassette`.
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
        """The records that were never replayed; `assert not model.unused` detects obsolete ones."""
        return self.cassette.unused

    async def complete(self, request: ModelRequest) -> ModelResponse:
        encoded = _encode_checked(request)
        record = self._find_record(encoded)
        if record is not None:
            return _replay(record)
        with self._recording(encoded, request) as record_event:
            response = await self._resolve_model().complete(request)
            record_event(ResponseFinished(response))
        return response

    async def stream(self, request: ModelRequest) -> AsyncIterator[ModelEvent]:
        encoded = _encode_checked(request)
        record = self._find_record(encoded)
        if record is None:
            with self._recording(encoded, request) as record_event:
                async with closing(stream_model(self._resolve_model(), request)) as events:
                    async for event in events:
                        record_event(event)
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
        """Return the record to replay; None to call the model. Raises ModelError if neither is possible."""
        record = None if self.mode == "record" else self.cassette.take(request)
        if record is None and self.mode == "replay":
            raise self.cassette.missing_error(request)
        return record

    @contextmanager
    def _recording(self, encoded: JsonObject, request: ModelRequest) -> Generator[Callable[[ModelEvent], None]]:
        """Record the call made in this block, event by event; the record is discarded if the call does not complete."""
        record = self.cassette.begin(encoded)
        pieces: list[JsonObject] = []
        is_answered = False

        def record_event(event: ModelEvent) -> None:
            nonlocal is_answered
            if isinstance(event, ResponseFinished):
                is_answered = True  # a later failure is not the model's
                # The response comes last, since it marks the record as complete.
                record.pieces, record.response = pieces, encode_response(event.response)
                self.cassette.save()
            elif (piece := encode_event(event)) is not None:
                pieces.append(piece)

        try:
            yield record_event
        except ModelError as error:
            if self._record_errors and not is_answered and not isinstance(error, MissingApiKey):
                record.pieces, record.error = pieces, encode_error(error, request.extra)
                self.cassette.save()
            raise
        finally:
            if not record.has_answer:
                self.cassette.drop(record)
        if record.response is None:
            raise ModelAnswerInvalid("The recorded model ended its stream without a ResponseFinished.")

    def _resolve_model(self) -> ChatModel:
        """Return the model to record, which is created on first use."""
        if not isinstance(self._model, ChatModel) or isinstance(self._model, type):  # a class is a function, too
            self._model = cast("Callable[[], ChatModel]", self._model)()
        return self._model


def _encode_checked(request: ModelRequest) -> JsonObject:
    """Encode a request. Raises ModelError for one that a provider would refuse."""
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
        raise InvalidConfig(f"RecordedModel has no mode {mode!r}. {suggestion(str(mode), modes, noun='Modes')}")
    if mode != "replay" and not has_model:
        raise InvalidConfig(f"RecordedModel(mode={mode!r}) needs a model to record. Pass model=.")
    return mode


def _mode_from_environment() -> RecordMode:
    setting = os.environ.get(VARIABLE, "")
    try:
        return _MODES[setting.strip().lower()]
    except KeyError:
        hint = suggestion(setting, ("none", "new", "all"), noun="Choices")
        raise InvalidConfig(f"The environment variable {VARIABLE} is {setting!r}. {hint}") from None
