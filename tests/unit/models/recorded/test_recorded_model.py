"""A model whose responses are recorded once and then replayed."""

import asyncio
import base64
import json
from collections.abc import AsyncIterator, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from statewright.errors import InvalidConfig, MissingApiKey, ModelAnswerInvalid, ModelError, ModelUnavailable
from statewright.messages import Message, ToolCall
from statewright.models import (
    ChatModel,
    ModelEvent,
    ModelRequest,
    ModelResponse,
    ResponseFinished,
    ScriptedModel,
    TextDelta,
    Usage,
)
from statewright.models.recorded.cassette import Cassette
from statewright.models.recorded.recorded_model import VARIABLE, RecordedModel


@pytest.fixture(autouse=True)
def clean_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(VARIABLE, raising=False)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "cassette.json"


def request(text: str = "hi", /, **settings: Any) -> ModelRequest:
    return ModelRequest((Message(text),), **settings)


def complete(model: ChatModel, text: str = "hi", /, **settings: Any) -> ModelResponse:
    return asyncio.run(model.complete(request(text, **settings)))


def stream_events(model: RecordedModel, text: str = "hi") -> list[ModelEvent]:
    async def read() -> list[ModelEvent]:
        return [event async for event in model.stream(request(text))]

    return asyncio.run(read())


class BrokenStreamModel:
    """Streams a word, and then raises the given error or ends without a response."""

    def __init__(self, error: Exception | None = None) -> None:
        self._error = error

    async def complete(self, request: ModelRequest) -> ModelResponse:
        raise NotImplementedError

    async def stream(self, request: ModelRequest) -> AsyncIterator[ModelEvent]:
        yield TextDelta("half")
        if self._error is not None:
            raise self._error


def test_a_recorded_response_is_replayed_without_the_model(path: Path) -> None:
    message = Message(
        "", role="assistant", tool_calls=(ToolCall("c1", "look", {"at": "x"}),), metadata={"reasoning": "hm"}
    )
    response = ModelResponse(message, Usage(1, 2, 0.5), "m", "tools")
    assert complete(RecordedModel(path, ScriptedModel([response]), "record")) == response
    model = RecordedModel(path)
    assert complete(model) == response
    assert model.unused == []


def test_a_stream_is_replayed_event_by_event(path: Path) -> None:
    recorded = stream_events(RecordedModel(path, ScriptedModel(["one two three"]), "record"))
    assert len(recorded) == 5
    assert stream_events(RecordedModel(path)) == recorded
    assert complete(RecordedModel(path)).text == "one two three"


def test_a_response_recorded_without_streaming_is_replayed_as_one_event(path: Path) -> None:
    complete(RecordedModel(path, ScriptedModel(["one two"]), "record"))
    events = stream_events(RecordedModel(path))
    assert events[0] == TextDelta("one two")
    assert isinstance(events[-1], ResponseFinished)


def test_the_order_matters_only_among_equal_requests(path: Path) -> None:
    recording = RecordedModel(
        path, ScriptedModel(lambda request: f"{request.messages[0].text}{next(numbers)}"), "record"
    )
    numbers: Iterator[int] = iter(range(9))
    for text in "abab":
        complete(recording, text)
    model = RecordedModel(path)
    assert [complete(model, text).text for text in "bbaa"] == ["b1", "b3", "a0", "a2"]


def test_metadata_and_timeout_do_not_matter(path: Path) -> None:
    complete(RecordedModel(path, ScriptedModel(["x"]), "record"), metadata={"state": "a"}, timeout=1.0)
    assert complete(RecordedModel(path), metadata={"state": "b"}).text == "x"


@pytest.mark.parametrize("settings", [{"seed": 1}, {"system": "s"}, {"model": "m"}, {"extra": {"a": 1}}])
def test_every_sent_setting_matters(path: Path, settings: dict[str, Any]) -> None:
    complete(RecordedModel(path, ScriptedModel(["x"]), "record"))
    (name,) = settings
    with pytest.raises(ModelError, match=f"differs in {name}"):
        complete(RecordedModel(path), **settings)


def test_recording_replaces_the_file_with_the_first_response(path: Path) -> None:
    complete(RecordedModel(path, ScriptedModel(["old"]), "record"), "a")
    again = RecordedModel(path, ScriptedModel(["new"]), "record")
    assert complete(RecordedModel(path), "a").text == "old"
    complete(again, "b")
    assert [record.request["messages"][0]["content"] for record in RecordedModel(path).unused] == ["b"]


