"""A file of requests and answers, recorded once and replayed in tests.

It is JSON, in UTF-8, with keys in a fixed order and records in the order of the requests, so that a second recording
differs only where the model did. It contains messages, tools and settings, but never keys or headers, which adapters
keep to themselves. It may be edited by hand: a request is matched by its written form.
"""

from __future__ import annotations

import json
import os
import threading
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, cast

from statewright.errors import ModelError
from statewright.fingerprint import fingerprint
from statewright.models.recorded.cassette_format import (
    Plain,
    decode_error,
    decode_event,
    decode_response,
    mask_settings,
)

VERSION: Final = 1
"""The format that this version reads and writes."""


@dataclass(slots=True, eq=False)
class Record:
    """One call of a model: what it was asked, and what came of it."""

    request: Plain
    response: Plain | None = None
    pieces: list[Plain] = field(default_factory=list[Plain])
    """What it streamed, if it was recorded so."""
    error: Plain | None = None
    used: bool = False
    """Whether it was replayed, or has just been recorded."""
    from_file: bool = False
    key: str = field(init=False, repr=False)
    """The same for equal requests."""
    _text: str | None = field(default=None, init=False, repr=False)

    def __post_init__(self) -> None:
        self.key = fingerprint(self.request)

    @property
    def has_answer(self) -> bool:
        return self.response is not None or self.error is not None

    def to_json(self) -> str:
        """The record as it is written. It is put into words once, so that saving a long file again stays cheap."""
        if self._text is None:
            parts = {"request": self.request, "pieces": self.pieces, "response": self.response, "error": self.error}
            present = {name: value for name, value in parts.items() if value}
            self._text = json.dumps(present, ensure_ascii=False, indent=1)
        return self._text


class Cassette:
    """The records of one file; several models may share it, on any threads. It is read when it is first looked at."""

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.path = Path(path)
        self._lock = threading.RLock()
        self._records: list[Record] = []
        self._is_loaded = False

    def load(self) -> None:
        """Read the file, unless that was done. Raises ModelError for one that cannot be read; none is an empty one."""
        with self._lock:
            if not self._is_loaded:
                self._records = [*_read_file(self.path), *self._records]
                self._is_loaded = True

    def start_anew(self) -> None:
        """Leave aside what the file holds: the next save replaces all of it."""
        with self._lock:
            self._records = [record for record in self._records if not record.from_file]
            self._is_loaded = True

    @property
    def records(self) -> Sequence[Record]:
        """All records that have an answer, in their order."""
        with self._lock:
            self.load()
            return [record for record in self._records if record.has_answer]

    @property
    def unused(self) -> Sequence[Record]:
        """The records that were never replayed: nobody asks for them any more, or not yet."""
        return [record for record in self.records if not record.used]

    def take(self, request: Plain) -> Record | None:
        """The first record of an equal request that was not used yet; None if there is none."""
        wanted = fingerprint(request)
        with self._lock:
            self.load()
            for record in self._records:
                if not record.used and record.has_answer and record.key == wanted:
                    record.used = True
                    return record
        return None

    def begin(self, request: Plain) -> Record:
        """A record to be kept when its answer is there. Its place is the one where it was begun."""
        record = Record(request, used=True)
        with self._lock:
            self._records.append(record)
        return record

    def save(self) -> None:
        """Write all records that have an answer: the file is replaced as a whole, or stays as it was."""
        with self._lock:
            records = ",\n".join(record.to_json() for record in self.records)
            text = f'{{\n"version": {VERSION},\n"records": [\n{records}\n]\n}}\n'
            self.path.parent.mkdir(parents=True, exist_ok=True)
            written = self.path.with_name(f"{self.path.name}.{os.getpid()}.part")
            written.write_bytes(text.encode(errors="surrogatepass"))
            os.replace(written, self.path)

    def drop(self, record: Record) -> None:
        """Forget a record that was begun and came to nothing."""
        with self._lock:
            self._records.remove(record)

    def missing(self, request: Plain) -> ModelError:
        """Why there is no answer for a request, and what to do."""
        return ModelError(
            f"The cassette {str(self.path)!r} has no answer for this request: {self._reason(request)} "
            f"Record it with STATEWRIGHT_RECORD=new in the environment, or everything with STATEWRIGHT_RECORD=all."
        )

    def _reason(self, request: Plain) -> str:
        records = self.records
        if not records:
            return "it is empty." if self.path.exists() else "there is no such file."
        wanted = fingerprint(request)
        times = sum(record.key == wanted for record in records)
        if times:
            return f"it was recorded {times} {'time' if times == 1 else 'times'}, and all of these were replayed."
        difference = describe_difference(request, [record.request for record in records])
        return f"the nearest of {len(records)} recorded ones differs in {difference}."


