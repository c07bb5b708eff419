"""Tools for testing programs that use Statewright, and conformance suites for adapters to its ports.

`TestService` is imported on first use, because it imports the whole service.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from statewright.models import RecordedModel, ScriptedModel
from statewright.testing.clock import FakeClock
from statewright.testing.conformance.cache import CacheConformance
from statewright.testing.conformance.chat_model import ChatModelConformance
from statewright.testing.conformance.checkpointer import CheckpointerConformance
from statewright.testing.conformance.checkpointer.workspace import WorkspaceCheckpointerConformance
from statewright.testing.conformance.ledger import LedgerConformance
from statewright.testing.conformance.store import StoreConformance
from statewright.testing.recording import RecordingInstrument
from statewright.testing.replay.file import read_recording
from statewright.testing.replay.mismatch import ReplayMismatch
from statewright.testing.replay.recorder import record
from statewright.testing.replay.records import Recording
from statewright.testing.replay.replay import Replayed, replay

if TYPE_CHECKING:
    from statewright.testing.service import AsyncTestService, TestService

__all__ = [
    "AsyncTestService",
    "CacheConformance",
    "ChatModelConformance",
    "CheckpointerConformance",
    "FakeClock",
    "LedgerConformance",
    "RecordedModel",
    "Recording",
    "RecordingInstrument",
    "ReplayMismatch",
    "Replayed",
    "ScriptedModel",
    "StoreConformance",
    "TestService",
    "WorkspaceCheckpointerConformance",
    "read_recording",
    "record",
    "replay",
]


if not TYPE_CHECKING:  # a type checker that saw this function would accept any name

    def __getattr__(name: str) -> object:
        if name not in ("AsyncTestService", "TestService"):
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        from statewright.testing import service

        return getattr(service, name)
