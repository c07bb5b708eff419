"""For tests of programs that use Statewright, and of adapters to its ports."""

from statewright.models import RecordedModel, ScriptedModel
from statewright.testing.cache_conformance import CacheConformance
from statewright.testing.chat_model_conformance import ChatModelConformance
from statewright.testing.checkpointer_conformance import CheckpointerConformance
from statewright.testing.clock import FakeClock
from statewright.testing.record import record
from statewright.testing.recording import RecordingInstrument
from statewright.testing.replay import Replayed, ReplayMismatch, replay
from statewright.testing.replay_file import Recording, read_recording
from statewright.testing.store_conformance import StoreConformance

__all__ = [
    "CacheConformance",
    "ChatModelConformance",
    "CheckpointerConformance",
    "FakeClock",
    "RecordedModel",
    "Recording",
    "RecordingInstrument",
    "ReplayMismatch",
    "Replayed",
    "ScriptedModel",
    "StoreConformance",
    "read_recording",
    "record",
    "replay",
]