def test_auto_mode_records_missing_responses(path: Path) -> None:
    real = ScriptedModel(["one", "two", "three"])
    model = RecordedModel(path, real, "auto")
    assert [complete(model, text).text for text in "ab"] == ["one", "two"]
    again = RecordedModel(path, real, "auto")
    assert [complete(again, text).text for text in "baa"] == ["two", "one", "three"]
    assert len(RecordedModel(path).unused) == 3


@pytest.mark.parametrize(
    ("value", "mode"), [("none", "replay"), ("", "replay"), ("new", "auto"), ("all", "record"), ("ALL", "record")]
)
def test_the_environment_sets_the_mode(path: Path, monkeypatch: pytest.MonkeyPatch, value: str, mode: str) -> None:
    monkeypatch.setenv(VARIABLE, value)
    assert RecordedModel(path, ScriptedModel([])).mode == mode
    assert RecordedModel(path, ScriptedModel([]), "auto").mode == "auto"
    assert RecordedModel(path).mode == "replay"


def test_invalid_modes_are_rejected(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(InvalidConfig, match="Did you mean 'replay'"):
        RecordedModel(path, mode="repaly")  # type: ignore[arg-type]
    with pytest.raises(InvalidConfig, match="needs a model"):
        RecordedModel(path, mode="record")
    monkeypatch.setenv(VARIABLE, "nwe")
    with pytest.raises(InvalidConfig, match=r"STATEWRIGHT_RECORD is 'nwe'.*Did you mean 'new'"):
        RecordedModel(path, ScriptedModel([]))


def test_the_model_is_created_only_when_needed(path: Path) -> None:
    def create() -> ChatModel:
        created.append(1)
        return ScriptedModel(lambda _: "x")

    created: list[int] = []
    model = RecordedModel(path, create, "auto")
    assert not created
    complete(model, "a")
    complete(model, "b")
    assert created == [1]
    complete(RecordedModel(path, create), "a")
    assert created == [1]


def test_errors_are_recorded_only_on_request(path: Path) -> None:
    busy = ModelUnavailable("busy", status=429, retry_after=2.0)
    without_errors = RecordedModel(path, ScriptedModel([busy, "x"]), "record")
    with pytest.raises(ModelUnavailable):
        complete(without_errors)
    assert not path.exists()
    assert complete(without_errors).text == "x"

    with_errors = RecordedModel(path, ScriptedModel([busy, "x"]), "record", record_errors=True)
    with pytest.raises(ModelUnavailable):
        complete(with_errors)
    complete(with_errors)
    replayed = RecordedModel(path)
    with pytest.raises(ModelUnavailable, match="busy") as caught:
        complete(replayed)
    assert (caught.value.status, caught.value.retry_after) == (429, 2.0)
    assert complete(replayed).text == "x"


def test_missing_keys_and_foreign_errors_are_never_recorded(path: Path) -> None:
    for error in (MissingApiKey("no key"), ZeroDivisionError()):
        with pytest.raises(type(error)):
            complete(RecordedModel(path, ScriptedModel([error]), "record", record_errors=True))
    assert not path.exists()


def test_a_broken_stream_is_replayed_up_to_its_error(path: Path) -> None:
    async def read(model: RecordedModel) -> list[ModelEvent]:
        events: list[ModelEvent] = []
        with pytest.raises(ModelUnavailable, match="cut"):  # noqa: PT012
            async for event in model.stream(request()):
                events.append(event)
        return events

    recording = RecordedModel(path, BrokenStreamModel(ModelUnavailable("cut")), "record", record_errors=True)
    assert asyncio.run(read(recording)) == asyncio.run(read(RecordedModel(path))) == [TextDelta("half")]


def test_a_stream_without_a_final_event_is_an_error(path: Path) -> None:
    with pytest.raises(ModelAnswerInvalid, match="without a ResponseFinished"):
        stream_events(RecordedModel(path, BrokenStreamModel(), "record"))
    assert not path.exists()


def test_an_abandoned_stream_is_not_recorded(path: Path) -> None:
    async def stop_early() -> None:
        stream = RecordedModel(path, ScriptedModel(["one two"]), "record").stream(request())
        await anext(stream)
        await stream.aclose()  # type: ignore[attr-defined]

    asyncio.run(stop_early())
    assert not path.exists()


def test_values_that_cannot_be_encoded_are_an_error_and_not_recorded(path: Path) -> None:
    message = Message("x", role="assistant", metadata={"a": {1, 2}})
    with pytest.raises(ModelError, match=r"response\.message\.metadata\.a"):
        complete(RecordedModel(path, ScriptedModel([message]), "record", record_errors=True))
    assert not path.exists()


def test_several_models_share_a_file_through_one_cassette(path: Path) -> None:
    complete(RecordedModel(path, ScriptedModel(["old"]), "record"), "z")
    shared = Cassette(path)
    first = RecordedModel(shared, ScriptedModel(["one"]), "record")
    second = RecordedModel(shared, ScriptedModel(["two"]), "record")
    complete(first, "a")
    complete(second, "b")
    replayed = RecordedModel(path)
    assert [complete(replayed, text).text for text in "ba"] == ["two", "one"]
    assert replayed.unused == []


def test_recording_and_replaying_is_thread_safe(path: Path) -> None:
    recording = RecordedModel(path, ScriptedModel(lambda request: request.messages[0].text.upper()), "record")
    texts = [f"t{n % 20}" for n in range(200)]
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(lambda text: complete(recording, text), texts))
    model = RecordedModel(path)
    assert len(model.unused) == 200
    with ThreadPoolExecutor(8) as pool:
        answers = list(pool.map(lambda text: complete(model, text).text, texts))
    assert answers == [text.upper() for text in texts]
    assert model.unused == []


