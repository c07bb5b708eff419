"""The port of the ledger."""

from __future__ import annotations

from statewright.runs import InMemoryLedger, Ledger, Order


def test_the_port_is_checked_by_its_methods() -> None:
    assert isinstance(InMemoryLedger(), Ledger)
    assert not isinstance(object(), Ledger)


def test_an_order_is_ascending_by_default() -> None:
    assert Order("created_at") == ("created_at", False)
    assert Order("created_at", descending=True).descending
