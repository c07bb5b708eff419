"""Turns of a conversation. A turn streams runs, and asks their questions, until there is nothing left to do."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Sequence
from contextlib import aclosing
from typing import Any, Final, Literal, NamedTuple, cast

from statewright.checkpoint import Interrupt
from statewright.cli.chat.display import Display
from statewright.cli.chat.input import QuestionPrompt, SlashCommand
from statewright.cli.chat.target import ChatTarget
from statewright.cli.console.failure import format_failure, format_location
from statewright.cli.console.interrupts import format_interrupt
from statewright.cli.console.table import format_instant
from statewright.cli.threads.describe import due_nodes, thread_status
from statewright.clock import clock_of
from statewright.errors import InvalidResume, StatewrightError, ThreadBusy
from statewright.futures import resolve
from statewright.graph import Command
from statewright.runtime import OnBusy

TurnOutcome = Literal["done", "failed", "stopped", "waiting"]
"""How a turn ended: `stopped` by the user, or `waiting` with an open question."""


class ThreadStatus(NamedTuple):
    """The status of a thread, with its open interrupts and due nodes."""

    status: str
    """`new` for a thread that does not exist yet, else as returned by `describe.thread_status`."""
    interrupts: Sequence[Interrupt] = ()
    due_nodes: Sequence[str] = ()

    @property
    def is_unfinished(self) -> bool:
        """True if the last run failed, was stopped or killed, or is still running."""
        return self.status in ("failed", "pending", "running")

    @property
    def is_waiting(self) -> bool:
        """True if the run is waiting for an answer or an event, or is paused at a breakpoint."""
        return self.status in ("waiting", "paused")


NEW_THREAD: Final = ThreadStatus("new")


class _NextInput(NamedTuple):
    """The input of the next run of a turn."""

    value: Any


class TurnRunner:
    """Runs the turns of one thread, all on one event loop, so that connections to models stay open."""

    def __init__(
        self, target: ChatTarget, thread: str, display: Display, prompt: QuestionPrompt, loop: asyncio.Runner
    ) -> None:
        self._target = target
        self._display = display
        self._prompt = prompt
        self._loop = loop
        self._config = {"thread_id": thread}
        self.pending_command: SlashCommand | None = None
        """The slash command that the user typed instead of an answer in the last turn, if any."""

    # -- turns

    def say(self, text: str) -> TurnOutcome:
        """Run a turn for a message from the user. Unfinished work of earlier turns is discarded."""
        self.pending_command = None
        return self._run_turn(_NextInput(self._target.make_input(text)))

    def resume(self) -> TurnOutcome:
        """Resume the thread: ask its open questions, or run the nodes that are due."""
        self.pending_command = None
        status = self.thread_status()
        return self._run_turn(_NextInput(None) if status.is_unfinished else self._ask_questions(status))

    def _run_turn(self, start: TurnOutcome | _NextInput) -> TurnOutcome:
        """Alternately run the graph and ask its questions, until nothing is left to do or the user skips a question.

        `start` is the input of the first run, or the outcome of the turn if there is nothing to run.
        """
        self._display.begin_turn()
        result = start
        while isinstance(result, _NextInput):
            self._display.begin_run()
            outcome = self._run_graph(result.value)
            self._display.end_run()
            result = self._ask_questions(self.thread_status()) if outcome == "done" else outcome
        self._display.end_turn()
        return result

    def _ask_questions(self, status: ThreadStatus) -> TurnOutcome | _NextInput:
        """Ask the open questions. Return the answers as the input of the next run, or else the outcome of the turn."""
        if status.status == "paused":
            return self._ask_at_breakpoint(status)
        answers: dict[str, Any] = {}
        for interrupt in status.interrupts:
            if interrupt.kind != "question":
                self._display.show_note(
                    f"The run is waiting for: {format_interrupt(interrupt)}. Continue it with `statewright resume`."
                )
                continue
            answer = self._prompt.ask(interrupt)
            if isinstance(answer, SlashCommand):
                return self._suspend_for(answer)
            answers[interrupt.id] = answer
        if answers:
            return _NextInput(cast(Any, Command)(resume=answers))
        return "waiting" if status.interrupts else "done"

    def _ask_at_breakpoint(self, status: ThreadStatus) -> TurnOutcome | _NextInput:
        """Ask the user whether to pass a breakpoint. Return the input of the next run, or the outcome of the turn."""
        names = ", ".join(dict.fromkeys(status.due_nodes))
        takes_answer = self._target.answers_breakpoints
        hint = "Your answer continues it" if takes_answer else "Any input continues it"
        answer = self._prompt.ask_at_breakpoint(f"The run stopped before {names}. {hint}; /skip leaves it stopped.")
        if isinstance(answer, SlashCommand):
            return self._suspend_for(answer)
        return _NextInput(cast(Any, Command)(resume=answer) if takes_answer else None)

    def _suspend_for(self, command: SlashCommand) -> TurnOutcome:
        """Leave the question open, and store the command, which the conversation then runs."""
        self.pending_command = command
        return "waiting"

    # -- runs

    def _run_graph(self, run_input: Any) -> TurnOutcome:
        """Run the graph and show its output. Errors are shown, not raised."""
        try:
            if not self._loop.run(self._stream_run(run_input)):
                self._display.show_lines("Stopped. Type /retry to continue.")
                return "stopped"
            self._show_answer()
        except InvalidResume as error:  # the question is still open, so it is going to be asked again
            self._display.show_error(str(error))
        except Exception as error:
            self._display.show_error(format_failure(error), *format_location(error))
            return "failed"
        return "done"

    async def _stream_run(self, run_input: Any) -> bool:
        """Stream a run to the display. Return False if the user stopped it."""
        try:
            try:
                await self._stream(run_input, "reject")
            except ThreadBusy:
                self._show_busy()
                await self._stream(run_input, "enqueue")
        except asyncio.CancelledError:  # by `asyncio.Runner`, if the user has pressed Ctrl-C
            return False
        return True

    async def _stream(self, run_input: Any, on_busy: OnBusy) -> None:
        parts: Any = self._target.app.astream(
            run_input,
            self._config,
            stream_mode=["messages", "tasks"],
            subgraphs=True,
            durability="sync",
            on_unfinished="discard",
            on_busy=on_busy,
        )
        async with aclosing(parts):
            async for _, mode, part in parts:
                self._display.show_part(mode, part)

    def _show_busy(self) -> None:
        lease = resolve(self._saver.lease(self._config["thread_id"]))
        until = f", until {format_instant(lease.until)} at the latest if it was killed" if lease is not None else ""
        self._display.show_lines(f"Another run holds the thread. Waiting for it{until}. Press Ctrl-C to give up.")

    def _show_answer(self) -> None:
        """Show the final answer in the state, unless the same text has been streamed."""
        snapshot = self._target.app.get_state(self._config)
        answer = self._target.final_answer(snapshot.values, is_over=not snapshot.next)
        if answer and not is_same_answer(answer, self._display.last_text):
            self._display.show_answer(answer)

    # -- the thread

    @property
    def _saver(self) -> Any:
        return self._target.app.checkpointer

    def thread_status(self) -> ThreadStatus:
        """Return the current status of the thread."""
        thread = self._config["thread_id"]
        saved = resolve(self._saver.load(thread))
        if saved is None:
            return NEW_THREAD
        lease, now = resolve(self._saver.lease(thread)), clock_of(self._saver).now()
        return ThreadStatus(thread_status(saved, lease, now), saved.pending.open, due_nodes(saved))

    def past_messages(self) -> Sequence[tuple[str, str]]:
        """Return the conversation so far, as pairs of a speaker and a text."""
        try:
            messages = self._target.past_messages(self._target.app.get_state(self._config).values)
        except StatewrightError as error:
            self._display.show_error(format_failure(error))
            return ()
        return [
            ("you" if message.role == "user" else message.name or "assistant", message.text)
            for message in messages
            if message.role in ("user", "assistant") and message.text
        ]


def is_same_answer(first: str, second: str) -> bool:
    """Return True if two texts are equal, literally or as JSON."""
    if first.strip() == second.strip():
        return True
    try:
        return cast(object, json.loads(first)) == cast(object, json.loads(second))
    except (ValueError, RecursionError):
        return False
