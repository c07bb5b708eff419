"""The port of the ledger: what has its methods is one."""

from __future__ import annotations

from statewright.runs import Group, InMemoryLedger, Ledger, Order


def test_what_has_the_methods_of_a_ledger_is_one() -> None:
    assert isinstance(InMemoryLedger(), Ledger)
    assert not isinstance(object(), Ledger)


def test_an_order_is_ascending_unless_it_says_otherwise() -> None:
    assert Order("created_at") == ("created_at", False)
    assert Order("created_at", descending=True).descending


def test_a_group_is_a_tuple() -> None:
    assert Group(("a",), 2, (0.5,)) == (("a",), 2, (0.5,))
