"""Checks of journalled side effects: only a kill between an effect and its record may repeat the effect."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from tests.durability.chaos.actions import COPY_SUFFIX
from tests.durability.chaos.audit.state import AuditState, BrokenPromise, Note

EffectKey = tuple[Any, ...]
"""The thread, the task, and the name and number of a step."""


@dataclass
class Effect:
    """The history of a side effect."""

    executions: list[tuple[int, str]] = field(default_factory=list[tuple[int, str]])
    """The generations of the children that performed it, with the tokens of the executions."""
    recorded: str | None = None
    """The token that the step has returned."""


class EffectAudit:
    """Follows the effects of all children."""

    def __init__(self, state: AuditState) -> None:
        self._state = state
        self._effects: dict[EffectKey, Effect] = {}

    @property
    def recorded_tokens(self) -> set[str | None]:
        return {effect.recorded for effect in self._effects.values()}

    def check(self, generation: int, notes: Sequence[Note]) -> None:
        for note in notes:
            if note["kind"] == "copying":
                self._copy_records(note["source"], note["to"])
            elif note["kind"] == "effect":
                self._check_execution(generation, tuple(note["key"]), note["token"])
            elif note["kind"] == "recorded":
                self._check_record(tuple(note["key"]), note["token"])

    def _copy_records(self, source: str, to: str) -> None:
        """Add the records that a copy has from its thread."""
        for key, effect in list(self._effects.items()):
            if key[0] == source and effect.recorded:
                self._effects[to, *key[1:]] = Effect(effect.executions[:], effect.recorded)

    def _check_execution(self, generation: int, key: EffectKey, token: str) -> None:
        effect = self._effects.setdefault(key, Effect())
        if effect.recorded is not None:
            raise BrokenPromise(f"The effect {key} was done again, though {effect.recorded!r} was recorded.")
        if effect.executions and effect.executions[-1][0] == generation:
            raise BrokenPromise(f"The effect {key} was done twice by the same process.")
        self._state.count["effects repeated"] += bool(effect.executions)
        effect.executions.append((generation, token))

    def _check_record(self, key: EffectKey, token: str) -> None:
        """Check that a step returns the record, or the token of the last execution."""
        effect = self._effects.setdefault(key, Effect())
        if token != self._expected_token(key, effect):
            raise BrokenPromise(
                f"The effect {key} was done as {effect.executions}, has the record {effect.recorded!r}, and then "
                f"returned {token!r}."
            )
        effect.recorded = token

    def _expected_token(self, key: EffectKey, effect: Effect) -> str | None:
        if effect.recorded is not None or effect.executions:
            return effect.recorded or effect.executions[-1][1]
        # A copy may have a token that was just being recorded for its thread when the copy was made.
        original = self._effects.get((key[0].removesuffix(COPY_SUFFIX), *key[1:]))
        return original.executions[-1][1] if original is not None and original.executions else None
