"""`statewright chat`: a conversation on the terminal, saved so that it can be come back to."""

from __future__ import annotations

from contextlib import nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from statewright.cli.console.options import BaseUrlOption, DatabaseOption, KeyOption, ModelOption

if TYPE_CHECKING:
    from statewright.cli.chat.subject import Subject
    from statewright.cli.workflow.follow import Saved
    from statewright.cli.workflow.models import Models
    from statewright.storage.sqlite import SqliteSaver


def chat(
    target: Annotated[
        str,
        typer.Argument(
            metavar="FILE",
            help="FILE.py[:NAME] with an agent, a network or a graph over messages; or a workflow in YAML.",
        ),
    ],
    thread: Annotated[
        str | None, typer.Option("--thread", metavar="ID", help="The conversation to continue. Default: a new one.")
    ] = None,
    model: ModelOption = None,
    base_url: BaseUrlOption = None,
    database: DatabaseOption = None,
    key_file: KeyOption = None,
    reasoning: Annotated[bool, typer.Option("--reasoning", help="Show the reasoning of models.")] = False,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="Show neither hints nor token counts.")] = False,
) -> None:
    """Chat with an agent in the terminal. Every step is saved; --thread continues a conversation.

    Ctrl-C stops an answer; at the prompt it leaves. Exits with 0, or with 3 if a question is left open. Without a
    terminal each line of the input is a turn, and the command exits with 1 if the last one failed.
    """
    from statewright.cli.chat.subject import load_subject
    from statewright.cli.workflow.models import read_models

    models = read_models(model, base_url)
    subject = load_subject(target, models)
    saver, subject, saved = _kept(target, subject, thread, models, database, key_file)
    with saver or nullcontext():
        raise SystemExit(_talk(subject, saved, reasoning=reasoning, quiet=quiet))


def _kept(
    target: str, subject: Subject, thread: str | None, models: Models, database: str | None, key_file: Path | None
) -> tuple[SqliteSaver | None, Subject, Saved]:
    """Where the conversation is kept: in the saver of its graph if that lasts, in the database, or in memory."""
    from dataclasses import replace

    from statewright.checkpoint import InMemorySaver
    from statewright.cli.workflow.follow import Saved
    from statewright.cli.workflow.load import keeps_threads, saved_in
    from statewright.cli.workflow.run import new_thread_id, saver_for

    saver, options = saver_for(subject.app, database, key_file)
    if saver is not None or not keeps_threads(subject.app):
        subject = replace(subject, app=saved_in(subject.app, saver or InMemorySaver()))
    saved = Saved(thread=thread or new_thread_id(), target=target, options=options, models=models.words)
    return saver, subject, saved


def _talk(subject: Subject, saved: Saved, *, reasoning: bool, quiet: bool) -> int:
    """Hold the conversation; the exit code."""
    import asyncio

    from statewright.cli.chat.conversation import Conversation
    from statewright.cli.chat.display import Display
    from statewright.cli.chat.input import Lines
    from statewright.cli.console.failure import CANCELLED
    from statewright.cli.workflow.load import keeps_threads

    display = Display(reasoning=reasoning, quiet=quiet, names_speakers=subject.names_speakers)
    with asyncio.Runner() as loop:
        conversation = Conversation(subject, saved, display, Lines(), loop, is_kept=keeps_threads(subject.app))
        try:
            return conversation.hold()
        except KeyboardInterrupt:
            display.leave()
            return CANCELLED
