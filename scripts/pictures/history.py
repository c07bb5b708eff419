"""What has happened on the stage: a day of runs, and the last half hour, in which every state of a run can be seen."""

from __future__ import annotations

import shutil
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from stage import Stage
from stage_clock import clock
from workspace import PROJECT

from statewright.runs import DEFAULT_WORKSPACE, Wait

NOW = datetime(2026, 11, 17, 14, 5, 23, tzinfo=UTC)
"""The time at which the pictures are taken."""
AUDITED = {"input": '{"root": "src/statewright/workflow/states"}'}
LEADS = ("mia@contoso.example", "lena@northwind.example", "paul@fabrikam.example", "ines@tailwind.example")


def perform(stage: Stage) -> dict[str, str]:
    """Let everything happen, and return the runs that pictures show, by a name."""
    perform_week(stage)
    perform_day(stage)
    return perform_last_half_hour(stage)


def at(time: str) -> datetime:
    return datetime.fromisoformat(f"2026-11-17T{time}+00:00")


# -- the days before


def perform_week(stage: Stage) -> None:
    """Play a few emails and a repair each day, so that costs can be compared."""
    for day in range(6, 0, -1):
        clock.skip_to(NOW - timedelta(days=day, hours=3))
        for number in range(scatter(day) % 3 + 1):
            send_email(stage, LEADS[(day + number) % 4], "approved")
        if day != 3:
            stage.play_until_ended([fix_code(stage)], step=0.1)


