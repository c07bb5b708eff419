"""Answers of tools that come one by one, as one answer: a generator's values become a list.

They are made while they are read, by the code of the tool: who reads them runs it. So those of plain iterators are read
on the worker thread that called the function, within the `timeout` of the tool, like all that a plain function does.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterable, Callable, Generator, Iterator
from types import TracebackType
from typing import Any, Final, Self, cast

from statewright.errors import ToolError
from statewright.runtime.concurrency.private_loop import run_privately
from statewright.runtime.concurrency.worker_threads import call_in_thread

MOST_VALUES: Final = 100_000
"""An endless generator would fill the memory: nobody sees that it does until the process is killed."""
MOST_TEXT: Final = 10_000_000
"""Characters and bytes of the values that are text, all together. No model reads a tenth of them."""
_DEEPEST: Final = 20
"""Levels of lists and maps in which generators are looked for."""
_SCALARS: Final = (str, int, float, bool, type(None), bytes)


async def gathered(tool: str, answer: Any, *, in_place: bool = False) -> Any:
    """Return an answer with lists for the iterators in it; itself if there are none.

    Plain ones are read on a worker thread, or on the present thread if the call is made `in_place`. Raises ToolError
    for too many values, and what the iterators raise.
    """
    with Gathering(tool) as gathering:
        if isinstance(answer, AsyncIterable):
            values = cast("AsyncIterable[Any]", answer)
            return run_privately(gathering.listed, values) if in_place else await gathering.listed(values)
        if not _holds_iterator(answer):
            return answer
        return gathering.whole(answer) if in_place else await call_in_thread(gathering.whole, answer)


class Gathering:
    """Reads the iterators of one call. When the call is left, a generator that a thread still reads is closed."""

    def __init__(self, tool: str) -> None:
        self._tool = tool
        self._values = 0
        self._text = 0
        self._is_left = False

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._is_left = True

    def of_call(self, call: Callable[[], Any]) -> Any:
        """What a call returns, read as far as that can be done without waiting."""
        return self.whole(call())

    def whole(self, answer: Any) -> Any:
        """Return an answer with tuples for the iterators in it; itself if there are none."""
        return self._whole(answer, 0) if _holds_iterator(answer) else answer

    async def listed(self, values: AsyncIterable[Any]) -> list[Any]:
        """Return all values of an asynchronous iterator."""
        found: list[Any] = []
        try:
            async for value in values:
                self._count(value)
                found.append(value)
        finally:
            if isinstance(values, AsyncGenerator):
                await values.aclose()
        return found

    def _whole(self, answer: Any, depth: int) -> Any:
        if isinstance(answer, Iterator):
            return self._read(cast("Iterator[Any]", answer), depth)
        if depth >= _DEEPEST or not _holds_iterator(answer):
            return answer
        if isinstance(answer, dict):
            items = cast("dict[Any, Any]", answer).items()
            return {key: self._whole(value, depth + 1) for key, value in items}
        return [self._whole(value, depth + 1) for value in cast("list[Any]", answer)]

    def _read(self, values: Iterator[Any], depth: int) -> tuple[Any, ...]:
        """All values, as a tuple: a list that a tool returns may mean several answers, see ToolNode."""
        found: list[Any] = []
        try:
            for value in values:
                self._count(value)
                found.append(self._whole(value, depth + 1) if depth < _DEEPEST else value)
                if self._is_left:
                    break
        finally:
            if isinstance(values, Generator):
                values.close()
        return tuple(found)

    def _count(self, value: Any) -> None:
        self._values += 1
        self._text += len(value) if isinstance(value, str | bytes) else 0
        if self._values > MOST_VALUES or self._text > MOST_TEXT:
            raise ToolError(
                f"Tool {self._tool!r} yielded more than {MOST_VALUES} values or {MOST_TEXT} characters. An answer must "
                f"come to an end; yield fewer, or answer with a summary of them."
            )


def _holds_iterator(answer: Any) -> bool:
    """Whether an answer is an iterator, or a list or map with one in it."""
    seen: set[int] = set()
    """Lists and maps by identity: they may hold each other."""
    unread: list[Any] = [answer]
    while unread:
        value = unread.pop()
        if isinstance(value, _SCALARS) or id(value) in seen:
            continue
        if isinstance(value, Iterator):
            return True
        if isinstance(value, dict | list | tuple):
            seen.add(id(cast("object", value)))
            unread.extend(
                cast("dict[Any, Any]", value).values() if isinstance(value, dict) else cast("list[Any]", value)
            )
    return False
