"""Cassettes: files of model requests and their answers, which are recorded once and replayed in tests.

A cassette is JSON in UTF-8, with keys in a fixed order and records in the order of the requests, so that a new
recording differs from the old one only where the answers differ. It contains messages, tools and settings, but no API
keys or headers of the adapter. It may be edited by hand, because requests are compared by their JSON.
"""

from __future__ import annotations

import json
import os
import threading
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import zip_longest
from pathlib import Path
from typing import Any, Final, cast

from statewright.data.fingerprint import fingerprint
from statewright.errors import ModelError
from statewright.models.recorded.cassette_format import (
    JsonObject,
    decode_error,
    decode_event,
    decode_response,
    mask_settings,
)

VERSION: Final = 1
"""The version of the file format."""


@dataclass(slots=True, eq=False)
class Record:
    """One call of a model: the request, and its response or error."""

    request: JsonObject
    response: JsonObject | None = None
    pieces: list[JsonObject] = field(default_factory=list[JsonObject])
    """The streamed events, if the answer was streamed."""
    error: JsonObject | None = None
    used: bool = False
    """True if this process has replayed or made the record."""
    from_file: bool = False
    """True if the record was read from the file."""
    key: str = field(init=False, repr=False)
    """The fingerprint of the request."""
    _text: str | None = field(default=None, init=False, repr=False)
    """The cached JSON of the record."""

    def __post_init__(self) -> None:
        self.key = fingerprint(self.request)

    @property
    def has_answer(self) -> bool:
        return self.response is not None or self.error is not None

    def to_json(self) -> str:
        """Return the record as JSON text, which is cached, because the whole file is saved again after each call."""
        if self._text is None:
            fields = {"request": self.request, "pieces": self.pieces, "response": self.response, "error": self.error}
            present = {name: value for name, value in fields.items() if value}
            self._text = json.dumps(present, ensure_ascii=False, indent=1)
        return self._text


class Cassette:
    """The records of one file, which is read on first use. Models and threads may share a cassette."""

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.path = Path(path)
        self._lock = threading.RLock()
        self._records: list[Record] = []
        self._is_loaded = False

    def load(self) -> None:
        """Read the file, unless it has been read. Raises ModelError if it cannot be read; a missing file is empty."""
        with self._lock:
            if not self._is_loaded:
                self._records = [*_read_file(self.path), *self._records]
                self._is_loaded = True

    def start_anew(self) -> None:
        """Discard the records that come from the file. The next save replaces the file."""
        with self._lock:
            self._records = [record for record in self._records if not record.from_file]
            self._is_loaded = True

    @property
    def records(self) -> Sequence[Record]:
        """All records with an answer, in order."""
        with self._lock:
            self.load()
            return [record for record in self._records if record.has_answer]

    @property
    def unused(self) -> Sequence[Record]:
        """The records that this process has neither replayed nor made."""
        return [record for record in self.records if not record.used]

    def take(self, request: JsonObject) -> Record | None:
        """Return the first unused record with an equal request, and mark it as used; None if there is none."""
        key = fingerprint(request)
        with self._lock:
            self.load()
            for record in self._records:
                if not record.used and record.has_answer and record.key == key:
                    record.used = True
                    return record
        return None

    def begin(self, request: JsonObject) -> Record:
        """Add a record that has no answer yet, so that records have the order of the requests, not of the answers."""
        record = Record(request, used=True)
        with self._lock:
            self._records.append(record)
        return record

    def save(self) -> None:
        """Write all records with an answer to the file, which is replaced atomically."""
        with self._lock:
            records = ",\n".join(record.to_json() for record in self.records)
            text = f'{{\n"version": {VERSION},\n"records": [\n{records}\n]\n}}\n'
            self.path.parent.mkdir(parents=True, exist_ok=True)
            temporary = self.path.with_name(f"{self.path.name}.{os.getpid()}.part")
            temporary.write_bytes(text.encode(errors="surrogatepass"))
            os.replace(temporary, self.path)

    def drop(self, record: Record) -> None:
        """Remove a record without an answer."""
        with self._lock:
            self._records.remove(record)

    def missing_error(self, request: JsonObject) -> ModelError:
        """Return the error for a request for which there is no unused record."""
        return ModelError(
            f"The cassette {str(self.path)!r} has no answer for this request: {self._missing_reason(request)} "
            f"Record it with STATEWRIGHT_RECORD=new in the environment, or everything with STATEWRIGHT_RECORD=all."
        )

    def _missing_reason(self, request: JsonObject) -> str:
        records = self.records
        if not records:
            return "it is empty." if self.path.exists() else "the file does not exist."
        key = fingerprint(request)
        count = sum(record.key == key for record in records)
        if count:
            return f"it was recorded {count} {'time' if count == 1 else 'times'}, and all of these were replayed."
        difference = describe_difference(request, [record.request for record in records])
        return f"the most similar of {len(records)} recorded requests differs in {difference}."