def test_records_keep_the_order_of_requests_whichever_answer_is_first(path: Path) -> None:
    class SlowOnceModel:
        async def complete(self, request: ModelRequest) -> ModelResponse:
            await asyncio.sleep(0.02 if request.messages[0].text == "slow" else 0)
            return ModelResponse(Message("x", role="assistant"))

    async def run_both() -> None:
        model = RecordedModel(path, SlowOnceModel(), "record")
        await asyncio.gather(*(model.complete(request(text)) for text in ("slow", "quick")))

    asyncio.run(run_both())
    assert [record.request["messages"][0]["content"] for record in RecordedModel(path).unused] == ["slow", "quick"]


KEY = "plain-secret-value-77"
SECRET_SETTINGS: list[dict[str, Any]] = [
    {"extra_headers": {"Authorization": f"Bearer {KEY}", "x-api-key": KEY, "X-Tag": "blue"}},
    {"extra_headers": {"Authorization": f"Basic {base64.b64encode(KEY.encode()).decode()}"}},
    {"extra_body": {"nested": [{"password": KEY}, {"name": "token", "value": KEY}]}},
    {"extra_headers": [["Authorization", KEY]]},
    {"api_key": KEY.encode()},
    {"extra_query": {"url": f"https://user:{KEY}@127.0.0.1/"}},
]


@pytest.mark.parametrize("settings", SECRET_SETTINGS)
def test_secrets_in_settings_are_not_written_and_do_not_matter(path: Path, settings: dict[str, Any]) -> None:
    complete(RecordedModel(path, ScriptedModel(["ok"]), "record"), extra=settings)
    written = path.read_text()
    assert KEY not in written
    assert base64.b64encode(KEY.encode()).decode() not in written
    assert complete(RecordedModel(path), extra=settings).text == "ok"
    others = json.loads(json.dumps(settings, default=bytes.decode).replace(KEY, "another-secret-value-78"))
    if "Basic" not in str(settings):
        assert complete(RecordedModel(path), extra=others).text == "ok"


def test_settings_without_secrets_still_matter(path: Path) -> None:
    complete(RecordedModel(path, ScriptedModel(["ok"]), "record"), extra=SECRET_SETTINGS[0])
    headers = {**SECRET_SETTINGS[0]["extra_headers"], "X-Tag": "red"}
    with pytest.raises(ModelError, match="X-Tag"):
        complete(RecordedModel(path), extra={"extra_headers": headers})


@pytest.mark.parametrize("settings", SECRET_SETTINGS[:1])
def test_cassettes_with_secrets_are_replayed_and_rewritten_without_them(path: Path, settings: dict[str, Any]) -> None:
    complete(RecordedModel(path, ScriptedModel(["ok"]), "record"))
    data = json.loads(path.read_text())
    data["records"][0]["request"]["extra"] = settings
    path.write_text(json.dumps(data))
    model = RecordedModel(path, ScriptedModel(["more"]), "auto")
    assert complete(model, extra=settings).text == "ok"
    assert complete(model, "another").text == "more"
    assert KEY not in path.read_text()


def test_errors_are_recorded_without_the_secrets_of_the_request(path: Path) -> None:
    def refuse(_: ModelRequest) -> str:
        raise ModelError(f"The key {KEY} was refused.")

    model = RecordedModel(path, ScriptedModel(refuse), "record", record_errors=True)
    with pytest.raises(ModelError):
        complete(model, extra=SECRET_SETTINGS[0])
    assert KEY not in path.read_text()
    assert "was refused" in path.read_text()
