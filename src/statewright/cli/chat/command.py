"""`statewright chat`: a conversation in the terminal that is saved, and can be continued later."""

from __future__ import annotations

import asyncio
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path
from typing import Annotated

import typer

from statewright.checkpoint import InMemorySaver
from statewright.cli.chat.conversation import Conversation
from statewright.cli.chat.display import Display
from statewright.cli.chat.input import Lines
from statewright.cli.chat.subject import ChatTarget, load_chat_target
from statewright.cli.console.failure import CANCELLED
from statewright.cli.console.options import BaseUrlOption, DatabaseOption, KeyOption, ModelOption
from statewright.cli.workflow.follow import SavedRun
from statewright.cli.workflow.load import has_durable_saver
from statewright.cli.workflow.models import Models, read_models
from statewright.cli.workflow.run import new_thread_id, open_run_saver
from statewright.storage.sqlite import SqliteSaver


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
    model: ModelOption = None,
    base_url: BaseUrlOption = None,
    database: DatabaseOption = None,
    key_file: KeyOption = None,
    reasoning: Annotated[bool, typer.Option("--reasoning", help="Show the reasoning of models.")] = False,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="Show neither hints nor token counts.")] = False,
) -> None:
    """Chat with an agent, a network or a workflow in the terminal.

    Every step is saved; --thread continues a conversation. Ctrl-C stops an answer; at the prompt it leaves.

    Exits with 3 if a question is left open. Without a terminal, each line of input is a turn, and the exit code is 1 if
    the last turn failed.
    """
    models = read_models(model, base_url)
    subject = load_chat_target(target, models)
    saver, subject, saved = _attach_saver(target, subject, thread, models, database, key_file)
    with saver or nullcontext():
        raise SystemExit(_run_conversation(subject, saved, reasoning=reasoning, quiet=quiet))


def _attach_saver(
    target: str, subject: ChatTarget, thread: str | None, models: Models, database: str | None, key_file: Path | None
) -> tuple[SqliteSaver | None, ChatTarget, SavedRun]:
    """Attach a saver: the graph's own if it is durable and no database is named, else the database, else memory."""
    saver, options = open_run_saver(subject.app, database, key_file)
    if saver is not None or not has_durable_saver(subject.app):
        subject = replace(subject, app=subject.app.with_services(checkpointer=saver or InMemorySaver()))
    saved = SavedRun(thread=thread or new_thread_id(), target=target, options=options, models=models.options)
    return saver, subject, saved


def _run_conversation(subject: ChatTarget, saved: SavedRun, *, reasoning: bool, quiet: bool) -> int:
    """Run the conversation and return the exit code."""
    display = Display(reasoning=reasoning, quiet=quiet, show_speakers=subject.has_several_speakers)
    with asyncio.Runner() as loop:
        conversation = Conversation(subject, saved, display, Lines(), loop, is_saved=has_durable_saver(subject.app))
        try:
            return conversation.run()
        except KeyboardInterrupt:
            display.leave()
            return CANCELLED
