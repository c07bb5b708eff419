"""What a store keeps, and the namespaces under which it does."""

from dataclasses import FrozenInstanceError
from datetime import UTC, datetime
from typing import Any

import pytest

from statewright.errors import InvalidConfig, InvalidUpdateError
from statewright.store import (
    GetOp,
    Index,
    Item,
    ListNamespacesOp,
    PutOp,
    SearchItem,
    SearchOp,
    TimeToLive,
)
from statewright.store.model import check_namespace

NOW = datetime(2026, 1, 1, tzinfo=UTC)
FACTS: dict[str, Any] = {"namespace": ("a",), "key": "k", "value": {"n": 1}, "created_at": NOW, "updated_at": NOW}


@pytest.mark.parametrize("namespace", [("a",), ("users", "42", "memories"), (" ",), ("a", "a"), ("*",), ("ä/b:c",)])
def test_a_good_namespace_is_returned_itself(namespace: tuple[str, ...]) -> None:
    assert check_namespace(namespace) is namespace


@pytest.mark.parametrize(
    ("namespace", "said"),
    [
        ((), "has no label"),
        (("",), "has the label ''"),
        (("a", ""), "has the label ''"),
        (("a.b",), "has the label 'a.b'"),
        (("a", ".", "b"), r"has the label '\.'"),
        (("a", "b.", ""), r"has the label 'b\.'"),
    ],
)
def test_a_bad_namespace_is_refused_with_the_bad_label(namespace: tuple[str, ...], said: str) -> None:
    with pytest.raises(InvalidUpdateError, match=said + ".*one or more labels"):
        check_namespace(namespace)


@pytest.mark.parametrize("dims", [0, -1])
def test_an_index_has_at_least_one_dimension(dims: int) -> None:
    with pytest.raises(InvalidConfig, match=rf"dims={dims}.*at least 1"):
        Index(dims=dims, embed=lambda texts: [])


def test_an_index_covers_the_whole_value_unless_told_otherwise() -> None:
    assert Index(dims=1, embed=lambda texts: []).fields == ("$",)


def test_items_live_for_ever_unless_told_otherwise() -> None:
    ttl = TimeToLive()
    assert (ttl.default, ttl.refresh_on_read) == (None, True)


def test_an_item_that_was_searched_for_may_have_a_score() -> None:
    assert SearchItem(**FACTS).score is None
    assert SearchItem(**FACTS, score=0.0).score == 0.0
    assert isinstance(SearchItem(**FACTS), Item)


def test_items_are_equal_if_their_facts_are() -> None:
    assert Item(**FACTS) == Item(**FACTS)
    assert Item(**FACTS) != Item(**{**FACTS, "value": {"n": 2}})
    assert Item(**FACTS) != SearchItem(**FACTS)


@pytest.mark.parametrize(
    ("fact", "name"),
    [
        (Item(**FACTS), "key"),
        (SearchItem(**FACTS), "score"),
        (GetOp(namespace=("a",), key="k"), "key"),
        (PutOp(namespace=("a",), key="k", value=None), "value"),
        (SearchOp(prefix=()), "limit"),
        (ListNamespacesOp(), "limit"),
        (TimeToLive(), "default"),
        (Index(dims=1, embed=lambda texts: []), "dims"),
    ],
)
def test_facts_cannot_be_changed(fact: object, name: str) -> None:
    with pytest.raises(FrozenInstanceError):
        setattr(fact, name, None)
