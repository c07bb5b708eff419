"""Turns of a conversation: a run that is followed to its rest, its questions answered on the way."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Sequence
from contextlib import aclosing
from typing import Any, Final, Literal, NamedTuple, cast

from statewright.checkpoint import Interrupt
from statewright.cli.chat.display import Display
from statewright.cli.chat.input import Command
from statewright.cli.chat.questions import Asker
from statewright.cli.chat.subject import Subject
from statewright.cli.console.failure import place_lines, said
from statewright.cli.console.table import moment
from statewright.cli.threads.describe import due_nodes, status_of
from statewright.cli.workflow.follow import told_question
from statewright.errors import InvalidResume, StatewrightError, ThreadBusy
from statewright.futures import resolve
from statewright.graph import Command as GraphCommand
from statewright.runtime import OnBusy

Ending = Literal["done", "failed", "stopped", "waiting"]
"""How a turn ended: `stopped` by its user; `waiting` where a question is left open."""


class Standing(NamedTuple):
    """Where a thread stands."""

    status: str
    questions: Sequence[Interrupt] = ()
    ahead: Sequence[str] = ()
    """The nodes that are due."""

    @property
    def is_unfinished(self) -> bool:
        """Whether its last run failed, was stopped, was killed, or is still going on."""
        return self.status in ("failed", "pending", "running")

    @property
    def waits(self) -> bool:
        """Whether its run waits for something, or stands at a breakpoint."""
        return self.status in ("waiting", "paused")


NOWHERE: Final = Standing("new")


class _Input(NamedTuple):
    """With what a run goes on."""

    given: Any


class Turns:
    """The turns on one thread. All run on one event loop, which keeps the connections to models open."""

    def __init__(self, subject: Subject, thread: str, display: Display, asker: Asker, loop: asyncio.Runner) -> None:
        self._subject = subject
        self._display = display
        self._asker = asker
        self._loop = loop
        self._config = {"thread_id": thread}
        self.left_by: Command | None = None
        """The command that was given in the place of an answer."""

    # -- turns

    def say(self, text: str) -> Ending:
        """Let a turn begin with what the user says. What is unfinished on the thread is left."""
        return self._turn(lambda: self._until_rest(self._subject.given(text)))

    def go_on(self) -> Ending:
        """Go on where the thread stands: ask what is open, or run what is due."""
        return self._turn(lambda: self._from_here(self.standing()))

    def _turn(self, run: Callable[[], Ending]) -> Ending:
        self.left_by = None
        self._display.begin_turn()
        ending = run()
        self._display.end_turn()
        return ending

    def _from_here(self, standing: Standing) -> Ending:
        after = _Input(None) if standing.is_unfinished else self._after(standing)
        return self._until_rest(after.given) if isinstance(after, _Input) else after

    def _until_rest(self, given: Any) -> Ending:
        """Run, and ask what comes up, until the run is at rest or is left."""
        while True:
            self._display.begin()
            ending = self._run(given)
            self._display.end()
            after = self._after(self.standing()) if ending == "done" else ending
            if not isinstance(after, _Input):
                return after
            given = after.given

    def _after(self, standing: Standing) -> Ending | _Input:
        """With what the run goes on: the answers to all that is open; or how the turn ended."""
        if standing.status == "paused":
            return self._at_breakpoint(standing)
        answers: dict[str, Any] = {}
        for question in standing.questions:
            if question.kind != "question":
                self._display.note(f"The run waits: {told_question(question)}. Continue it with `statewright resume`.")
                continue
            answer = self._asker.ask(question)
            if isinstance(answer, Command):
                return self._left(answer)
            answers[question.id] = answer
        if answers:
            return _Input(cast(Any, GraphCommand)(resume=answers))
        return "waiting" if standing.questions else "done"

    def _at_breakpoint(self, standing: Standing) -> Ending | _Input:
        """Go on at a breakpoint, with an answer where one is taken."""
        names = ", ".join(dict.fromkeys(standing.ahead))
        takes_answer = self._subject.answers_pauses
        wanted = "Your answer goes on with it" if takes_answer else "Anything goes on with it"
        answer = self._asker.ask_at(f"The run stopped before {names}. {wanted}, /skip leaves it.")
        if isinstance(answer, Command):
            return self._left(answer)
        return _Input(cast(Any, GraphCommand)(resume=answer) if takes_answer else None)

    def _left(self, command: Command) -> Ending:
        self.left_by = command
        return "waiting"

    # -- runs

    def _run(self, given: Any) -> Ending:
        try:
            if not self._loop.run(self._follow(given)):
                self._display.line("Stopped. /retry continues.")
                return "stopped"
            self._tell_answer()
        except InvalidResume as error:  # the question is still open, and is asked again
            self._display.error(str(error))
        except Exception as error:
            self._display.error(said(error), *place_lines(error))
            return "failed"
        return "done"

    async def _follow(self, given: Any) -> bool:
        """Show a run while it goes; whether it came to its rest, for the user may stop it."""
        try:
            try:
                await self._show(given, "reject")
            except ThreadBusy:
                self._tell_busy()
                await self._show(given, "enqueue")
        except asyncio.CancelledError:
            return False
        return True

    async def _show(self, given: Any, on_busy: OnBusy) -> None:
        parts: Any = self._subject.app.astream(
            given,
            self._config,
            stream_mode=["messages", "tasks"],
            subgraphs=True,
            durability="sync",
            on_unfinished="discard",
            on_busy=on_busy,
        )
        async with aclosing(parts):
            async for _, mode, part in parts:
                self._display.take(mode, part)

    def _tell_busy(self) -> None:
        lease = resolve(self._saver.lease(self._config["thread_id"]))
        until = f", until {moment(lease.until)} at most if it was killed" if lease is not None else ""
        self._display.line(f"Another run holds the thread. Waiting for it{until}. Ctrl-C gives up.")

    def _tell_answer(self) -> None:
        """Say what the state holds as the answer, if nobody has said it."""
        snapshot = self._subject.app.get_state(self._config)
        answer = self._subject.answer(snapshot.values, is_over=not snapshot.next)
        if answer and not is_same_answer(answer, self._display.last_text):
            self._display.answer(answer)

    # -- the thread

    @property
    def _saver(self) -> Any:
        return self._subject.app.checkpointer

    def standing(self) -> Standing:
        """Where the thread stands now."""
        thread = self._config["thread_id"]
        saved = resolve(self._saver.load(thread))
        if saved is None:
            return NOWHERE
        return Standing(status_of(saved, resolve(self._saver.lease(thread))), saved.pending.open, due_nodes(saved))

    def past(self) -> Sequence[tuple[str, str]]:
        """What has been said, as speakers with their texts."""
        try:
            messages = self._subject.past(self._subject.app.get_state(self._config).values)
        except StatewrightError as error:
            self._display.error(said(error))
            return ()
        return [(_speaker(one), one.text) for one in messages if one.role in ("user", "assistant") and one.text]


def _speaker(message: Any) -> str:
    return "you" if message.role == "user" else message.name or "assistant"


def is_same_answer(one: str, other: str) -> bool:
    """Whether two texts say the same: as they stand, or as JSON."""
    if one.strip() == other.strip():
        return True
    try:
        return cast(object, json.loads(one)) == cast(object, json.loads(other))
    except (ValueError, RecursionError):
        return False
