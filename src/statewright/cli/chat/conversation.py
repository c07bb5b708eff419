"""A conversation from its first line to its last: what is typed, and what comes of it."""

from __future__ import annotations

import asyncio
from dataclasses import replace

from statewright.cli.chat.display import Display
from statewright.cli.chat.input import Command, Lines, check_is_text, read_command, told_commands
from statewright.cli.chat.questions import Asker
from statewright.cli.chat.subject import Subject
from statewright.cli.chat.turn import Ending, Turns
from statewright.cli.console.failure import DONE, FAILED, WAITING, WrongUse
from statewright.cli.workflow.follow import Saved
from statewright.cli.workflow.run import new_thread_id


class Conversation:
    """Takes lines until somebody leaves."""

    def __init__(
        self, subject: Subject, saved: Saved, display: Display, lines: Lines, loop: asyncio.Runner, *, is_kept: bool
    ) -> None:
        """`is_kept`: whether the thread outlives the process."""
        self._subject = subject
        self._display = display
        self._lines = lines
        self._loop = loop
        self._is_kept = is_kept
        self._is_left = False
        self._begin(saved)

    def _begin(self, saved: Saved) -> None:
        asker = Asker(self._lines, self._display)
        self._saved = saved
        self._turns = Turns(self._subject, saved.thread, self._display, asker, self._loop)

    def hold(self) -> int:
        """Talk until somebody leaves; the exit code."""
        ending = self._take_up()
        while not self._is_left:
            line = self._lines.read("> ")
            if line is None:
                break
            if line.strip():
                ending = self._take(line.strip(), ending)
        if self._turns.standing().waits:
            return WAITING
        return FAILED if ending == "failed" and not self._lines.is_terminal else DONE

    def _take_up(self) -> Ending:
        """Say which thread this is, and go on where it waits for an answer."""
        self._tell_thread()
        if self._lines.is_terminal:
            self._display.hint("/help lists commands. Ctrl-C stops an answer, Ctrl-D leaves.")
        standing = self._turns.standing()
        if standing.waits:
            return self._settled(self._turns.go_on())
        if standing.is_unfinished:
            self._display.hint("The last turn was not finished. /retry continues it.")
        return "done"

    def _take(self, line: str, before: Ending) -> Ending:
        """What comes of a line; a command that runs nothing changes nothing about how it stands."""
        command = read_command(line)
        if command is not None:
            return self._perform(command, before)
        try:
            check_is_text(line)
        except WrongUse as error:
            self._display.error(str(error))
            return before
        return self._settled(self._turns.say(line))

    def _settled(self, ending: Ending) -> Ending:
        """The ending, once commands are done that were given in the place of an answer; then it is asked again."""
        while (command := self._turns.left_by) is not None:
            self._turns.left_by = None
            turns = self._turns
            self._perform(command, ending)
            if command.name in ("skip", "retry") or self._is_left or self._turns is not turns:
                return ending
            ending = self._turns.go_on()
        return ending

    # -- commands

    def _perform(self, command: Command, before: Ending) -> Ending:
        match command.name:
            case "exit":
                self._is_left = True
            case "new":
                self._begin(replace(self._saved, thread=new_thread_id()))
                self._tell_thread()
                return "done"
            case "thread":
                self._display.line(self._told_thread())
            case "history":
                self._tell_history()
            case "retry":
                return self._retried(before)
            case "skip":
                self._display.line("What you say next starts a new turn.")
            case _:
                self._display.line(told_commands())
        return before

    def _retried(self, before: Ending) -> Ending:
        standing = self._turns.standing()
        if not (standing.is_unfinished or standing.waits):
            self._display.line("There is nothing to retry: the last turn is finished.")
            return before
        return self._settled(self._turns.go_on())

    def _tell_thread(self) -> None:
        self._display.hint(self._told_thread())

    def _told_thread(self) -> str:
        kept = f"Come back with: {self._saved.chat}" if self._is_kept else "Nothing is saved."
        return f"Thread {self._saved.thread}. {kept}"

    def _tell_history(self) -> None:
        past = self._turns.past()
        for speaker, text in past:
            self._display.line(f"{speaker}: {text}")
        if not past:
            self._display.line("Nothing has been said yet.")
