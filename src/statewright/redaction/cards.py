"""Numbers of payment cards in text: digits, also in groups, whose checksum is right (ISO/IEC 7812)."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

_NUMBER: Final = re.compile(r"(?:(?<![\w.])|(?<=\\[nrt]))[2-6]\d*+(?:[ \-]\d++)*+")
_GROUP: Final = re.compile(r"\d+")
_MIN_DIGITS, _MAX_DIGITS = 13, 19


def replace_cards(text: str, mark: str) -> str:
    """Return the text with a mark in place of each card number."""
    return _NUMBER.sub(lambda match: _replace(match[0], mark), text)


def has_card(text: str) -> bool:
    """Return True if the text contains a card number."""
    return any(_replace(match[0], "") != match[0] for match in _NUMBER.finditer(text))


def is_card(digits: str) -> bool:
    """Return True if the digits can be a card number, by their beginning and their checksum."""
    if digits[0] not in "23456" or len(set(digits)) == 1:
        return False
    doubled = (int(digit) * 2 if index % 2 else int(digit) for index, digit in enumerate(reversed(digits)))
    return sum(number - 9 if number > 9 else number for number in doubled) % 10 == 0


def _replace(digits: str, mark: str) -> str:
    """Return groups of digits, with a mark in place of those that form a card number together."""
    groups = list(_GROUP.finditer(digits))
    parts: list[str] = []
    end = index = 0
    while index < len(groups):
        count = next(_card_sizes(groups, index), 0)
        if count:
            parts.append(digits[end : groups[index].start()] + mark)
            end = groups[index + count - 1].end()
        index += count or 1
    return "".join(parts) + digits[end:]


def _card_sizes(groups: list[re.Match[str]], start: int) -> Iterator[int]:
    """Yield the numbers of groups from `start` that form a card number, the largest first."""
    digits, prefixes = "", list[tuple[int, str]]()
    for count, group in enumerate(groups[start : start + _MAX_DIGITS], 1):
        if len(digits) + len(group[0]) > _MAX_DIGITS:
            break
        digits += group[0]
        prefixes.append((count, digits))
    return (count for count, prefix in reversed(prefixes) if len(prefix) >= _MIN_DIGITS and is_card(prefix))
