"""Images and audio in tool results and threads: no file makes a thread unusable."""

from __future__ import annotations

import asyncio
import base64
import json
import struct
import zlib
from collections.abc import Iterator
from typing import Any

import pytest
from tests.integration.providers.conftest import NAMES
from tests.provider_server import Answer, Call, ProviderServer

from statewright import InMemorySaver
from statewright.agents import create_agent, tool
from statewright.errors import ModelError, ModelUnavailable
from statewright.messages import Message, ToolCall
from statewright.models import ModelRequest
from statewright.models.providers import PydanticAIModel, connect_model


def _png() -> bytes:
    def chunk(kind: bytes, data: bytes) -> bytes:
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    head = chunk(b"IHDR", struct.pack(">IIBBBBB", 1, 1, 8, 2, 0, 0, 0))
    return b"\x89PNG\r\n\x1a\n" + head + chunk(b"IDAT", zlib.compress(b"\0\xff\xff\xff")) + chunk(b"IEND", b"")


FILES = {
    "image/png": _png(),
    "image/jpeg": b"\xff\xd8\xff\xe0\x00\x10JFIF",
    "image/gif": b"GIF89a\x01\x00\x01\x00",
    "image/webp": b"RIFF\x1a\x00\x00\x00WEBPVP8L",
    "image/svg+xml": b"<svg xmlns='http://www.w3.org/2000/svg'/>",
    "image/bmp": b"BM\x1e\x00\x00\x00",
    "image/tiff": b"II*\x00",
    "image/heic": b"\x00\x00\x00\x18ftypheic",
    "image/x-icon": b"\x00\x00\x01\x00",
    "text/html": b"<html>",
}
SUPPORTED = ("image/png", "image/jpeg", "image/gif", "image/webp")
DECLARATIONS = {
    "correct": lambda kind: kind,
    "upper case": str.upper,
    "with a parameter": lambda kind: f"{kind}; charset=binary",
    "missing": lambda kind: None,
    "wrong": lambda kind: "image/gif" if kind == "image/png" else "image/png",
    "unknown": lambda kind: "application/octet-stream",
}


def encodings(data: bytes) -> dict[str, str]:
    plain = base64.b64encode(data).decode()
    return {
        "standard": plain,
        "with line breaks": base64.encodebytes(data).decode(),
        "url-safe": base64.urlsafe_b64encode(data).decode(),
        "without padding": plain.rstrip("="),
    }


@pytest.fixture(scope="module", params=NAMES)
def strict(request: pytest.FixtureRequest) -> Iterator[tuple[ProviderServer, PydanticAIModel]]:
    with ProviderServer(strict=True) as server:
        url = server.openai_url if request.param.startswith("openai") else server.url
        yield server, connect_model(NAMES[request.param], base_url=url, api_key="k")


def call_tool(strict: tuple[ProviderServer, PydanticAIModel], *parts: dict[str, Any]) -> tuple[Any, str]:
    """Return the stored result of a tool that returns these parts, and the last request of the continued thread."""
    server, model = strict
    server.script([Answer(calls=[Call("look")]), "seen", "again"])

    @tool
    def look() -> list[Any]:
        return [{"type": "text", "text": "look"}, *parts]

    app = create_agent(model, [look], retries=1, checkpointer=InMemorySaver())
    app.invoke({"messages": ["Look."]}, thread_id="t")
    done = app.invoke({"messages": ["And?"]}, thread_id="t")
    assert done["messages"][-1].text == "again"
    return done["messages"][2].content, json.dumps(server.requests[-1].body)


@pytest.mark.parametrize("case", DECLARATIONS)
@pytest.mark.sampled(2)
def test_images_of_tools_are_sent_or_described(strict: tuple[ProviderServer, PydanticAIModel], case: str) -> None:
    for kind, data in FILES.items():
        declared = DECLARATIONS[case](kind)
        part = {"type": "image", "data": base64.b64encode(data).decode(), "mime_type": declared}
        if case == "wrong" and kind not in SUPPORTED:
            continue  # only decoding it would show that it is not an image
        content, sent = call_tool(strict, part)
        images = [message for message in content if message["type"] == "image_url"]
        if kind in SUPPORTED:
            assert images == [{"type": "image_url", "image_url": {"url": f"data:{kind};base64,{part['data']}"}}]
        else:
            assert not images
            assert " was left out: models accept png, jpeg, gif and webp.]" in sent


def test_every_encoding_of_base64_is_decoded(strict: tuple[ProviderServer, PydanticAIModel]) -> None:
    for encoding, data in encodings(b"\x89PNG\r\n\x1a\n" + bytes(range(248, 256)) * 16 + b"\xfb").items():
        content, _ = call_tool(strict, {"type": "image", "data": data, "mime_type": "image/png"})
        assert content[1]["type"] == "image_url", encoding


