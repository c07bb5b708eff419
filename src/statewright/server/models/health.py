"""The health of the service."""

from __future__ import annotations

from typing import Literal

from pydantic import BaseModel

Check = Literal["ok", "failing"]


class Checks(BaseModel):
    """The parts that were looked at."""

    database: Check
    """Whether it can be read."""
    writes: Check
    """Whether it took a write in the last seconds."""
    queue: Check


class Health(BaseModel):
    """Whether the service works: outside of the envelope, as those who ask expect it."""

    status: Literal["ok", "failing"]
    checks: Checks


class Readiness(BaseModel):
    """Whether requests should be sent here."""

    status: Literal["ready", "starting", "stopping"]
