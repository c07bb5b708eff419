"""The JSON in the answer of a model, which may have a fence or sentences around it."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any, Final

_FENCED: Final = re.compile(r"```[\w-]*[ \t]*\n(.*?)```", re.S)
_BEGINNING: Final = re.compile(r"[{\[]")
MOST_BEGINNINGS: Final = 1000
"""How many brackets of a long text are tried as the beginning of JSON."""


def json_in(text: str) -> Any:
    """What a text means as JSON: the text itself, what stands in a fence, or the first map or list in it.

    Raises ValueError if there is none.
    """
    for candidate in (text, *_FENCED.findall(text)):
        try:
            return json.loads(candidate)
        except (ValueError, RecursionError):
            continue
    found = next(_embedded(text), None)
    if found is None:
        raise ValueError("there is no JSON in it")
    return found


def _embedded(text: str) -> Iterator[Any]:
    decoder = json.JSONDecoder()
    for number, begin in enumerate(_BEGINNING.finditer(text)):
        if number == MOST_BEGINNINGS:
            return
        try:
            yield decoder.raw_decode(text, begin.start())[0]
        except (ValueError, RecursionError):
            continue
