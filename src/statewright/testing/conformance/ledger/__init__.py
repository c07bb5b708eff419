"""The conformance suite for ledgers.

Derive a class from `LedgerConformance`, and pytest collects its tests:

    class TestMyLedger(LedgerConformance):
        def make_ledger(self):
            return MyLedger()

        def make_saver(self, ledger):
            return MySaver(ledger.database)
"""

from __future__ import annotations

from statewright.testing.conformance.ledger.claims import ClaimTests
from statewright.testing.conformance.ledger.commits import CommitTests
from statewright.testing.conformance.ledger.logs import LogTests
from statewright.testing.conformance.ledger.queries import QueryTests
from statewright.testing.conformance.ledger.records import RecordTests


class LedgerConformance(RecordTests, QueryTests, LogTests, ClaimTests, CommitTests):
    """The requirements of the port `Ledger`, one test each."""
