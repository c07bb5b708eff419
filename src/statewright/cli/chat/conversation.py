"""The command `statewright chat`, and the loop that reads and handles the lines that the user types."""

from __future__ import annotations

import asyncio
from contextlib import nullcontext
from dataclasses import replace
from typing import Annotated

import typer

from statewright.checkpoint import InMemorySaver
from statewright.cli.chat.display import Display
from statewright.cli.chat.input import (
    LineReader,
    QuestionPrompt,
    SlashCommand,
    check_is_not_command,
    format_commands,
    read_command,
)
from statewright.cli.chat.target import ChatTarget, load_chat_target
from statewright.cli.chat.turn import TurnOutcome, TurnRunner
from statewright.cli.console.failure import CANCELLED, DONE, FAILED, WAITING, UsageError
from statewright.cli.console.options import DatabaseOptions, ModelOptions
from statewright.cli.console.saved_run import SavedRun
from statewright.cli.workflow.load import has_durable_saver
from statewright.cli.workflow.models import read_models
from statewright.cli.workflow.run import new_thread_id, open_run_saver


def chat(
    target: Annotated[
        str,
        typer.Argument(
            metavar="FILE",
            help="FILE.py[:NAME] with an agent, a network or a graph over messages, or a workflow in YAML.",
        ),
    ],
    thread: Annotated[
        str | None, typer.Option("--thread", metavar="ID", help="The conversation to continue. Default: a new one.")
    ] = None,
    reasoning: Annotated[bool, typer.Option("--reasoning", help="Show the reasoning of models.")] = False,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="Hide hints and token counts.")] = False,
    *,
    models: ModelOptions,
    database: DatabaseOptions,
) -> None:
    """Chat with an agent, a network or a workflow in the terminal.

    Every step is saved, and --thread continues a conversation. Ctrl-C stops an answer, or exits at the prompt.

    Without a terminal, each line of standard input is a turn. Exit codes: 0 done, 1 the last turn failed (without a
    terminal), 2 usage error, 3 a question was left open, 130 Ctrl-C.
    """
    chosen_models = read_models(models.model, models.base_url)
    chat_target = load_chat_target(target, chosen_models)
    saver = open_run_saver(chat_target.app, database)
    if saver is not None or not has_durable_saver(chat_target.app):
        chat_target = replace(chat_target, app=chat_target.app.with_services(checkpointer=saver or InMemorySaver()))
    saved = SavedRun(
        thread=thread or new_thread_id(),
        target=target,
        location_args=database.args if saver is not None else (),
        model_args=chosen_models.args,
    )
    display = Display(reasoning=reasoning, quiet=quiet, show_speakers=chat_target.has_several_speakers)
    with saver or nullcontext(), asyncio.Runner() as loop:
        try:
            raise SystemExit(Conversation(chat_target, saved, display, loop).run())
        except KeyboardInterrupt:
            display.move_to_new_line()
            raise SystemExit(CANCELLED) from None


class Conversation:
    """Reads lines and handles them, as messages or commands, until the user exits."""

    def __init__(self, target: ChatTarget, saved: SavedRun, display: Display, loop: asyncio.Runner) -> None:
        self._target = target
        self._display = display
        self._lines = LineReader()
        self._loop = loop
        self._has_exited = False
        self._select_thread(saved)

    def _select_thread(self, saved: SavedRun) -> None:
        """Continue the conversation on another thread."""
        prompt = QuestionPrompt(self._lines, self._display)
        self._saved = saved
        self._turns = TurnRunner(self._target, saved.thread, self._display, prompt, self._loop)

    def run(self) -> int:
        """Read and handle lines until the user exits, and return the exit code."""
        outcome = self._open_thread()
        while not self._has_exited:
            line = self._lines.read("> ")
            if line is None:
                break
            if line.strip():
                outcome = self._handle_line(line.strip(), outcome)
        if self._turns.thread_status().is_waiting:
            return WAITING
        return FAILED if outcome == "failed" and not self._lines.is_terminal else DONE

    def _open_thread(self) -> TurnOutcome:
        """Show the thread, and resume it if it is waiting for an answer."""
        self._show_thread()
        if self._lines.is_terminal:
            self._display.show_hint("Type /help for the commands. Ctrl-C stops an answer, Ctrl-D exits.")
        status = self._turns.thread_status()
        if status.is_waiting:
            return self._handle_pending_commands(self._turns.resume())
        if status.is_unfinished:
            self._display.show_hint("The last turn was not finished. /retry continues it.")
        return "done"

    def _handle_line(self, line: str, previous: TurnOutcome) -> TurnOutcome:
        """Handle a line. Return the outcome of the turn that it runs, or `previous` if it does not run a turn."""
        command = read_command(line)
        if command is not None:
            return self._run_command(command, previous)
        try:
            check_is_not_command(line)
        except UsageError as error:
            self._display.show_error(str(error))
            return previous
        return self._handle_pending_commands(self._turns.say(line))

    def _handle_pending_commands(self, outcome: TurnOutcome) -> TurnOutcome:
        """Run slash commands that were typed instead of an answer, and ask the question again after each of them.

        Return the outcome of the last turn.
        """
        while (command := self._turns.pending_command) is not None:
            self._turns.pending_command = None
            turns = self._turns
            self._run_command(command, outcome)
            if command.name in ("skip", "retry") or self._has_exited or self._turns is not turns:
                return outcome
            outcome = self._turns.resume()
        return outcome

    # -- commands

    def _run_command(self, command: SlashCommand, previous: TurnOutcome) -> TurnOutcome:
        match command.name:
            case "exit":
                self._has_exited = True
            case "new":
                self._select_thread(replace(self._saved, thread=new_thread_id()))
                self._show_thread()
                return "done"
            case "thread":
                self._display.show_lines(self._describe_thread())
            case "history":
                self._show_history()
            case "retry":
                return self._retry(previous)
            case "skip":
                self._display.show_lines("Your next message starts a new turn.")
            case _:
                self._display.show_lines(format_commands())
        return previous

    def _retry(self, previous: TurnOutcome) -> TurnOutcome:
        status = self._turns.thread_status()
        if not (status.is_unfinished or status.is_waiting):
            self._display.show_lines("There is nothing to retry: the last turn was finished.")
            return previous
        return self._handle_pending_commands(self._turns.resume())

    def _show_thread(self) -> None:
        self._display.show_hint(self._describe_thread())

    def _describe_thread(self) -> str:
        hint = (
            f"Continue it later with: {self._saved.chat_command}"
            if has_durable_saver(self._target.app)
            else "Nothing is saved."
        )
        return f"Thread {self._saved.thread}. {hint}"

    def _show_history(self) -> None:
        messages = self._turns.past_messages()
        for speaker, text in messages:
            self._display.show_lines(f"{speaker}: {text}")
        if not messages:
            self._display.show_lines("There are no messages yet.")
