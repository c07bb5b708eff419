"""`statewright runs cancel`, `pause`, `resume`, `retry`, `signal` and `approve`: control a run."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Any

import typer

from statewright.cli.console.failure import UsageError
from statewright.cli.console.options import JsonOption
from statewright.cli.console.printing import pluralize, say
from statewright.cli.console.table import Column, format_instant, print_list
from statewright.cli.console.values import to_json
from statewright.cli.runs.client_session import RunArgument, UrlOption, open_client
from statewright.cli.runs.text import format_wait, is_approval, list_waits, one_line_json
from statewright.cli.workflow.inputs import read_input, read_text, read_value
from statewright.client import Approval, Client, Run


def cancel(
    run: RunArgument,
    reason: Annotated[
        str | None, typer.Option("--reason", metavar="TEXT", help="The reason, stored with the run.")
    ] = None,
    url: UrlOption = None,
) -> None:
    """Cancel a run and its child runs. A run that has ended is not changed."""
    with open_client(url) as client:
        _print_status(client.runs.cancel(run, reason))


def pause(run: RunArgument, url: UrlOption = None) -> None:
    """Pause a run after its current step."""
    with open_client(url) as client:
        record = client.runs.pause(run)
    say(f"{record.id} is {record.status}{'' if record.status == 'paused' else ' and will pause after its step'}.")


def retry(
    run: Annotated[str | None, typer.Argument(metavar="RUN", help="The id of the run.")] = None,
    dead: Annotated[
        bool, typer.Option("--dead", help="Retry all runs that were set aside, because they lost worker after worker.")
    ] = False,
    graph: Annotated[
        str | None, typer.Option("--graph", "-g", metavar="NAME", help="With --dead: only runs of this graph.")
    ] = None,
    queue: Annotated[
        str | None, typer.Option("--queue", metavar="NAME", help="With --dead: only runs of this queue.")
    ] = None,
    url: UrlOption = None,
) -> None:
    """Retry a failed run from the step that failed, or all runs that were set aside, at most 1000 at a time."""
    if (run is None) != dead:
        raise UsageError("Name either a run or --dead. List the runs that were set aside: statewright runs ls --dead")
    if not dead and (graph is not None or queue is not None):
        raise UsageError("--graph and --queue need --dead.")
    with open_client(url) as client:
        if run is not None:
            record = client.runs.retry(run)
            # No worker has claimed it yet, and perhaps none is live.
            say(f"{record.id} is {'due again' if record.status == 'running' else record.status}.")
            return
        count = len(client.runs.retry_all(dead=True, graph=graph, queue=queue))
    say(f"{pluralize(count, 'run')} {'is' if count == 1 else 'are'} due again.")


def resume(
    run: RunArgument,
    answer: Annotated[
        list[str] | None,
        typer.Option(
            "--answer",
            "-a",
            metavar="[ID=]VALUE",
            help="The answer to a question, as JSON or text. With several open questions: ID=VALUE for each.",
        ),
    ] = None,
    url: UrlOption = None,
) -> None:
    """Continue a paused run, or answer the questions of a waiting one."""
    with open_client(url) as client:
        _print_status(
            client.runs.answer(run, _match_answers(client, run, answer)) if answer else client.runs.resume(run)
        )


def _match_answers(client: Client, run_id: str, answers: Sequence[str]) -> dict[str, Any]:
    """Return the answers by question id. Raises UsageError if it is unclear which questions they answer."""
    questions = {wait.id: wait for wait in list_waits(client, client.runs.get(run_id)) if wait.kind == "question"}
    if not questions:
        raise UsageError(
            f"Run {run_id} has no open questions. See what it is waiting for: statewright runs show {run_id}"
        )
    if all(is_approval(wait) for wait in questions.values()):
        raise UsageError(
            f"Run {run_id} is waiting for an approval. Decide on it with: statewright runs approve {run_id}"
        )
    pairs = [answer.partition("=") for answer in answers]
    if all(question_id in questions and equals for question_id, equals, _ in pairs):
        return {question_id: read_value(value) for question_id, _, value in pairs}
    if len(answers) == 1 and len(questions) == 1:
        return {next(iter(questions)): read_value(answers[0])}
    lines = [f"Run {run_id} has {len(questions)} open questions. Answer by id, with --answer ID=VALUE:"]
    raise UsageError("\n".join([*lines, *(f"  {wait.id}  {format_wait(wait)}" for wait in questions.values())]))


def signal(
    run: RunArgument,
    type: Annotated[str, typer.Argument(metavar="TYPE", help="The type of the signal.")],  # noqa: A002
    payload: Annotated[
        list[str] | None,
        typer.Option(
            "--payload",
            "-p",
            metavar="JSON|@FILE|KEY=VALUE",
            help="The payload, which becomes part of the state; repeated values are merged.",
        ),
    ] = None,
    key: Annotated[
        str | None,
        typer.Option("--key", metavar="KEY", help="An idempotency key, with which at most one signal is sent."),
    ] = None,
    url: UrlOption = None,
) -> None:
    """Send a signal to a run. The signal is stored until a step waits for it."""
    with open_client(url) as client:
        _print_status(
            client.runs.signal(run, type, read_input(payload, "--payload") if payload else None, signal_id=key)
        )


def approve(
    approval_or_run: Annotated[
        str | None,
        typer.Argument(
            metavar="APPROVAL|RUN",
            help="The id of an approval, or of the run that requests it. Default: list the open approvals.",
        ),
    ] = None,
    reject: Annotated[bool, typer.Option("--reject", help="Reject instead of approving.")] = False,
    edit: Annotated[
        str | None, typer.Option("--edit", metavar="JSON|@FILE", help="Approve with this content instead.")
    ] = None,
    by: Annotated[str | None, typer.Option("--by", metavar="NAME", help="The name of the person who decides.")] = None,
    json: JsonOption = False,
    url: UrlOption = None,
) -> None:
    """Approve or reject the request of a run, or approve edited content."""
    if reject and edit is not None:
        raise UsageError("Use only one of --reject and --edit.")
    with open_client(url) as client:
        if approval_or_run is None:
            _print_open_approvals(client, as_json=json)
            return
        approval = _decide(client, _resolve_approval(client, approval_or_run), reject=reject, edit=edit, by=by)
    say(
        to_json(approval.raw)
        if json
        else f"{approval.id} is {approval.decision}. Run {approval.workflow_run_id} continues."
    )


def _resolve_approval(client: Client, approval_or_run: str) -> str:
    """Return the id of an approval, or of the only open approval of a run.

    Raises UsageError if a run has no open approval, or several.
    """
    if not approval_or_run.startswith("run_"):
        return approval_or_run
    run = client.runs.get(approval_or_run)
    pending = list(client.approvals.iterate(pending=True, run_id=run.id))
    if len(pending) == 1:
        return pending[0].id
    if not pending:
        raise UsageError(f"Run {run.id} is {run.status} and is not waiting for an approval.")
    ids = ", ".join(approval.id for approval in pending)
    raise UsageError(f"Run {run.id} is waiting for several approvals: {ids}. Decide on one of them by its id.")


def _decide(client: Client, approval_id: str, *, reject: bool, edit: str | None, by: str | None) -> Approval:
    if reject:
        return client.approvals.reject(approval_id, by=by)
    if edit is not None:
        return client.approvals.edit(approval_id, read_value(read_text(edit)), by=by)
    return client.approvals.approve(approval_id, by=by)


def _print_open_approvals(client: Client, *, as_json: bool) -> None:
    print_list(
        list(client.approvals.iterate(pending=True)),
        {
            Column("APPROVAL", keep_words=True): lambda approval: approval.id,
            Column("RUN", keep_words=True): lambda approval: approval.workflow_run_id,
            Column("STEP", keep_words=True): lambda approval: approval.step_name,
            Column("REQUESTED", keep_words=True): lambda approval: format_instant(approval.created_at),
            Column("PROMPT"): lambda approval: approval.prompt,
            Column("CONTENT"): lambda approval: one_line_json(approval.content),
        },
        as_json=as_json,
        to_data=lambda approval: approval.raw,
        if_empty="No run is waiting for an approval.",
    )


def _print_status(run: Run) -> None:
    say(f"{run.id} is {run.status}.")
