"""The main loop of a conversation: reads lines, runs turns and executes slash commands."""

from __future__ import annotations

import asyncio
from dataclasses import replace

from statewright.cli.chat.display import Display
from statewright.cli.chat.input import (
    Lines,
    QuestionPrompt,
    SlashCommand,
    check_is_not_command,
    format_commands,
    read_command,
)
from statewright.cli.chat.subject import ChatTarget
from statewright.cli.chat.turn import Ending, Turns
from statewright.cli.console.failure import DONE, FAILED, WAITING, UsageError
from statewright.cli.workflow.follow import SavedRun
from statewright.cli.workflow.run import new_thread_id


class Conversation:
    """Reads and handles lines until the user leaves."""

    def __init__(
        self,
        subject: ChatTarget,
        saved: SavedRun,
        display: Display,
        lines: Lines,
        loop: asyncio.Runner,
        *,
        is_saved: bool,
    ) -> None:
        """`is_saved`: True if the thread is stored in a database, so that it can be continued later."""
        self._subject = subject
        self._display = display
        self._lines = lines
        self._loop = loop
        self._is_saved = is_saved
        self._has_exited = False
        self._begin(saved)

    def _begin(self, saved: SavedRun) -> None:
        prompt = QuestionPrompt(self._lines, self._display)
        self._saved = saved
        self._turns = Turns(self._subject, saved.thread, self._display, prompt, self._loop)

    def run(self) -> int:
        """Read lines until the user leaves, and return the exit code."""
        ending = self._open_thread()
        while not self._has_exited:
            line = self._lines.read("> ")
            if line is None:
                break
            if line.strip():
                ending = self._handle_line(line.strip(), ending)
        if self._turns.thread_status().waits:
            return WAITING
        return FAILED if ending == "failed" and not self._lines.is_terminal else DONE

    def _open_thread(self) -> Ending:
        """Show the thread, and resume it if it waits for an answer."""
        self._show_thread()
        if self._lines.is_terminal:
            self._display.hint("/help lists commands. Ctrl-C stops an answer, Ctrl-D leaves.")
        status = self._turns.thread_status()
        if status.waits:
            return self._handle_pending_commands(self._turns.resume())
        if status.is_unfinished:
            self._display.hint("The last turn was not finished. /retry continues it.")
        return "done"

    def _handle_line(self, line: str, previous: Ending) -> Ending:
        """Handle a line and return how the last turn ended: `previous` for a command that runs nothing."""
        command = read_command(line)
        if command is not None:
            return self._run_command(command, previous)
        try:
            check_is_not_command(line)
        except UsageError as error:
            self._display.error(str(error))
            return previous
        return self._handle_pending_commands(self._turns.say(line))

    def _handle_pending_commands(self, ending: Ending) -> Ending:
        """Run the commands that were typed instead of an answer, asking again after each. Return the final ending."""
        while (command := self._turns.pending_command) is not None:
            self._turns.pending_command = None
            turns = self._turns
            self._run_command(command, ending)
            if command.name in ("skip", "retry") or self._has_exited or self._turns is not turns:
                return ending
            ending = self._turns.resume()
        return ending

    # -- commands

    def _run_command(self, command: SlashCommand, previous: Ending) -> Ending:
        match command.name:
            case "exit":
                self._has_exited = True
            case "new":
                self._begin(replace(self._saved, thread=new_thread_id()))
                self._show_thread()
                return "done"
            case "thread":
                self._display.line(self._describe_thread())
            case "history":
                self._show_history()
            case "retry":
                return self._retry(previous)
            case "skip":
                self._display.line("Your next message starts a new turn.")
            case _:
                self._display.line(format_commands())
        return previous

    def _retry(self, previous: Ending) -> Ending:
        status = self._turns.thread_status()
        if not (status.is_unfinished or status.waits):
            self._display.line("There is nothing to retry: the last turn is finished.")
            return previous
        return self._handle_pending_commands(self._turns.resume())

    def _show_thread(self) -> None:
        self._display.hint(self._describe_thread())

    def _describe_thread(self) -> str:
        hint = f"Continue it later with: {self._saved.chat_command}" if self._is_saved else "Nothing is saved."
        return f"Thread {self._saved.thread}. {hint}"

    def _show_history(self) -> None:
        messages = self._turns.past_messages()
        for speaker, text in messages:
            self._display.line(f"{speaker}: {text}")
        if not messages:
            self._display.line("There are no messages yet.")
