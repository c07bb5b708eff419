"""In what a request differs from those that were recorded, in words."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Final, cast

_ABSENT: Final = object()
_SHOWN: Final = 3
"""How many differences are told of."""
_WIDTH: Final = 60
"""Of a text, how many characters are shown."""
_BEFORE: Final = 20
"""How many of these stand before the place where two texts part."""


def told_difference(asked: Any, recorded: Sequence[Any]) -> str:
    """In what a request differs from the nearest of those recorded, the one with the fewest differing places."""
    found = min((list(_differences(one, asked, "")) for one in recorded), key=len)
    more = f"; and {len(found) - _SHOWN} more" if len(found) > _SHOWN else ""
    return "; ".join(found[:_SHOWN]) + more


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
            yield from _differences(_at(before_, number), _at(now_, number), f"{where}[{number}]")
    else:
        first, second = _shown(recorded, asked)
        yield f"{where}: recorded {first}, asked {second}"


def _at(items: list[Any], number: int) -> Any:
    return items[number] if number < len(items) else _ABSENT


def _shown(recorded: Any, asked: Any) -> tuple[str, str]:
    """Both sides; of long texts the part around the place where they part."""
    if not (isinstance(recorded, str) and isinstance(asked, str)):
        return _cut(recorded, 0), _cut(asked, 0)
    same = next((n for n, (a, b) in enumerate(zip(recorded, asked, strict=False)) if a != b), None)
    start = max((min(len(recorded), len(asked)) if same is None else same) - _BEFORE, 0)
    return _cut(recorded, start), _cut(asked, start)


def _cut(value: Any, start: int) -> str:
    if value is _ABSENT:
        return "nothing"
    text: str = value if isinstance(value, str) else repr(value)
    shown = text[start : start + _WIDTH]
    shown = ("..." if start else "") + shown + ("..." if start + _WIDTH < len(text) else "")
    return repr(shown) if isinstance(value, str) else shown
