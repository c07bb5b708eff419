"""The activity of a run in a sentence: for lists, in which a status says too little.

Everything comes from the record of the run, which its worker writes in the transaction of each superstep, except for
open waits: these are read for all runs of a page with one query. So a page of a list costs one query more, however many
steps its runs have. A second one counts the steps of short runs that have completed without a result to show.
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final, cast

from statewright.async_futures import aresolve
from statewright.runs import ActivityKind, Condition, Json, Ledger, Order, Run, RunStatus, StepRun, Wait
from statewright.runtime import RUN_ENDED
from statewright.service.engine.waits import approval_of
from statewright.text import shorten

MAX_TEXT: Final = 200
"""Characters of a sentence."""
_MAX_WAITS: Final = 500
"""Open waits that are read for the runs of a page. For runs beyond that, the sentence is general."""
_MAX_COUNTED: Final = 200
"""Events of a run whose steps are counted for a list. Those of longer runs are not, which would take time."""
_PROMPTS: Final = ("prompt", "question", "message", "text", "title")
"""The fields of a question that may have its text, in the order in which they are looked for."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Activity:
    """The current activity of a run, or its outcome."""

    kind: ActivityKind
    text: str
    """A sentence in English, such as `612 / 1000 migrate_table`."""
    step: str | None = None
    done: int | None = None
    """The completed tasks of the current superstep, if it has several."""
    total: int | None = None
    attempt: int | None = None
    """The number of the attempt that has failed last."""
    max_attempts: int | None = None
    at: datetime | None = None
    """When it goes on: the start of a run that is scheduled, the next attempt, or the end of a wait."""
    wait_id: str | None = None
    """The wait that can be answered."""
    wait_count: int = 0
    """The number of open waits."""


async def describe_runs(ledger: Ledger, runs: Sequence[Run], now: datetime) -> dict[str, Activity]:
    """Return what each of some runs is doing, by run id."""
    waiting = [run.id for run in runs if run.status is RunStatus.WAITING]
    waits: dict[str, list[Wait]] = defaultdict(list)
    if waiting:
        conditions = [Condition("run_id", "in", waiting)]
        for wait in await aresolve(ledger.find(Wait, conditions, order=Order("created_at"), limit=_MAX_WAITS)):
            waits[wait.run_id].append(wait)
    counts = await _count_steps(ledger, runs)
    return {run.id: describe_activity(run, waits[run.id], now, step_count=counts.get(run.id)) for run in runs}


async def _count_steps(ledger: Ledger, runs: Sequence[Run]) -> dict[str, int]:
    """Return the number of steps of the short runs that have completed without a result to show, by run id."""
    silent = [
        run.id
        for run in runs
        if run.status is RunStatus.COMPLETED and run.last_event <= _MAX_COUNTED and not summarize(run.output)
    ]
    if not silent:
        return {}
    groups = await aresolve(ledger.groups(StepRun, ["run_id"], where=[Condition("run_id", "in", silent)]))
    return {group.key[0]: group.size for group in groups}


def describe_activity(
    run: Run, waits: Sequence[Wait] = (), now: datetime | None = None, *, step_count: int | None = None
) -> Activity:
    """Return what a run is doing, given its open waits, the oldest first, the time, and the number of its steps."""
    progress: Mapping[str, Any] = run.progress or {}
    match run.status:
        case RunStatus.PENDING:
            is_later = run.due_at is not None and now is not None and run.due_at > now
            text = "Starts later" if is_later else "Waits for a worker"
            return Activity(kind="scheduled" if is_later else "queued", text=text, at=run.due_at)
        case RunStatus.RUNNING:
            return _describe_running(run, progress)
        case RunStatus.WAITING:
            return _describe_waiting(run, waits)
        case RunStatus.PAUSED:
            default = f"Paused before {run.current_step}" if run.current_step else "Paused"
            text = _cut(_message(run.error) or default)
            return Activity(kind="paused", text=text, step=run.current_step, at=run.due_at)
        case RunStatus.COMPLETED:
            return _describe_completed(run, step_count)
        case RunStatus.FAILED:
            return _describe_failed(run, progress)
        case RunStatus.CANCELLED:
            return Activity(kind="cancelled", text=_cut(_message(run.error) or "Cancelled"), step=run.current_step)


def _describe_running(run: Run, progress: Mapping[str, Any]) -> Activity:
    step, done, total = run.current_step, progress.get("done"), progress.get("total")
    if progress.get("retryAt") is not None:
        failed, most = progress.get("failedAttempt"), progress.get("maxAttempts")
        step = progress.get("step") or step
        text = f"{step} failed {_share(failed, most)}: {_message(progress.get('error')) or 'it is tried again'}"
        return Activity(
            kind="retrying",
            text=_cut(text),
            step=step,
            done=done,
            total=total,
            attempt=failed,
            max_attempts=most,
            at=datetime.fromisoformat(str(progress["retryAt"])),
        )
    text = f"{done} / {total} {step}" if total is not None else step or "Starts"
    return Activity(kind="working", text=_cut(text), step=step, done=done, total=total)