def _read_file(path: Path) -> list[Record]:
    """The records of a file; none where there is no file."""
    try:
        data: Any = json.loads(path.read_bytes().decode(errors="surrogatepass"))
    except FileNotFoundError:
        return []
    except OSError as error:
        raise _unreadable_error(path, str(error)) from error
    except ValueError as error:
        raise _unreadable_error(path, f"it is not JSON: {error}") from error
    whole = cast("dict[str, Any]", data) if isinstance(data, dict) else {}
    version = whole.get("version")
    if version != VERSION:
        found = "no version" if version is None else f"the version {version!r}"
        raise _unreadable_error(path, f"it has {found}, and this version of Statewright reads {VERSION}")
    try:
        return [_read_record(record) for record in whole["records"]]
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        raise _unreadable_error(path, f"a record is not as one is written: {type(error).__name__}: {error}") from error


def _read_record(data: Plain) -> Record:
    request = mask_settings(data["request"])  # older versions wrote them, and it has to be found still
    record = Record(request, data.get("response"), data.get("pieces") or [], data.get("error"), from_file=True)
    # Made once to see that it can be: a wrong edit is found when the file is opened, and not in the middle of a test.
    _ = [decode_event(piece) for piece in record.pieces]
    if record.response is not None:
        decode_response(record.response)
    elif record.error is not None:
        decode_error(record.error)
    else:
        raise ValueError("it has neither a response nor an error")
    return record


def _unreadable_error(path: Path, reason: str) -> ModelError:
    return ModelError(f"The cassette {str(path)!r} cannot be read: {reason}. Mend it, or delete it and record anew.")


# -- differences between requests

_ABSENT: Final = object()
_MAX_DIFFERENCES: Final = 3
"""How many differences are told of."""
_WIDTH: Final = 60
"""Of a text, how many characters are shown."""
_BEFORE: Final = 20
"""How many of these stand before the place where two texts part."""


def describe_difference(asked: Any, recorded: Sequence[Any]) -> str:
    """In what a request differs from the nearest of those recorded, the one with the fewest differing places."""
    found = min((list(_differences(one, asked, "")) for one in recorded), key=len)
    more = f"; and {len(found) - _MAX_DIFFERENCES} more" if len(found) > _MAX_DIFFERENCES else ""
    return "; ".join(found[:_MAX_DIFFERENCES]) + more


def _differences(recorded: Any, asked: Any, where: str) -> Iterator[str]:
    if recorded == asked:
        return
    if isinstance(recorded, dict) and isinstance(asked, dict):
        before, now = cast("dict[str, Any]", recorded), cast("dict[str, Any]", asked)
        for key in dict.fromkeys((*before, *now)):
            place = f"{where}.{key}" if where else key
            yield from _differences(before.get(key, _ABSENT), now.get(key, _ABSENT), place)
    elif isinstance(recorded, list) and isinstance(asked, list):
        before_, now_ = cast("list[Any]", recorded), cast("list[Any]", asked)
        for number in range(max(len(before_), len(now_))):
            yield from _differences(_item_at(before_, number), _item_at(now_, number), f"{where}[{number}]")
    else:
        first, second = _excerpts(recorded, asked)
        yield f"{where}: recorded {first}, asked {second}"


def _item_at(items: list[Any], number: int) -> Any:
    return items[number] if number < len(items) else _ABSENT


def _excerpts(recorded: Any, asked: Any) -> tuple[str, str]:
    """Both sides; of long texts the part around the place where they part."""
    if not (isinstance(recorded, str) and isinstance(asked, str)):
        return _excerpt(recorded, 0), _excerpt(asked, 0)
    same = next((n for n, (a, b) in enumerate(zip(recorded, asked, strict=False)) if a != b), None)
    start = max((min(len(recorded), len(asked)) if same is None else same) - _BEFORE, 0)
    return _excerpt(recorded, start), _excerpt(asked, start)


def _excerpt(value: Any, start: int) -> str:
    if value is _ABSENT:
        return "nothing"
    text: str = value if isinstance(value, str) else repr(value)
    shown = text[start : start + _WIDTH]
    shown = ("..." if start else "") + shown + ("..." if start + _WIDTH < len(text) else "")
    return repr(shown) if isinstance(value, str) else shown
