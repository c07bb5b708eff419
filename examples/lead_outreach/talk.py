"""The decision on an approval: from the terminal, or from the command line."""

from __future__ import annotations

from typing import Final

from statewright.runs import Run
from statewright.service import Service

LATER: Final = "later"
WORDS: Final = {"a": "approved", "r": "rejected", "": LATER}


async def decide_approval(service: Service, run: Run, decision: str | None, text: str | None) -> bool:
    """Decide the approval that a run waits for; return False to decide later."""
    approvals = (await service.approvals(run.workspace_id, pending=True, page_size=100)).items
    approval = next(approval for approval in approvals if approval.run_id == run.id)
    print(f"\n{approval.prompt}\n\n    {approval.content}\n", flush=True)
    if decision is None:
        decision, text = ask_at_terminal()  # the worker has its own thread, so this does not block it
    if decision == LATER:
        return False
    await service.decide(run.workspace_id, approval.id, decision, edited_content=text, decided_by="Ann")
    return True


def ask_at_terminal() -> tuple[str, str | None]:
    """Ask at the terminal; the end of the input means to decide later."""
    try:
        answer = input("[a]pprove, [r]eject, nothing to decide later, or the edited email: ").strip()
    except EOFError:
        answer = ""
    return (WORDS[answer], None) if answer in WORDS else ("edited", answer)