def _describe_completed(run: Run, step_count: int | None) -> Activity:
    plural = "" if step_count == 1 else "s"
    default = f"Completed in {step_count} step{plural}" if step_count is not None else "Completed"
    return Activity(kind="completed", text=_cut(summarize(run.output)) or default)


def _describe_failed(run: Run, progress: Mapping[str, Any]) -> Activity:
    error: Mapping[str, Any] = run.error or {}
    step = error.get("step") or progress.get("step") or run.current_step
    failed, most = progress.get("failedAttempt"), progress.get("maxAttempts")
    share = f" {_share(failed, most)}" if failed is not None else ""
    subject = f"{step} failed{share}" if step else "Failed"
    text = f"{subject}: {_message(error) or 'no message'}"
    return Activity(kind="failed", text=_cut(text), step=step, attempt=failed, max_attempts=most)


def _describe_waiting(run: Run, waits: Sequence[Wait]) -> Activity:
    # What a person can answer comes first, because it is what the run needs.
    wait = min(waits, key=lambda wait: wait.kind != "question", default=None)
    if wait is None:
        return Activity(kind="waiting", text="Waits", step=run.current_step, at=run.due_at)
    kind, text = _describe_wait(wait)
    return Activity(
        kind=kind,
        text=_cut(text),
        step=wait.step_name,
        at=wait.due_at,
        wait_id=wait.id if kind in ("question", "approval", "event") else None,
        wait_count=len(waits),
    )


def _describe_wait(wait: Wait) -> tuple[ActivityKind, str]:
    approval = approval_of(wait)
    if approval is not None:
        return "approval", approval.prompt or f"Approve {wait.step_name}"
    if wait.kind == "timer":
        return "timer", f"{wait.step_name} waits for its time"
    if wait.event is not None and wait.event.startswith(RUN_ENDED):
        return "child", f"{wait.step_name} waits for run {wait.event.removeprefix(RUN_ENDED)}"
    if wait.event is not None:
        return "event", f"Waits for {wait.event}"
    return "question", _text_of(wait.value) or f"{wait.step_name} asks"


def _text_of(value: Any) -> str:
    """Return the text of a question: the value itself, or the field of it that usually has the text."""
    if isinstance(value, Mapping):
        fields = cast("Mapping[str, Any]", value)
        value = next((fields[name] for name in _PROMPTS if isinstance(fields.get(name), str)), fields)
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, default=str)[: MAX_TEXT * 2]


def _share(failed: Any, most: Any) -> str:
    return f"{failed} of {most}" if most is not None else "once" if failed == 1 else f"{failed} times"


def _message(error: Any) -> str:
    return str(cast("Mapping[str, Any]", error).get("message") or "") if isinstance(error, Mapping) else ""


def _cut(text: str) -> str:
    return shorten(" ".join(text.split()), MAX_TEXT)


# -- results

_RESULTS: Final = ("summary", "answer", "result", "output", "report", "text", "message", "title")
"""The fields of an output that may have its gist, in the order in which they are looked for."""
_SHOWN_FIELDS: Final = 3


def summarize(output: Json) -> str:
    """Return the gist of the output of a run in a line; an empty text if there is none.

    It is a field that usually has the result, or else the last message, or else the first fields. Large values are not
    converted to text, because lists have many runs.
    """
    if not isinstance(output, Mapping):
        return _brief(output)
    fields = cast("Mapping[str, Any]", output)
    texts = (fields.get(name) for name in _RESULTS)
    result = next((text for text in texts if isinstance(text, str) and text.strip()), None)
    return result or _last_message(fields.get("messages")) or _first_fields(fields)


def _last_message(messages: Any) -> str:
    if not isinstance(messages, Sequence) or isinstance(messages, str) or not messages:
        return ""
    last = cast("Sequence[Any]", messages)[-1]
    content = cast("Mapping[str, Any]", last).get("content") if isinstance(last, Mapping) else None
    return content if isinstance(content, str) else ""


def _first_fields(fields: Mapping[str, Any]) -> str:
    parts = ((name, _brief(value)) for name, value in fields.items())
    shown = [f"{name}: {text}" for name, text in parts if text]
    return ", ".join(shown[:_SHOWN_FIELDS]) + (", ..." if len(shown) > _SHOWN_FIELDS else "")


def _brief(value: Any) -> str:
    """Return a value as a short text; an empty text for nothing."""
    if value in (None, "", [], {}):
        return ""
    match value:
        case str():
            return shorten(value, MAX_TEXT)
        case bool() | int() | float():
            return json.dumps(value)
        case list():
            count = len(cast("list[Any]", value))
            return f"{count} item{'' if count == 1 else 's'}"
        case _:
            count = len(cast("Mapping[str, Any]", value))
            return f"{count} field{'' if count == 1 else 's'}"
