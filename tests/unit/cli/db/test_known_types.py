"""User-defined types: an error names the option --graph, and stand-ins replace values that are not used."""

from __future__ import annotations

from dataclasses import dataclass

import pytest

from statewright.cli.console.failure import UsageError
from statewright.cli.db.database import advise_naming_graph, call_with_stand_ins
from statewright.errors import DamagedDatabase, SerdeError
from statewright.serde.serde import Serde


@dataclass(frozen=True)
class Inner:
    x: int


@dataclass(frozen=True)
class Outer:
    inner: Inner
    many: tuple[Inner, ...] = ()


STORED = Serde([Inner, Outer]).encode({"a": Outer(Inner(1), (Inner(2),)), "b": {Inner(3)}})


def test_stand_ins_are_stored_unchanged() -> None:
    serde = Serde()
    value = call_with_stand_ins(serde, lambda: serde.decode(STORED))
    assert serde.encode(value) == STORED
    assert Serde([Inner, Outer]).decode(serde.encode(value))["a"] == Outer(Inner(1), (Inner(2),))


def test_other_errors_are_raised() -> None:
    serde = Serde()
    with pytest.raises(DamagedDatabase):
        call_with_stand_ins(serde, lambda: serde.decode(STORED[:-3]))

    def fail() -> None:
        raise SerdeError("tag 99", "it was stored by a newer version")

    with pytest.raises(SerdeError, match="newer"):
        call_with_stand_ins(serde, fail)
    with pytest.raises(SerdeError, match="newer"), advise_naming_graph(serde, None):
        fail()


def test_an_unknown_type_is_reported_with_the_option_graph() -> None:
    serde = Serde()
    with (
        pytest.raises(UsageError, match=r"Inner.* with --graph FILE.py\. \[SW-serde-error\]"),
        advise_naming_graph(serde, None),
    ):
        serde.decode(STORED)
    with pytest.raises(UsageError, match=r"flow\.py does not define it"), advise_naming_graph(serde, "flow.py"):
        serde.decode(STORED)
