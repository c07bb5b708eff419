"""`[spending_limits]`: what all runs of a workspace may spend together on a day."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, cast

from statewright.project.form import AMOUNT, COUNT
from statewright.project.lines import Keys
from statewright.project.reader import Reader

OTHERS: Final = "*"
"""In place of the name of a workspace: all that are not named."""
_LIMITS: Final = {"tokens_per_day": COUNT, "cost_per_day": AMOUNT, "requests_per_day": COUNT}
_SECTION: Final = "spending_limits"


def read_spending_limits(given: Any, reader: Reader) -> dict[str, Mapping[str, float]]:
    """The limits by the names of workspaces: what stands in the section itself is for all that have no table in it."""
    values = reader.entries(given, (_SECTION,))
    tables = {name: cast("Any", value) for name, value in values.items() if isinstance(value, dict)}
    own = {name: value for name, value in values.items() if name not in tables}
    if own and OTHERS in tables:
        reader.problem(
            (_SECTION, OTHERS),
            "The section says itself what holds for all other workspaces.",
            "Put everything that does into one of the two places.",
        )
    found = {name: _limits(table, (_SECTION, name), reader) for name, table in tables.items()}
    if own:
        found[OTHERS] = reader.table(own, (_SECTION,), _LIMITS, strict=True)
    return {name: limits for name, limits in found.items() if limits}


def _limits(table: Any, keys: Keys, reader: Reader) -> Mapping[str, float]:
    if not table:
        reader.problem(keys, "It limits nothing.", f"Give it some of {', '.join(_LIMITS)}.")
    return reader.table(table, keys, _LIMITS, strict=True)
