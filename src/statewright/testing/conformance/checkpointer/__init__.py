"""The conformance suite for checkpointers.

Derive a class from `CheckpointerConformance`, and pytest collects its tests:

    class TestMySaver(CheckpointerConformance):
        def make_saver(self):
            return MySaver()
"""

from __future__ import annotations

from statewright.testing.conformance.checkpointer.leases import LeaseTests
from statewright.testing.conformance.checkpointer.threads import ThreadTests
from statewright.testing.conformance.checkpointer.writes import WriteTests


class CheckpointerConformance(WriteTests, LeaseTests, ThreadTests):
    """The requirements of the port `Checkpointer`, one test each."""
