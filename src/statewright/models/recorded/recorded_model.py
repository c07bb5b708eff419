"""A chat model whose calls are recorded once, and replayed in tests without an API key or a network."""

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
"""The environment variable that sets the mode: `none` replays, `new` records only new requests, `all` records all."""
_MODES: Final[dict[str, RecordMode]] = {"": "replay", "none": "replay", "new": "auto", "all": "record"}


class RecordedModel:
    """A chat model that replays answers from a cassette, or records the answers of another model.

    `mode` is `replay` (call no model), `auto` (call the model only for requests that were not recorded, and record the
    answers) or `record` (call the model for all requests; the file is replaced when the first answer arrives). By
    default, the environment variable `STATEWRIGHT_RECORD` selects the mode: `none` or unset for `replay`, `new` for
    `auto`, `all` for `record`. So a test is written once, recorded with
    `STATEWRIGHT_RECORD=new pytest tests/test_agent.py`, and replayed from then on:

        model = RecordedModel("tests/cassettes/agent.json", lambda: connect_model("openai:gpt-5"))

    `model` is the model to record, or a function that creates it. The function is called only if the model is needed,
    so replaying needs no API key. Without a model, the environment variable is ignored, and the cassette is replayed.

    Requests are compared by content, without message ids, metadata, the timeout, and the values of secrets. Equal
    requests are answered in the order in which they were recorded. If a request was not recorded, ModelError describes
    how it differs from the most similar recorded request. With `record_errors=True`, ModelErrors of the model are
    recorded and replayed too; otherwise they are only raised. Several models may share a file by sharing a `Cassette`.
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
        """The records that were not replayed. Write `assert not model.unused` in a test to detect obsolete records."""
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
        """Return the record to replay; None to call the model. Raises ModelError if the mode allows neither."""
        record = None if self.mode == "record" else self.cassette.take(request)
        if record is None and self.mode == "replay":
            raise self.cassette.missing_error(request)
        return record

    @contextmanager
    def _recording(self, encoded: JsonObject, request: ModelRequest) -> Generator[Callable[[ModelEvent], None]]:
        """Record the model call that is made in the `with` block.

        The block passes each event to the function that it gets. The record is discarded if the call does not complete.
        """
        record = self.cassette.begin(encoded)
        pieces: list[JsonObject] = []
        is_answered = False

        def record_event(event: ModelEvent) -> None:
            nonlocal is_answered
            if isinstance(event, ResponseFinished):
                is_answered = True  # errors raised after this are not errors of the model
                # The response is set last, because a record with a response counts as complete.
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
        """Return the model to record, which is created when it is first used."""
        if not isinstance(self._model, ChatModel) or isinstance(self._model, type):  # a class creates a model too
            self._model = cast("Callable[[], ChatModel]", self._model)()
        return self._model


def _encode_checked(request: ModelRequest) -> JsonObject:
    """Encode a request. Raises ModelError for a request that a provider would refuse."""
    check_request(request)
    return encode_request(request)


def _replay(record: Record) -> ModelResponse:
    """Return the recorded response, or raise the recorded error."""
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
    value = os.environ.get(VARIABLE, "")
    try:
        return _MODES[value.strip().lower()]
    except KeyError:
        hint = suggestion(value, ("none", "new", "all"), noun="Choices")
        raise InvalidConfig(f"The environment variable {VARIABLE} is {value!r}. {hint}") from None
