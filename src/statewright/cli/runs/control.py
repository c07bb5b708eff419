"""`statewright runs cancel`, `pause`, `resume`, `retry`, `signal` and `approve`: a run moved from outside."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated, Any

import typer

from statewright.cli.console.options import JsonOption
from statewright.cli.console.printing import say
from statewright.cli.runs.client_session import RunArgument, UrlOption

if TYPE_CHECKING:
    from statewright.client import Approval, Client, Run, Wait


def cancel(
    run: RunArgument,
    reason: Annotated[
        str | None, typer.Option("--reason", metavar="TEXT", help="The reason, which is kept with the run.")
    ] = None,
    url: UrlOption = None,
) -> None:
    """Cancel a run and the runs that it has started. A run that has ended stays as it is."""
    from statewright.cli.runs.client_session import asking

    with asking(url) as client:
        _tell(client.runs.cancel(run, reason))


def pause(run: RunArgument, url: UrlOption = None) -> None:
    """Pause a run after its current step."""
    from statewright.cli.runs.client_session import asking

    with asking(url) as client:
        found = client.runs.pause(run)
    say(f"{found.id} is {found.status}{'' if found.status == 'paused' else ', and will pause after its step'}.")


def retry(run: RunArgument, url: UrlOption = None) -> None:
    """Retry a failed run from the step that failed."""
    from statewright.cli.runs.client_session import asking

    with asking(url) as client:
        _tell(client.runs.retry(run))


def resume(
    run: RunArgument,
    answer: Annotated[
        list[str] | None,
        typer.Option("--answer", "-a", metavar="[ID=]VALUE", help="The answer to its question, JSON or text."),
    ] = None,
    url: UrlOption = None,
) -> None:
    """Continue a paused run, or answer the questions of a waiting one."""
    from statewright.cli.runs.client_session import asking

    with asking(url) as client:
        _tell(client.runs.answer(run, _answers(client, run, answer)) if answer else client.runs.resume(run))


def _answers(client: Client, run_id: str, given: Sequence[str]) -> dict[str, Any]:
    """The answers by the ids of questions. Raises WrongUse where it is not plain which one is meant."""
    from statewright.cli.console.failure import WrongUse
    from statewright.cli.runs.text import is_approval, waits_of
    from statewright.cli.workflow.resume import read_value

    waits = {one.id: one for one in waits_of(client, client.runs.get(run_id)) if one.kind == "question"}
    if waits and all(is_approval(one) for one in waits.values()):
        raise WrongUse(f"Run {run_id} waits for an approval. Decide on it with: statewright runs approve {run_id}")
    named = [one.partition("=") for one in given]
    if all(name in waits and equals for name, equals, _ in named):
        return {name: read_value(value) for name, _, value in named}
    if len(given) == 1 and len(waits) == 1:
        return {next(iter(waits)): read_value(given[0])}
    raise WrongUse("\n".join([f"Run {run_id} {_asked(waits)}", *(f"  {one}" for one in _told(waits.values()))]))


def _asked(waits: dict[str, Wait]) -> str:
    if not waits:
        return "asks nothing. See what it waits for: statewright runs show RUN"
    return f"has {len(waits)} open questions. Say which one is meant, with --answer ID=VALUE:"


def _told(waits: Any) -> list[str]:
    from statewright.cli.runs.text import wait_line

    return [f"{one.id}  {wait_line(one)}" for one in waits]


def signal(
    run: RunArgument,
    type: Annotated[str, typer.Argument(metavar="TYPE", help="The type that a step waits for.")],  # noqa: A002
    payload: Annotated[
        list[str] | None,
        typer.Option(
            "--payload", "-p", metavar="JSON|@FILE|KEY=VALUE", help="The payload, which becomes part of the state."
        ),
    ] = None,
    key: Annotated[
        str | None, typer.Option("--key", metavar="KEY", help="Sending with the same key again sends nothing new.")
    ] = None,
    url: UrlOption = None,
) -> None:
    """Send a signal to a run. It is kept until a step waits for it."""
    from statewright.cli.runs.client_session import asking
    from statewright.cli.workflow.inputs import read_input

    with asking(url) as client:
        _tell(client.runs.signal(run, type, read_input(payload, "--payload") if payload else None, signal_id=key))


def approve(
    which: Annotated[
        str | None,
        typer.Argument(
            metavar="APPROVAL|RUN", help="The approval, or the run that asks for it. Without it, list what is open."
        ),
    ] = None,
    reject: Annotated[bool, typer.Option("--reject", help="Reject it.")] = False,
    edit: Annotated[
        str | None, typer.Option("--edit", metavar="JSON|@FILE", help="Approve this content instead.")
    ] = None,
    by: Annotated[str | None, typer.Option("--by", metavar="NAME", help="Who decided.")] = None,
    json: JsonOption = False,
    url: UrlOption = None,
) -> None:
    """Approve or reject what a run asks for, or approve other content in its place."""
    from statewright.cli.console.failure import WrongUse
    from statewright.cli.console.values import as_json
    from statewright.cli.runs.client_session import asking

    if reject and edit is not None:
        raise WrongUse("An approval has one decision: give --reject or --edit.")
    with asking(url) as client:
        if which is None:
            _list_open(client, json_wanted=json)
            return
        found = _decided(client, _approval(client, which), reject=reject, edit=edit, by=by)
    say(as_json(found.raw) if json else f"{found.id} is {found.decision}. Run {found.workflow_run_id} goes on.")


def _approval(client: Client, which: str) -> str:
    """The id of an approval; that of a run means the one that it waits for. Raises WrongUse if there are several."""
    from statewright.cli.console.failure import WrongUse

    if not which.startswith("run_"):
        return which
    run = client.runs.get(which)
    pending = list(client.approvals.iterate(pending=True, run_id=run.id))
    if len(pending) == 1:
        return pending[0].id
    if not pending:
        raise WrongUse(f"Run {run.id} is {run.status}, and waits for no approval.")
    raise WrongUse(f"Run {run.id} waits for several: {', '.join(one.id for one in pending)}. Say which one is meant.")


def _decided(client: Client, approval: str, *, reject: bool, edit: str | None, by: str | None) -> Approval:
    if reject:
        return client.approvals.reject(approval, by=by)
    if edit is not None:
        return client.approvals.edit(approval, read_content(edit), by=by)
    return client.approvals.approve(approval, by=by)


def read_content(text: str) -> Any:
    """A content as JSON if it is some, else as text; that of a file after `@`. Raises WrongUse."""
    from pathlib import Path

    from statewright.cli.console.failure import WrongUse
    from statewright.cli.workflow.resume import read_value

    if not text.startswith("@"):
        return read_value(text)
    try:
        return read_value(Path(text[1:]).read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError) as error:
        raise WrongUse(f"The file {text[1:]!r} cannot be read: {error}.") from error


def _list_open(client: Client, *, json_wanted: bool) -> None:
    from statewright.cli.console.table import Column, moment, print_table
    from statewright.cli.console.values import as_json
    from statewright.cli.runs.text import on_one_line

    found = list(client.approvals.iterate(pending=True))
    if json_wanted:
        say(as_json([one.raw for one in found]))
    elif found:
        columns = [Column(title, whole=True) for title in ("APPROVAL", "RUN", "STEP", "ASKED")]
        rows = [
            (one.id, one.workflow_run_id, one.step_name, moment(one.created_at), one.prompt, on_one_line(one.content))
            for one in found
        ]
        print_table([*columns, Column("PROMPT"), Column("CONTENT")], rows)
    else:
        say("Nobody waits for an approval.")


def _tell(run: Run) -> None:
    say(f"{run.id} is {run.status}.")
