"""Files in messages: accepted ones are unchanged, others become notes."""

from __future__ import annotations

import base64
from typing import Any

import pytest

from statewright.messages import Message, ToolCall, read_tool_call
from statewright.models import ModelRequest, prepare_request
from statewright.models.conversation.files import MAX_FILE_LENGTH, image_part, with_sendable_files

PIXEL = base64.b64encode(b"\x89PNG\r\n\x1a\n" + bytes(8)).decode()
ACCEPTED: list[Any] = [
    {"type": "text", "text": "x"},
    {"type": "image_url", "image_url": {"url": f"data:image/png;base64,{PIXEL}", "detail": "low"}},
    {"type": "image_url", "image_url": f"data:image/png;base64,{PIXEL}"},
    {"type": "image_url", "image_url": {"url": "https://127.0.0.1/a.svg"}},
    {"type": "input_audio", "input_audio": {"data": "AAAA", "format": "wav"}},
    {"type": "file", "file": {"file_data": "data:application/pdf;base64,AAAA"}},
    {"type": "unknown"},
]


def test_accepted_files_are_not_copied() -> None:
    messages = [Message("text"), Message(ACCEPTED)]
    assert all(with_sendable_files(message) is message for message in messages)
    request = ModelRequest(messages)
    assert prepare_request(request) is request


@pytest.mark.parametrize("part", ACCEPTED[1:3])
def test_media_types_are_corrected_and_options_kept(part: Any) -> None:
    name = "image_url"
    url = f"data:IMAGE/JPG;base64,{PIXEL}"
    variant = {**part, name: url if isinstance(part[name], str) else {**part[name], "url": url}}
    message = with_sendable_files(Message([variant]))
    converted: Any = message.content[0]
    assert converted[name] == part[name] if isinstance(part[name], dict) else converted[name] == {"url": part[name]}


@pytest.mark.parametrize(
    ("url", "reason"),
    [
        (
            "data:image/svg+xml;base64,PHN2Zz4=",
            "image/svg+xml was left out: models accept png, jpeg, gif and webp",
        ),
        ("data:image/svg+xml,%3Csvg%3E", "its data is not valid base64"),
        ("data:image/png;base64,", "it is empty"),
        ("data:;base64,AAAA", "models accept"),
        ("DATA:image/png;base64,é", "its data is not valid base64"),
    ],
)
def test_rejected_files_become_notes(url: str, reason: str) -> None:
    message = with_sendable_files(Message([{"type": "image_url", "image_url": {"url": url}}]))
    assert reason in message.text


def test_percent_encoding_in_data_urls_is_decoded() -> None:
    encoded = PIXEL.replace("=", "%3D")
    message = with_sendable_files(
        Message([{"type": "image_url", "image_url": {"url": f"data:image/png;base64,{encoded}"}}])
    )
    assert message.content == [ACCEPTED[1] | {"image_url": {"url": f"data:image/png;base64,{PIXEL}"}}]


@pytest.mark.parametrize("number", [float("nan"), float("inf"), float("-inf")])
def test_non_finite_numbers_in_arguments_become_null(number: float) -> None:
    arguments = {"a": [1.5, {"b": number}], "c": (number,)}
    assert ToolCall("1", "t", arguments).written == '{"a": [1.5, {"b": null}], "c": [null]}'
    assert read_tool_call("1", "t", arguments).arguments == {"a": [1.5, {"b": None}], "c": [None]}
    assert read_tool_call("1", "t", '{"a": NaN, "b": 1e999}').arguments == {"a": None, "b": None}


def test_line_breaks_do_not_count_towards_the_size_of_a_file() -> None:
    data = base64.b64encode(b"\x89PNG\r\n\x1a\n" + bytes(MAX_FILE_LENGTH * 3 // 4 - 100)).decode()
    wrapped = "\n".join(data[at : at + 76] for at in range(0, len(data), 76))
    assert len(wrapped) > MAX_FILE_LENGTH > len(data)
    assert image_part(wrapped, "image/png")["type"] == "image_url"


def test_a_file_above_the_limit_is_replaced_by_a_note_with_both_sizes() -> None:
    part = image_part("A" * (MAX_FILE_LENGTH + 4), "image/png")
    assert "it has 3750003 bytes, and at most 3750000 are sent" in part["text"]
