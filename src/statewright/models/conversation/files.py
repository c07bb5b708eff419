"""Images and audio in messages, in a form that every provider accepts.

If a provider does not know the type of an image, or cannot decode it, the provider refuses the whole request, and a
thread with such an image could never be continued. Therefore a file that no model accepts is replaced by a note.

Four types of images are accepted. Providers compare the declared type with the data, so the type is read from the first
bytes of the data if possible, and replaces the declared type. Other faults, such as truncated data, are not detected.
"""

from __future__ import annotations

import binascii
from collections.abc import Mapping
from typing import Any, Final, cast
from urllib.parse import unquote

from statewright.messages import Message, replace

MAX_FILE_LENGTH: Final = 5_000_000
"""Maximum characters of a file in base64, since Anthropic's limit is 5 MB per image. A longer file becomes a note."""
_IMAGE_TYPES: Final = ("image/png", "image/jpeg", "image/gif", "image/webp")
_AUDIO_FORMATS: Final = ("aac", "aiff", "flac", "mp3", "mpeg", "ogg", "wav")
_ALIASES: Final = {"image/jpg": "image/jpeg", "image/pjpeg": "image/jpeg", "image/x-png": "image/png"}
_SIGNATURES: Final = {
    b"\x89PNG\r\n\x1a\n": "image/png",
    b"\xff\xd8\xff": "image/jpeg",
    b"GIF8": "image/gif",
}
_URL_SAFE_TO_STANDARD: Final = str.maketrans("-_", "+/")
"""Maps the URL-safe alphabet of base64 to the standard alphabet."""
_MAX_QUOTED: Final = 100
"""Maximum characters of a media type or URI in a note."""

Part = Mapping[str, Any]


def image_part(data: str, media_type: str, **options: Any) -> dict[str, Any]:
    """Return an image as a message part, or a note if no model accepts it. `data` is base64.

    `options` are further fields of the part, such as `detail`.
    """
    declared = media_type.partition(";")[0].strip().lower()
    base64_data, problem = _read_base64(data)
    actual = _image_type(base64_data) or _ALIASES.get(declared, declared)
    if problem is None and actual not in _IMAGE_TYPES:
        problem = "models accept png, jpeg, gif and webp"
    if problem is not None:
        return omission_note("image", declared, problem)
    return {"type": "image_url", "image_url": {"url": f"data:{actual};base64,{base64_data}", **options}}


def audio_part(data: str, audio_format: str) -> dict[str, Any]:
    """Return audio as a message part, or a note if no model accepts it. `data` is base64."""
    declared = audio_format.partition(";")[0].strip().lower()
    standard_format = declared.removeprefix("x-")
    base64_data, problem = _read_base64(data)
    if problem is None and standard_format not in _AUDIO_FORMATS:
        problem = f"models accept {', '.join(_AUDIO_FORMATS)}"
    if problem is not None:
        return omission_note("audio file", declared, problem)
    return {"type": "input_audio", "input_audio": {"data": base64_data, "format": standard_format}}


def omission_note(file_kind: str, media_type: str, reason: str, *, uri: str = "") -> dict[str, Any]:
    """Return a text part that replaces a file, such as an "image", and says why the file is not sent."""
    location = f" at {uri[:_MAX_QUOTED]}" if uri else ""
    article = "An" if file_kind[0] in "aeiou" else "A"
    return {
        "type": "text",
        "text": f"[{article} {file_kind} of type {media_type[:_MAX_QUOTED]}{location} was left out: {reason}.]",
    }


def with_sendable_files(message: Message) -> Message:
    """Return a message with notes in place of the files that providers refuse; the same object if it has none.

    An image that is only referred to by its URL stays in the message, because its content is unknown.
    """
    if isinstance(message.content, str):
        return message
    parts = [_sendable_part(part) for part in message.content]
    return message if parts == message.content else replace(message, content=parts)


def _sendable_part(part: dict[str, Any]) -> dict[str, Any]:
    """Return a part of a message with its file in a form that providers accept, or a note in its place."""
    match part:
        case {"type": "image_url", "image_url": {"url": str(url), **options}} if _is_data_url(url):
            sendable = image_part(*_parse_data_url(url), **options)
        case {"type": "image_url", "image_url": str(url)} if _is_data_url(url):
            sendable = image_part(*_parse_data_url(url))
        case {"type": "input_audio", "input_audio": {"data": str(data), "format": str(audio_format)}}:
            sendable = audio_part(data, audio_format)
        case _:
            return part
    if sendable["type"] == "text":
        return sendable
    key = sendable["type"]  # the content is under a key with the same name as the type
    if isinstance(part[key], str):
        return part if sendable[key]["url"] == part[key] else {**part, **sendable}
    return {**part, key: {**cast("Part", part[key]), **sendable[key]}}


def _is_data_url(url: str) -> bool:
    return url[:5].lower() == "data:"


def _parse_data_url(url: str) -> tuple[str, str]:
    """Return the data and the media type of a data URL."""
    media_type, _, data = url[5:].partition(",")
    if not media_type.lower().endswith(";base64"):
        return "?", media_type  # providers accept only base64; "?" is not base64, so a note replaces the file
    return unquote(data) if "%" in data else data, media_type


def _read_base64(data: str) -> tuple[str, str | None]:
    """Return the data as standard, padded base64, and None; or an empty string, and why providers would refuse it."""
    base64_data = data
    if any(character in data for character in "-_\n\r\t "):
        base64_data = "".join(data.split()).translate(_URL_SAFE_TO_STANDARD)
    size = len(base64_data) * 3 // 4
    if len(base64_data) > MAX_FILE_LENGTH:  # checked before the data is decoded
        return "", f"it has {size} bytes, and at most {MAX_FILE_LENGTH * 3 // 4} are sent"
    if len(base64_data) % 4 and not base64_data.endswith("="):
        base64_data += "=" * (-len(base64_data) % 4)
    try:
        binascii.a2b_base64(base64_data, strict_mode=True)
    except ValueError:  # binascii.Error is a subclass
        return "", "its data is not valid base64"
    if not base64_data:
        return "", "it is empty"
    return base64_data, None


def _image_type(base64_data: str) -> str | None:
    """Return the media type of an image, recognised by its first bytes; None if it is not one of the accepted types."""
    first_bytes = binascii.a2b_base64(base64_data[:24])
    if first_bytes.startswith(b"RIFF") and first_bytes[8:12] == b"WEBP":
        return "image/webp"
    types = (media_type for signature, media_type in _SIGNATURES.items() if first_bytes.startswith(signature))
    return next(types, None)
