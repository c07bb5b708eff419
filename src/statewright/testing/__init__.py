"""For tests of programs that use Statewright, and of adapters to its ports."""

from statewright.testing.cache_conformance import CacheConformance
from statewright.testing.checkpointer_conformance import CheckpointerConformance
from statewright.testing.clock import FakeClock
from statewright.testing.recording import RecordingInstrument
from statewright.testing.store_conformance import StoreConformance

__all__ = ["CacheConformance", "CheckpointerConformance", "FakeClock", "RecordingInstrument", "StoreConformance"]
