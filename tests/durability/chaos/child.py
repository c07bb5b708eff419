"""A child: advances the threads of a file until it is killed."""

from __future__ import annotations

import asyncio
import itertools
import os
import random
import time
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from tests.durability.chaos.actions import (
    COPY_SUFFIX,
    Call,
    ThreadView,
    checkpoint_id_of,
    copy_of,
    exists,
    is_copied_when_idle,
    is_copy,
    next_action,
    thread_ids,
    view_thread,
)
from tests.durability.chaos.graphs import ExpectedFailure
from tests.durability.chaos.kill_trigger import trigger
from tests.durability.chaos.notes import Notes
from tests.durability.chaos.shapes import ShiftedClock, compile_app

from statewright import CompiledGraph
from statewright.storage.checkpoints import commits, segments
from statewright.storage.sqlite import SqliteDatabase, SqliteSaver

SMALL_SEGMENTS: Final = {"LONGEST": 8, "RECENT": 12, "SMALL": 64, "MOST_WITHOUT_BASE": 3}
"""Limits with which old checkpoints are compacted all the time."""


@dataclass(frozen=True, kw_only=True)
class Plan:
    """The parameters of a child."""

    folder: str
    shape: str
    driver: str
    durability: str
    small_segments: bool
    slow_disk: bool
    generation: int
    round: int
    """The first round with threads that may not be done."""
    is_last: bool
    """True if the child is not killed, and ends when that round is done."""
    kill_event: str
    """The operation that the parent waits for, or another event; empty for the last child."""
    kill_number: int


class Child:
    """Advances threads until it is killed."""

    def __init__(self, plan: Plan) -> None:
        self._plan = plan
        self._notes = Notes(Path(plan.folder), plan.generation)
        trigger.arm(plan.kill_event, plan.kill_number)
        pause = 0.006 if plan.slow_disk else 0.0
        trigger.watch_method(SqliteDatabase, "_write_group", "commit", self._notes, pause=pause)
        trigger.watch_method(segments.SegmentWriter, "compact", "compaction", self._notes)
        trigger.watch_method(CompiledGraph, "fork", "fork", self._notes)
        trigger.watch_method(CompiledGraph, "copy_thread", "copy", self._notes)
        self._saver = SqliteSaver(Path(plan.folder) / "runs.db")
        self._app = compile_app(plan.shape, self._saver, self._notes, plan.driver, plan.generation)
        self._clock = ShiftedClock(plan.generation)

    def run(self) -> None:
        os.write(1, b"ready\n")
        for number in itertools.count(self._plan.round):
            threads = thread_ids(self._plan.shape, number)
            if self._plan.driver == "async":
                asyncio.run(self._advance_all(threads))
            else:
                with ThreadPoolExecutor(len(threads)) as pool:
                    list(pool.map(self._advance, threads))
            if self._plan.is_last:
                break
        self._saver.close()

    async def _advance_all(self, threads: Sequence[str]) -> None:
        await asyncio.gather(*(self._advance_async(thread) for thread in threads))

    def _advance(self, thread: str) -> None:
        self._await_copy(thread)
        while True:
            view = view_thread(self._app, self._plan.shape, thread, may_copy=True)
            states = {branch: self._app.get_state(thread_id=thread, branch=branch) for branch in view.branches}
            action = self._next_action(thread, view, states)
            if action is None:
                return
            branch, (method, args, options) = action
            try:
                result = getattr(self._app, method)(*args, **options)
            except ExpectedFailure:
                continue
            self._note_return(thread, branch, result, options)

    async def _advance_async(self, thread: str) -> None:
        await asyncio.to_thread(self._await_copy, thread)
        while True:
            view = await asyncio.to_thread(view_thread, self._app, self._plan.shape, thread, may_copy=True)
            states = {branch: await self._app.aget_state(thread_id=thread, branch=branch) for branch in view.branches}
            action = self._next_action(thread, view, states)
            if action is None:
                return
            branch, (method, args, options) = action
            try:
                if method in ("fork", "copy_thread"):
                    result = await asyncio.to_thread(getattr(self._app, method), *args, **options)
                else:
                    result = await getattr(self._app, f"a{method}")(*args, **options)
            except ExpectedFailure:
                continue
            self._note_return(thread, branch, result, options)

    def _await_copy(self, thread: str) -> None:
        """Wait until a copy exists; make it here if it is to be made during a run of its thread."""
        if not is_copy(thread):
            return
        source = thread.removesuffix(COPY_SUFFIX)
        while not is_copied_when_idle(source) and not exists(self._app, thread):
            time.sleep(random.random() * 0.05)
            state = self._app.get_state(thread_id=source)
            if state.created_at is not None:
                self._note_copying(source, {"main": state})
                self._app.copy_thread(source, thread)
                self._notes.write("copied", to=thread)
        while not exists(self._app, thread):
            time.sleep(0.002)

    def _note_copying(self, source: str, states: Mapping[str, Any]) -> None:
        heads = {branch: checkpoint_id_of(state) for branch, state in states.items()}
        self._notes.write("copying", source=source, to=copy_of(source), heads=heads)

    def _note_forking(self, thread: str, config: Any, to: str) -> None:
        saved = [task.id for task in self._app.get_state(config).tasks if task.result is not None]
        self._notes.write("forking", branch=[thread, "", to], saved=saved)

    def _note_return(self, thread: str, branch: str, result: Any, options: Mapping[str, Any]) -> None:
        """Note that a call has returned, with the checkpoint that it returned."""
        if result is None:
            self._notes.write("copied", to=copy_of(thread))
            return
        checkpoint_id = result.get("configurable", {}).get("checkpoint_id")
        self._notes.write("returned", branch=[thread, "", options.get("branch", branch)], id=checkpoint_id)

    def _next_action(self, thread: str, view: ThreadView, states: Mapping[str, Any]) -> tuple[str, Call] | None:
        for branch, state in states.items():
            if state.created_at is not None:
                self._notes.write("read", branch=[thread, "", branch], id=checkpoint_id_of(state))
        if any(state.interrupts for state in states.values()):
            trigger.reach("wait")
        action = next_action(self._plan.shape, thread, view, states, self._clock.now())
        if action is None:
            self._notes.write("done", thread=thread)
            return None
        branch, (method, args, options) = action
        if method == "copy_thread":
            self._note_copying(thread, states)
        if method == "fork":
            self._note_forking(thread, args[0], options["branch"])
        if method in ("fork", "copy_thread"):
            return action
        options |= {"thread_id": thread, "branch": branch}
        if method != "update_state":
            options["durability"] = self._plan.durability
            if branch != "main":
                options["run_id"] = f"{branch}/{os.urandom(8).hex()}"  # read by `branch_of`
        return branch, (method, args, options)


def run_child(plan: Plan) -> None:
    if plan.small_segments:
        for name, value in SMALL_SEGMENTS.items():
            setattr(segments, name, value)
        setattr(commits, "RECENT", SMALL_SEGMENTS["RECENT"])  # noqa: B010  # elsewhere it is a constant
    Child(plan).run()
