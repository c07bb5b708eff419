"""The attributes that filters read from each item, such as `author.name` or `0`.

A path is split once, and has a limited number of parts. Reading it from an item costs a step for each part.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from statewright.errors import ExpressionError
from statewright.workflow.states.expressions.evaluation import STEP_COST
from statewright.workflow.states.expressions.operators import describe_kind
from statewright.workflow.states.templates.rendering import Rendering
from statewright.workflow.states.templates.values import Missing, get_attribute, get_subscript

Reader = Callable[[Any], Any]
Attribute = str | int | None
LENGTH_LIMIT: Final = 1000
"""Characters of a path."""
PARTS_LIMIT: Final = 100
"""Parts of a path, or of several paths separated by commas."""


def part_reader(rendering: Rendering, attribute: Attribute) -> Reader:
    """Return a function that reads an attribute from an item; the result may be Missing.

    Without an attribute it returns the item itself. Raises ExpressionError if the attribute is not usable.
    """
    if attribute is None:
        return lambda item: item
    if isinstance(attribute, int):
        missing = Missing(f"[{attribute}]")

        def read_index(item: Any) -> Any:
            rendering.step()
            return get_subscript(item, attribute, missing)

        return read_index
    return _reader_of(rendering, _split(attribute, ".", PARTS_LIMIT))


def existing_part_reader(rendering: Rendering, attribute: Attribute) -> Reader:
    """As `part_reader`, for attributes that every item must have."""
    read = part_reader(rendering, attribute)

    def read_existing(item: Any) -> Any:
        part = read(item)
        if isinstance(part, Missing):
            raise ExpressionError(
                f"an item has no {str(attribute)!r}" if attribute is not None else "an item is missing"
            )
        return part

    return read_existing


def key_reader(rendering: Rendering, attribute: Attribute, *, case_sensitive: bool) -> Reader:
    """Return a function that reads what an item is compared by: one attribute, or several separated by commas."""

    def folded(part: Any) -> Any:
        if case_sensitive or not isinstance(part, str):
            return part
        rendering.spend(len(part))
        return part.lower()

    if isinstance(attribute, str) and "," in attribute:
        paths = _split(attribute, ",", PARTS_LIMIT)
        if sum(path.count(".") + 1 for path in paths) > PARTS_LIMIT:
            raise _too_long()
        readers = [existing_part_reader(rendering, path.strip()) for path in paths]
        return lambda item: [folded(read(item)) for read in readers]
    read_only = existing_part_reader(rendering, attribute)
    return lambda item: folded(read_only(item))


def _reader_of(rendering: Rendering, names: list[str]) -> Reader:
    cost, missing = STEP_COST * len(names), Missing(".".join(names))

    def read(item: Any) -> Any:
        rendering.spend(cost)
        for name in names:
            item = get_attribute(item, name, missing)
        return item

    return read


def _split(attribute: object, separator: str, limit: int) -> list[str]:
    if not isinstance(attribute, str):
        raise ExpressionError(f"an attribute is a text or a number, not {describe_kind(attribute)}")
    if len(attribute) > LENGTH_LIMIT or attribute.count(separator) >= limit:
        raise _too_long()
    return attribute.split(separator)


def _too_long() -> ExpressionError:
    return ExpressionError(f"an attribute has at most {PARTS_LIMIT} parts and {LENGTH_LIMIT} characters")
