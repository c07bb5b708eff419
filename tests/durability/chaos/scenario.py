"""Scenarios: the parameters of a file and its children, and the times of kills."""

from __future__ import annotations

import itertools
import random
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

from tests.durability.chaos.shapes import DURABILITIES, SHAPES


@dataclass(frozen=True)
class Scenario:
    """The parameters of a file and of the children that work on it."""

    shape: str
    driver: str
    durability: str
    small_segments: bool
    slow_disk: bool
    kills: int
    seed: str

    def __str__(self) -> str:
        options = ", small segments" * self.small_segments + ", slow disk" * self.slow_disk
        return f"{self.shape} ({self.driver} driver, durability {self.durability}{options}, seed {self.seed})"


class KillTime(NamedTuple):
    """The time of a kill: a delay after an event."""

    event: str
    """`birth`, `ready`, or an operation of the child: `commit`, `compaction`, `wait`, `effect`, `fork`, `copy`."""
    number: int
    """The number of the operation, from 1."""
    delay: float
    """In seconds."""


def draw_kill_time(rng: random.Random, shape: str) -> KillTime:
    """Draw the time of a kill: during start-up, at any time, or at an operation that the shape performs."""
    weights = {
        "birth": 2,
        "ready": 4,
        "commit": 4,
        "compaction": 4 if shape in ("loop", "chain") else 1,
        "wait": 4 if shape in ("waits", "effects", "subgraphs", "updates") else 0,
        "effect": {"effects": 5, "forks": 2, "copies": 2}.get(shape, 0),
        "fork": 8 if SHAPES[shape].forks else 0,
        "copy": 8 if SHAPES[shape].copies else 0,
    }
    (event,) = rng.choices(list(weights), list(weights.values()))
    if event == "birth":
        return KillTime(event, 0, rng.uniform(0.0, 0.5))
    if event == "ready":
        return KillTime(event, 0, 0.5 * rng.random() ** 2)
    max_number = {"commit": 100, "compaction": 25, "wait": 8, "effect": 25, "fork": 8, "copy": 3}[event]
    return KillTime(event, int(max_number ** rng.random()), 0.002 * rng.random() ** 2)


def scenarios(kills: int, seed: int, shapes: Sequence[str]) -> list[Scenario]:
    """Distribute the kills over shapes, drivers, durabilities, sizes of segments and speeds of the disk."""
    drivers = ("sync", "async")
    variants = list(itertools.product(drivers, DURABILITIES, (True, False), (True, False)))
    random.Random(seed).shuffle(variants)
    next_variant = itertools.cycle(variants)
    result: list[Scenario] = []
    for number, shape in enumerate(shapes):
        quota = kills // len(shapes) + (number < kills % len(shapes))
        count = max(1, min(8, quota // 4))
        for part in range(count):
            part_kills = quota // count + (part < quota % count)
            result.append(Scenario(shape, *next(next_variant), part_kills, f"{seed}-{shape}-{part}"))
    return [scenario for scenario in result if scenario.kills]
