"""For tests of programs that use Statewright, and of adapters to its ports.

`TestService` is loaded when it is met: it brings the whole service along.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from statewright.models import RecordedModel, ScriptedModel
from statewright.testing.cache_conformance import CacheConformance
from statewright.testing.chat_model_conformance import ChatModelConformance
from statewright.testing.checkpointer_conformance import CheckpointerConformance
from statewright.testing.clock import FakeClock
from statewright.testing.ledger_conformance import LedgerConformance
from statewright.testing.record import record
from statewright.testing.recording import RecordingInstrument
from statewright.testing.replay import Replayed, ReplayMismatch, replay
from statewright.testing.replay_file import Recording, read_recording
from statewright.testing.store_conformance import StoreConformance
from statewright.testing.workspace_conformance import WorkspaceCheckpointerConformance

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


if not TYPE_CHECKING:  # a type checker would take every name for one that exists

    def __getattr__(name: str) -> object:
        if name not in ("AsyncTestService", "TestService"):
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        from statewright.testing import service

        return getattr(service, name)
