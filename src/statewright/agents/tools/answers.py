"""Convert the answers of tools to text or to message parts with images and audio, and read the iterators in answers."""

from __future__ import annotations

import json
from collections.abc import AsyncGenerator, AsyncIterable, Callable, Generator, Iterator, Mapping
from typing import Any, Final, Self, cast

from statewright.errors import ToolError
from statewright.models.conversation.files import audio_part, image_part, omission_note
from statewright.runtime.concurrency.private_loop import run_on_private_loop
from statewright.runtime.concurrency.thread_calls import call_in_thread


def as_text(value: Any) -> str:
    """Return text unchanged, and any other value as JSON text, or as `str` renders it if JSON cannot express it."""
    if isinstance(value, str):
        return value
    try:
        return json.dumps(value, ensure_ascii=False, default=str)
    except (TypeError, ValueError, RecursionError):
        pass
    try:
        return str(value)
    except Exception:  # an integer with thousands of digits, or an error in `__str__` of a user-defined class
        return f"<{type(value).__name__}>"


# -- images and audio


def content_parts(answer: Any) -> list[dict[str, Any]] | None:
    """Return an answer that is a list of parts, including images or audio, as message parts; None for other answers.

    The parts of the answer are mappings, as the tools of MCP servers return them: `{"type": "image", "data": <base64>,
    "mime_type": ...}`, the same with the type `audio`, and `{"type": "text", "text": ...}`. Other parts are converted
    to text, as JSON.
    """
    if not isinstance(answer, list) or not answer:
        return None
    parts = cast("list[Any]", answer)
    if not all(map(_is_part, parts)) or not any(map(_is_file, parts)):
        return None
    return [_convert_part(part) for part in parts]


def _is_part(part: Any) -> bool:
    return isinstance(part, Mapping) and isinstance(cast("Mapping[str, Any]", part).get("type"), str)


def _is_file(part: Mapping[str, Any]) -> bool:
    """Return True for an image, audio, or the binary content of a resource."""
    if part["type"] == "resource":
        return isinstance(part.get("blob"), str)
    return part["type"] in ("image", "audio") and isinstance(part.get("data"), str)


def _convert_part(part: Mapping[str, Any]) -> dict[str, Any]:
    if not _is_file(part):
        is_text = part["type"] == "text" and isinstance(part.get("text"), str)
        return {"type": "text", "text": part["text"] if is_text else json.dumps(dict(part), ensure_ascii=False)}
    media_type = str(part.get("mime_type") or part.get("mimeType") or "application/octet-stream")
    if part["type"] == "resource":
        size = len(part["blob"]) * 3 // 4
        return omission_note("file", media_type, f"it has {size} bytes", uri=str(part.get("uri") or ""))
    if part["type"] == "audio":
        return audio_part(part["data"], media_type.partition("/")[2])
    return image_part(part["data"], media_type)


# -- iterators

MAX_VALUES: Final = 100_000
"""Maximum number of values that are read from iterators, because an endless generator would use up all memory."""
MAX_TEXT: Final = 10_000_000
"""Maximum characters and bytes of all values together, far more than any model can read."""
_MAX_DEPTH: Final = 20
"""Maximum depth to which nested lists and mappings are searched for iterators."""
_SCALARS: Final = (str, int, float, bool, type(None), bytes)


async def read_iterators(tool: str, answer: Any, *, in_place: bool = False) -> Any:
    """Return an answer in which iterators are replaced by their values; the same object if it has no iterators.

    Reading a plain iterator runs the tool's code, so it is read on a worker thread; with `in_place`, on the current
    thread. Raises ToolError for too many values, and the errors of the iterators.
    """
    with IteratorReader(tool) as reader:
        if isinstance(answer, AsyncIterable):
            values = cast("AsyncIterable[Any]", answer)
            return run_on_private_loop(reader.read_async, values) if in_place else await reader.read_async(values)
        if not _holds_iterator(answer):
            return answer
        return reader.read(answer) if in_place else await call_in_thread(reader.read, answer)


class IteratorReader:
    """Reads the iterators in the answer of one tool call.

    At the end of its `with` block, a worker thread that is still reading an iterator stops after the current value.
    """

    def __init__(self, tool: str) -> None:
        self._tool = tool
        self._values = 0
        self._text = 0
        self._is_closed = False

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._is_closed = True

    def read_call(self, call: Callable[[], Any]) -> Any:
        """Call a function, and return its answer with iterators replaced as by `read`."""
        return self.read(call())

    def read(self, answer: Any) -> Any:
        """Return an answer in which plain iterators are replaced by tuples; the same object if it has none."""
        return self._read_nested(answer, 0)

    async def read_async(self, values: AsyncIterable[Any]) -> list[Any]:
        """Return all values of an asynchronous iterator."""
        items: list[Any] = []
        try:
            async for value in values:
                self._count(value)
                items.append(value)
        finally:
            if isinstance(values, AsyncGenerator):
                await values.aclose()
        return items

    def _read_nested(self, answer: Any, depth: int) -> Any:
        if isinstance(answer, Iterator):
            return self._read_iterator(cast("Iterator[Any]", answer), depth)
        if depth >= _MAX_DEPTH or not _holds_iterator(answer):
            return answer
        if isinstance(answer, dict):
            items = cast("dict[Any, Any]", answer).items()
            return {key: self._read_nested(value, depth + 1) for key, value in items}
        return [self._read_nested(value, depth + 1) for value in cast("list[Any]", answer)]

    def _read_iterator(self, values: Iterator[Any], depth: int) -> tuple[Any, ...]:
        """Return all values as a tuple, because a list may stand for several answers (see ToolNode)."""
        items: list[Any] = []
        try:
            for value in values:
                self._count(value)
                items.append(self._read_nested(value, depth + 1) if depth < _MAX_DEPTH else value)
                if self._is_closed:
                    break
        finally:
            if isinstance(values, Generator):
                values.close()
        return tuple(items)

    def _count(self, value: Any) -> None:
        self._values += 1
        self._text += len(value) if isinstance(value, str | bytes) else 0
        if self._values > MAX_VALUES or self._text > MAX_TEXT:
            raise ToolError(
                f"Tool {self._tool!r} yielded more than {MAX_VALUES} values or {MAX_TEXT} characters. An answer must "
                f"be finite; yield fewer values, or a summary of them."
            )


def _holds_iterator(answer: Any) -> bool:
    """Return True for an iterator, or for a list or mapping that contains one."""
    seen: set[int] = set()
    """The ids of the lists and mappings that were visited, since they may contain themselves."""
    stack: list[Any] = [answer]
    while stack:
        value = stack.pop()
        if isinstance(value, _SCALARS) or id(value) in seen:
            continue
        if isinstance(value, Iterator):
            return True
        if isinstance(value, dict | list | tuple):
            seen.add(id(cast("object", value)))
            stack.extend(
                cast("dict[Any, Any]", value).values() if isinstance(value, dict) else cast("list[Any]", value)
            )
    return False