def _read_file(path: Path) -> list[Record]:
    """Return the records in a file; an empty list if it does not exist. Raises ModelError if it is invalid."""
    try:
        data: Any = json.loads(path.read_bytes().decode(errors="surrogatepass"))
    except FileNotFoundError:
        return []
    except OSError as error:
        raise _unreadable_error(path, str(error)) from error
    except ValueError as error:
        raise _unreadable_error(path, f"it is not valid JSON: {error}") from error
    document = cast("dict[str, Any]", data) if isinstance(data, dict) else {}
    version = document.get("version")
    if version != VERSION:
        actual = "no version" if version is None else f"version {version!r}"
        raise _unreadable_error(path, f"it has {actual}, but this release of Statewright reads version {VERSION}")
    try:
        return [_read_record(record) for record in document["records"]]
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        raise _unreadable_error(path, f"a record is invalid: {type(error).__name__}: {error}") from error


def _read_record(data: JsonObject) -> Record:
    # Earlier releases did not mask secrets in the settings. They are masked here, so that such requests still match.
    request = mask_settings(data["request"])
    record = Record(request, data.get("response"), data.get("pieces") or [], data.get("error"), from_file=True)
    # Everything is decoded to validate it, so that a mistake in an edited file is reported when the file is read.
    for piece in record.pieces:
        decode_event(piece)
    if record.response is not None:
        decode_response(record.response)
    elif record.error is not None:
        decode_error(record.error)
    else:
        raise ValueError("it has neither a response nor an error")
    return record


def _unreadable_error(path: Path, reason: str) -> ModelError:
    return ModelError(f"The cassette {str(path)!r} cannot be read: {reason}. Repair it, or delete it and record again.")


# -- differences between requests

_ABSENT: Final = object()
_MAX_DIFFERENCES: Final = 3
"""Maximum number of differences that are reported."""
_EXCERPT_LENGTH: Final = 60
"""Maximum characters of an excerpt."""
_LEADING_CONTEXT: Final = 20
"""The number of characters in an excerpt before the first difference."""


def describe_difference(request: Any, recorded: Sequence[Any]) -> str:
    """Describe the differences between a request and the recorded request that has the fewest differences from it."""
    differences = min((list(_differences(record, request, "")) for record in recorded), key=len)
    more = f"; and {len(differences) - _MAX_DIFFERENCES} more" if len(differences) > _MAX_DIFFERENCES else ""
    return "; ".join(differences[:_MAX_DIFFERENCES]) + more


def _differences(recorded: Any, request: Any, path: str) -> Iterator[str]:
    """Yield the differences between two values, which are at `path` in the requests."""
    if recorded == request:
        return
    if isinstance(recorded, dict) and isinstance(request, dict):
        old, new = cast("dict[str, Any]", recorded), cast("dict[str, Any]", request)
        for key in dict.fromkeys((*old, *new)):
            key_path = f"{path}.{key}" if path else key
            yield from _differences(old.get(key, _ABSENT), new.get(key, _ABSENT), key_path)
    elif isinstance(recorded, list) and isinstance(request, list):
        old_items, new_items = cast("list[Any]", recorded), cast("list[Any]", request)
        for index, (old_item, new_item) in enumerate(zip_longest(old_items, new_items, fillvalue=_ABSENT)):
            yield from _differences(old_item, new_item, f"{path}[{index}]")
    else:
        old_excerpt, new_excerpt = _excerpts(recorded, request)
        yield f"{path}: recorded {old_excerpt}, requested {new_excerpt}"


def _excerpts(recorded: Any, request: Any) -> tuple[str, str]:
    """Return excerpts of two different values. If both are strings, the excerpts show the first difference."""
    if not (isinstance(recorded, str) and isinstance(request, str)):
        return _excerpt(recorded, 0), _excerpt(request, 0)
    difference = next(index for index, (old, new) in enumerate(zip_longest(recorded, request)) if old != new)
    start = max(difference - _LEADING_CONTEXT, 0)
    return _excerpt(recorded, start), _excerpt(request, start)


def _excerpt(value: Any, start: int) -> str:
    if value is _ABSENT:
        return "nothing"
    text: str = value if isinstance(value, str) else repr(value)
    end = start + _EXCERPT_LENGTH
    excerpt = ("..." if start else "") + text[start:end] + ("..." if end < len(text) else "")
    return repr(excerpt) if isinstance(value, str) else excerpt
