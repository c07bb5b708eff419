"""The location of a saved run, and the command lines that continue or inspect it."""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from statewright.checkpoint import Interrupt


@dataclass(frozen=True, kw_only=True, slots=True)
class SavedRun:
    """The location of a saved run, from which command lines for users are made."""

    thread: str
    target: str
    """The argument FILE: a workflow, or `FILE.py[:NAME]`."""
    location_args: tuple[str, ...] = ()
    """Command-line arguments that select the database and the branch."""
    model_args: tuple[str, ...] = ()
    """Command-line arguments that select the models, or the script that replaces them."""
    is_in_database: bool = True
    """True if the run is in a database that other commands can open; False if it is in the graph's own saver."""

    def command(self, *words: str) -> str:
        """Return a command line with the arguments that select the database and the branch."""
        return shlex.join(["statewright", *words, *self.location_args])

    @property
    def show_command(self) -> str:
        """The command line that shows the thread."""
        return self.command("threads", "show", self.thread)

    @property
    def chat_command(self) -> str:
        """The command line that continues the conversation."""
        return self.command("chat", self.target, "--thread", self.thread, *self.model_args)

    def resume_command(self, *words: str) -> str:
        """Return the command line that resumes the run, with further arguments."""
        return self.command("resume", self.thread, self.target, *words, *self.model_args)

    def resume_commands(self, interrupts: Sequence[Interrupt]) -> list[str]:
        """Return the command lines that resume a run with open interrupts, one for each kind of interrupt."""
        questions = [interrupt for interrupt in interrupts if interrupt.kind == "question"]
        values = ["VALUE"] if len(interrupts) == 1 else [f"{question.id}=VALUE" for question in questions]
        events = sorted({interrupt.event for interrupt in interrupts if interrupt.event is not None})
        commands: list[str] = []
        if questions:
            commands.append(self.resume_command(*(word for value in values for word in ("--answer", value))))
        commands += [self.resume_command("--event", f"{event}=JSON") for event in events]
        if any(interrupt.due_at is not None for interrupt in interrupts):
            commands.append(self.resume_command("--due"))
        return commands

    def hint_lines(self, intro: str, commands: Iterable[str]) -> list[str]:
        """Return lines that tell users how to continue the run and, if other commands can open it, how to inspect it.

        `intro` introduces the command lines that continue the run.
        """
        lines = [intro, *(f"  {command}" for command in commands)]
        return [*lines, "Inspect it with:", f"  {self.show_command}"] if self.is_in_database else lines
