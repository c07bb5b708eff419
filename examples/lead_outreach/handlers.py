"""Handlers of the task steps of `outreach.json`."""

from __future__ import annotations

from office import look_up, mailbox

from statewright.workflow.steps import StepContext, StepFailed, StepResult, task_handler


@task_handler("enrich-lead")
def enrich(ctx: StepContext) -> StepResult:
    try:
        lead = look_up(ctx.workflow_input["leadEmail"])
    except LookupError as error:  # a retry would not help
        raise StepFailed(str(error), code="LEAD_UNKNOWN", is_final=True) from error
    return StepResult(state_updates={"leadName": lead.name, "company": lead.company})


@task_handler("send-email")
def send(ctx: StepContext) -> StepResult:
    letter = mailbox().send(ctx.idempotency_key, ctx.workflow_input["leadEmail"], ctx.workflow_state["emailDraft"])
    # The output is stored with the step, and is not part of the state.
    return StepResult(
        output={"requests": letter.requests},
        state_updates={"sentAt": letter.sent_at, "messageId": letter.id},
    )