@pytest.mark.parametrize("kind", ["image", "audio"])
@pytest.mark.parametrize("data", ["", "not base64!!", "QQ=Q", "a", "é" * 8])
def test_invalid_data_are_left_out(strict: tuple[ProviderServer, PydanticAIModel], data: str, kind: str) -> None:
    content, _ = call_tool(strict, {"type": kind, "data": data, "mime_type": f"{kind}/png".replace("o/png", "o/wav")})
    assert content[1]["type"] == "text"
    assert "was left out" in content[1]["text"]


def test_a_file_that_is_too_large_is_left_out(strict: tuple[ProviderServer, PydanticAIModel]) -> None:
    content, _ = call_tool(strict, {"type": "image", "data": "A" * 5_000_004, "mime_type": "image/png"})
    reason = "it has 3750003 bytes, and at most 3750000 are sent"
    assert content[1]["text"] == f"[An image of type image/png was left out: {reason}.]"


def test_threads_that_already_contain_unsupported_files_continue(
    strict: tuple[ProviderServer, PydanticAIModel],
) -> None:
    server, model = strict
    for kind, data in FILES.items():
        for declared in (kind, kind.upper()):
            url = f"data:{declared};base64,{base64.b64encode(data).decode()}"
            for image in ({"url": url}, url, {"url": "data:image/png;base64,"}, {"url": "data:image/png;base64,None?"}):
                part = {"type": "image_url", "image_url": image}
                call = Message("", role="assistant", tool_calls=(ToolCall("1", "look"),))
                result = Message([part], role="tool", name="look", tool_call_id="1")
                messages = [Message([{"type": "text", "text": "What is it?"}, part]), call, result]
                server.script(["seen"])
                answered = create_agent(model, retries=1).invoke({"messages": messages})["messages"]
                assert answered[-1].text == "seen"
                assert answered[0].content[1] == part, "the stored message does not change"


# -- requests that cannot be built


UNBUILDABLE: dict[str, dict[str, Any]] = {
    "a number that is not finite": {"extra": {"extra_body": {"a": float("nan")}}},
    "an object": {"extra": {"extra_body": {"a": object()}}},
}


@pytest.mark.parametrize("mode", ["whole", "streamed"])
@pytest.mark.parametrize("case", UNBUILDABLE)
def test_a_request_that_cannot_be_encoded_is_a_final_error(
    strict: tuple[ProviderServer, PydanticAIModel], case: str, mode: str
) -> None:
    server, model = strict
    if model.name.startswith("google"):
        pytest.skip("its library takes no extra_body")
    before = len(server.requests)
    request = ModelRequest([Message("x")], **UNBUILDABLE[case])
    with pytest.raises(ModelError, match="could not be built, and nothing was sent") as caught:
        run(model, request, mode)
    assert not isinstance(caught.value, ModelUnavailable)
    assert len(server.requests) == before


def run(model: PydanticAIModel, request: ModelRequest, mode: str) -> Any:
    async def call() -> Any:
        if mode == "whole":
            return await model.complete(request)
        return [event async for event in model.stream(request)]

    return asyncio.run(call())


@pytest.mark.parametrize("mode", ["whole", "streamed"])
def test_an_unsupported_image_in_a_request_is_a_final_error(
    strict: tuple[ProviderServer, PydanticAIModel], mode: str
) -> None:
    server, model = strict
    if not model.name.startswith("anthropic"):
        pytest.skip("its library sends images of any type")
    before = len(server.requests)
    part = {"type": "image_url", "image_url": {"url": "data:IMAGE/BMP;base64,Qk0="}}
    with pytest.raises(ModelError, match="could not be built, and nothing was sent") as caught:
        run(model, ModelRequest([Message([part])]), mode)
    assert not isinstance(caught.value, ModelUnavailable)
    assert len(server.requests) == before


@pytest.mark.parametrize("number", [float("nan"), float("inf"), -float("inf")])
def test_numbers_that_are_not_finite_are_sent_as_valid_json(
    strict: tuple[ProviderServer, PydanticAIModel], number: float
) -> None:
    server, model = strict
    server.script(["done"])
    call = Message("", role="assistant", tool_calls=(ToolCall("1", "t", {"a": [number], "b": 1.5}),))
    messages = [Message("x"), call, Message("r", role="tool", tool_call_id="1"), Message("y")]
    assert create_agent(model, retries=1).invoke({"messages": messages})["messages"][-1].text == "done"
    sent = json.dumps(server.requests[-1].body)
    assert "NaN" not in sent
    assert "Infinity" not in sent


def test_nan_in_the_arguments_of_a_model_is_sent_back_as_valid_json(
    strict: tuple[ProviderServer, PydanticAIModel],
) -> None:
    server, model = strict

    @tool
    def weigh(grams: float | None = None) -> str:
        return "weighed"

    arguments: Any = '{"grams": NaN}' if not model.name.startswith("google") else {"grams": None}
    server.script([Answer(calls=[Call("weigh", arguments)]), "done"])
    assert create_agent(model, [weigh], retries=1).invoke({"messages": ["x"]})["messages"][-1].text == "done"
    assert "NaN" not in json.dumps(server.requests[-1].body)