def perform_day(stage: Stage) -> None:
    """Play 24 hours: mostly payments, some emails that a person has approved, an evaluation, and an audit."""
    begin = NOW - timedelta(days=1)
    for quarter in range(1, 94):
        clock.skip_to(begin + timedelta(minutes=15 * quarter, seconds=quarter * 37 % 200))
        count = scatter(quarter) % (7 if 62 < quarter < 90 else 4)  # more by day than by night
        runs = [pay(stage, 87_000 + 8 * quarter + number, is_down=is_bad(quarter, number)) for number in range(count)]
        if quarter % 13 == 5:
            send_email(stage, LEADS[quarter // 13 % 4], "rejected" if quarter == 44 else "approved")
        if quarter == 52:
            runs.append(stage.start("nightly_eval", {"cases": 60}, tags=["schedule"]))
        if quarter == 71:
            runs.append(stage.start("audit", AUDITED, tags=["weekly"]))
        stage.play_until_ended(runs, step=2)


def scatter(number: int) -> int:
    """Return a number that looks random."""
    return (number * 2_654_435_761 >> 11) % 1_009


def is_bad(quarter: int, number: int) -> bool:
    return number == 0 and (quarter % 17 == 3 or quarter in (22, 41, 42))


def pay(stage: Stage, order: int, *, is_down: bool = False) -> str:
    value: dict[str, Any] = {"order_id": order, "amount": 19.9 + order * 13 % 400}
    if is_down:
        value["gateway"] = "down"
    return stage.start("order_payment", value, thread_id=f"order-{order}", tags=["checkout", "prod"])


def send_email(stage: Stage, lead: str, decision: str) -> str:
    """Let a person decide about an email, and return the run."""
    run_id = stage.start(
        "lead_outreach", {"lead_email": lead}, thread_id=f"lead-{lead.partition('@')[0]}", tags=["sales"]
    )
    stage.play_until_ended([run_id])
    clock.play(140, 20)
    (approval,) = stage.call(stage.service.approvals(DEFAULT_WORKSPACE, run_id=run_id)).items
    stage.call(stage.service.decide(DEFAULT_WORKSPACE, approval.id, decision, decided_by="Ann"))
    stage.play_until_ended([run_id])
    return run_id


# -- the last half hour


def perform_last_half_hour(stage: Stage) -> dict[str, str]:
    runs: dict[str, str] = {}
    clock.skip_to(at("13:12:40"))
    stage.start("vendor_onboarding", {"vendor": "Vieira & Filhos"}, thread_id="vendor-311", tags=["legal"])
    clock.play(4)
    clock.skip_to(at("13:20:05"))
    runs["network"] = fix_code(stage)
    stage.play_until_ended([runs["network"]], step=0.1)
    clock.skip_to(at("13:28:30"))
    runs["staging"] = perform_staging(stage)
    clock.skip_to(at("13:34:10"))
    runs["forked"] = send_email(stage, "omar@northwind.example", "approved")
    runs["draft"], runs["shorter"] = fork_email(stage, "lead-omar")
    clock.skip_to(at("13:44:00"))
    runs["audit"] = stage.start("audit", AUDITED, thread_id="audit-states", tags=["weekly"])
    stage.play_until_ended([runs["audit"]], step=0.1)
    for order, time in ((88_211, "13:46:20"), (88_212, "13:48:02"), (88_213, "13:49:40")):
        clock.skip_to(at(time))
        stage.play_until_ended([pay(stage, order, is_down=order == 88_212)], step=1)
    clock.skip_to(at("13:51:02"))
    runs["failed"] = pay(stage, 88_215, is_down=True)
    clock.play(1.3, 0.1)
    stage.play_until_ended([runs["failed"]], step=0.1)
    for lead, time in (("omar@example.net", "13:56:32"), ("jane@example.com", "13:59:20")):
        clock.skip_to(at(time))
        runs["asks"] = stage.start("lead_outreach", {"lead_email": lead}, tags=["sales"])
        stage.play_until_ended([runs["asks"]])
    clock.skip_to(at("14:00:10"))
    stage.start("nightly_eval", {"cases": 500}, thread_id="eval-31", tags=["schedule"])
    clock.play(40, 1)
    stage.start("nightly_eval", {"cases": 500}, thread_id="eval-32", tags=["schedule"])
    cancelled = fix_code(stage)
    clock.play(12, 0.5)
    stage.call(stage.service.cancel(DEFAULT_WORKSPACE, cancelled, "superseded by a newer report"))
    clock.play((at("14:02:11") - clock.now()).total_seconds(), 1)
    runs["live"] = stage.start(
        "cloud_migration", {"estate": "eu-west", "tables": 1000}, thread_id="eu-west-prod", tags=["prod", "eu-west"]
    )
    clock.play(30, 0.25)
    stage.play_until_ended([pay(stage, 88_216)], step=0.5)
    clock.play((at("14:04:20") - clock.now()).total_seconds(), 0.5)
    stage.play_until_ended([pay(stage, 88_217)], step=0.5)
    clock.play((at("14:05:01") - clock.now()).total_seconds(), 0.5)
    runs["working"] = fix_code(stage)
    clock.play((NOW - clock.now()).total_seconds(), 0.25)
    return runs


def fix_code(stage: Stage) -> str:
    issue = (PROJECT / "ISSUE.md").read_text(encoding="utf-8").partition("\n\n")[2]
    repo = Path(f"bills-{len(list(Path.cwd().glob('bills-*'))) + 1}")
    shutil.copytree(PROJECT, repo, ignore=shutil.ignore_patterns("__pycache__"))
    return stage.start("code_network", {"input": issue, "data.repo": str(repo)}, tags=["pr-7741"])


def perform_staging(stage: Stage) -> str:
    """Move a small estate, and pause the run before its last step."""
    run_id = stage.start("cloud_migration", {"estate": "staging", "tables": 40}, thread_id="staging", tags=["staging"])
    stage.play_until_ended([run_id], step=1)
    (question,) = [wait for wait in waits_of(stage, run_id) if wait.kind == "question"]
    answer = {"starts": "2026-11-21T22:00", "minutes": 45, "notify": ["ops@ours.example"]}
    stage.call(stage.service.answer(DEFAULT_WORKSPACE, run_id, {question.id: answer}))
    stage.play_until([run_id], lambda run: run.current_step == "verify", step=0.1)  # it is paused when that is done
    stage.call(stage.service.pause(DEFAULT_WORKSPACE, run_id))
    clock.play(5)
    return run_id


def waits_of(stage: Stage, run_id: str) -> list[Wait]:
    return [wait for wait in stage.call(stage.service.waits(DEFAULT_WORKSPACE)).items if wait.run_id == run_id]


def fork_email(stage: Stage, thread_id: str) -> tuple[str, str]:
    """Make a branch with a shorter draft, and return the checkpoints of both drafts."""
    clock.play(20, 1)
    threads = stage.service.threads
    history = stage.call(threads.history(DEFAULT_WORKSPACE, thread_id))
    draft = next(each for each in history if "draft_email" in (each["metadata"].get("nodes") or ()))
    forked = stage.call(threads.fork(DEFAULT_WORKSPACE, thread_id, draft["checkpointId"], "shorter"))
    text = "Hi Omar, may I show you on Tuesday how teams like Northwind spend less time on invoices?"
    values, head = {"email_draft": text}, forked["checkpointId"]
    edited = stage.call(threads.update(DEFAULT_WORKSPACE, thread_id, values, as_node="draft_email", checkpoint_id=head))
    return draft["checkpointId"], edited["checkpointId"]
