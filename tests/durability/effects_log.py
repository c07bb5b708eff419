"""A log outside all databases: processes append a line for each effect, and their parent reads it.

Each line is written by one call with O_APPEND, so the lines of all processes have one order. Invariants:

- A recorded effect is never started again.
- An effect is executed twice only after a crash between the effect and its record: the process that executed it first
  was killed or stopped, or was late: on a busy machine it got no chance to renew its lease in time. A process that was
  stopped or late may also, once it continues, complete an effect that it had started.
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
    """Appends lines to the log."""

    def __init__(self, path: Path) -> None:
        self._file = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)

    def write(self, kind: str, key: str = "", pid: int | None = None, token: str = "") -> None:
        line = {"kind": kind, "key": key, "pid": pid if pid is not None else os.getpid(), "token": token}
        os.write(self._file, json.dumps(line).encode() + b"\n")

    def perform(self, runtime: Any, key: str, dawdle: Callable[[], object]) -> str:
        """Execute an effect in a step of a node, log its progress, and return its token."""

        def execute() -> str:
            token = f"{key}#{os.urandom(6).hex()}"
            self.write("effect", key, token=token)
            dawdle()
            return token

        self.write("begin", key)
        token = runtime.step(key, execute)
        self.write("recorded", key, token=token)
        return token


class Line(NamedTuple):
    """A line of the log."""

    index: int
    kind: str
    key: str
    pid: int
    token: str


class LogReader:
    """Reads the complete lines of a log, each of them once."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._position = 0
        self._count = 0

    def read_new(self) -> list[Line]:
        """Return the lines that were appended since the last call."""
        if not self._path.exists():
            return []
        with self._path.open("rb") as file:
            file.seek(self._position)
            *lines, rest = file.read().split(b"\n")
            self._position = file.tell() - len(rest)
        start, self._count = self._count, self._count + len(lines)
        return [Line(index, **json.loads(line)) for index, line in enumerate(lines, start)]


def read_lines(path: Path) -> list[Line]:
    """Return the complete lines of a log."""
    return LogReader(path).read_new()


def violations(lines: Sequence[Line]) -> list[str]:
    """Return a sentence for each violation of the invariants."""
    stopped = {line.pid for line in lines if line.kind in ("stopped", "late")}
    halted = stopped | {line.pid for line in lines if line.kind == "killed"}
    by_key: defaultdict[str, list[Line]] = defaultdict(list)
    for line in lines:
        if line.key:
            by_key[line.key].append(line)
    return [violation for key, group in by_key.items() for violation in _violations_of(key, group, halted, stopped)]


def _violations_of(key: str, lines: Sequence[Line], halted: set[int], stopped: set[int]) -> list[str]:
    result: list[str] = []
    recorded = [line for line in lines if line.kind == "recorded"]
    if len({line.token for line in recorded}) > 1:
        result.append(f"{key} has two records: {recorded}")
    effects = [line for line in lines if line.kind == "effect"]
    for second, effect in enumerate(effects):
        started = _start_of(effect, lines)
        if any(line.index < started for line in recorded):
            result.append(f"{key} was recorded, and started again: {lines}")
        for first in effects[:second]:
            was_late = effect.pid in stopped and started < first.index
            if first.pid not in halted and not was_late:
                result.append(f"{key} was executed twice without a crash: {lines}")
    return result


def _start_of(effect: Line, lines: Sequence[Line]) -> int:
    """Return the index of the line with which the process of an effect began it."""
    return max(
        line.index for line in lines if line.kind == "begin" and line.pid == effect.pid and line.index < effect.index
    )


def tokens(lines: Sequence[Line]) -> dict[str, set[str]]:
    """Return the tokens of all executions of each effect, by key."""
    by_key: defaultdict[str, set[str]] = defaultdict(set)
    for line in lines:
        if line.kind == "effect":
            by_key[line.key].add(line.token)
    return by_key
