"""A log outside of all databases: processes append a line for each effect, and a parent reads it.

A line is written with O_APPEND in one call, so the lines of all processes are in one order. What must hold:

- What was recorded is never begun again.
- An effect is done twice only if a crash came between the effect and its record: the process that did it first was
  killed or stopped. A process that was stopped may also do, once it is continued, what it had begun before.
"""

from __future__ import annotations

import json
import os
from collections import defaultdict
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

T = TypeVar("T")


class EffectsLog:
    """Appends lines."""

    def __init__(self, path: Path) -> None:
        self._file = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)

    def write(self, kind: str, key: str = "", pid: int | None = None, token: str = "") -> None:
        line = {"kind": kind, "key": key, "pid": pid if pid is not None else os.getpid(), "token": token}
        os.write(self._file, json.dumps(line).encode() + b"\n")

    def performed(self, runtime: Any, key: str, dawdle: Callable[[], object]) -> str:
        """Do an effect in a step of a node, between lines that say how far it is; its token."""

        def act() -> str:
            token = f"{key}#{os.urandom(6).hex()}"
            self.write("effect", key, token=token)
            dawdle()
            return token

        self.write("begin", key)
        token = runtime.step(key, act)
        self.write("recorded", key, token=token)
        return token


class Line(NamedTuple):
    place: int
    kind: str
    key: str
    pid: int
    token: str


def read_lines(path: Path) -> list[Line]:
    """The whole lines of a log."""
    *whole, _ = path.read_bytes().split(b"\n") if path.exists() else [b""]
    return [Line(place, **json.loads(line)) for place, line in enumerate(whole)]


def violations(lines: Sequence[Line]) -> list[str]:
    """What must not have happened, a sentence each."""
    halted = {line.pid for line in lines if line.kind in ("killed", "stopped")}
    stopped = {line.pid for line in lines if line.kind == "stopped"}
    by_key: defaultdict[str, list[Line]] = defaultdict(list)
    for line in lines:
        if line.key:
            by_key[line.key].append(line)
    return [told for key, some in by_key.items() for told in _violations_of(key, some, halted, stopped)]


def _violations_of(key: str, lines: Sequence[Line], halted: set[int], stopped: set[int]) -> list[str]:
    found: list[str] = []
    recorded = [line for line in lines if line.kind == "recorded"]
    if len({line.token for line in recorded}) > 1:
        found.append(f"{key} has two records: {recorded}")
    effects = [line for line in lines if line.kind == "effect"]
    for second, effect in enumerate(effects):
        begun = _begin_of(effect, lines)
        if any(line.place < begun for line in recorded):
            found.append(f"{key} was recorded, and begun again: {lines}")
        for first in effects[:second]:
            was_late = effect.pid in stopped and begun < first.place
            if first.pid not in halted and not was_late:
                found.append(f"{key} was done twice without a crash: {lines}")
    return found


def _begin_of(effect: Line, lines: Sequence[Line]) -> int:
    return max(one.place for one in lines if one.kind == "begin" and one.pid == effect.pid and one.place < effect.place)


def tokens(lines: Sequence[Line]) -> dict[str, set[str]]:
    """By key, the effects that were done."""
    done: defaultdict[str, set[str]] = defaultdict(set)
    for line in lines:
        if line.kind == "effect":
            done[line.key].add(line.token)
    return done
