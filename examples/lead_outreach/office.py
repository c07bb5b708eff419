"""Offline stand-ins for external services: the directory of leads, the mailbox and the model.

The environment variable `OUTREACH_FOLDER` is the folder of the letters, `OUTREACH_PACE` the seconds that each service
takes.
"""

from __future__ import annotations

import os
import re
import time
from pathlib import Path
from typing import Final, NamedTuple

from mail import Mailbox

from statewright.messages import Message
from statewright.models import ModelRequest, ModelResponse, ScriptedModel, Usage

LEADS: Final = {"jane@example.com": ("Jane Smith", "Acme Inc"), "li@example.org": ("Li Wei", "Kite Works")}
_PROMPT: Final = re.compile(r"email to (.+) at (.+)\. The address")
_PRICE: Final = 0.000002  # US dollars per token


def mailbox() -> Mailbox:
    """Return the mailbox."""
    return Mailbox(Path(os.environ.get("OUTREACH_FOLDER", "out/lead_outreach")) / "mailbox.db", pace=_pace())


def _pace() -> float:
    return float(os.environ.get("OUTREACH_PACE", "0"))


class Lead(NamedTuple):
    """A potential customer."""

    name: str
    company: str


def look_up(email: str) -> Lead:
    """Look up the lead with an email address. Raises LookupError for an invalid address."""
    time.sleep(_pace())
    person, at, host = email.partition("@")
    if not (person and at and "." in host):
        raise LookupError(f"{email!r} is not the email address of a person. Write it as name@company.com.")
    return Lead(*LEADS.get(email.lower(), (person.replace(".", " ").title(), host.partition(".")[0].title())))


def prompt(name: str, company: str, email: str) -> str:
    """Return the request to the model; `outreach.json` contains the same."""
    return f"Write a short email to {name} at {company}. The address is {email}."


def _letter(request: ModelRequest) -> ModelResponse:
    """Return the response of the model, with its cost."""
    question = request.messages[-1].text
    match = _PROMPT.search(question)
    name, company = match.groups() if match else ("you", "your company")
    text = f"Hi {name.split()[0]}, we help teams like {company} to spend less time on invoices. May I show you how?"
    usage = Usage(input_tokens=len(request.system + question) // 4, output_tokens=len(text) // 4)
    priced = Usage(usage.input_tokens, usage.output_tokens, round(usage.tokens * _PRICE, 6))
    return ModelResponse(Message(text, role="assistant"), priced, model="offline-writer", finish_reason="stop")


writer: Final = ScriptedModel(_letter)
"""A scripted model: it derives the letter from the request."""
