"""Items, operations and options of stores, and valid namespaces."""

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
FIELDS: dict[str, Any] = {"namespace": ("a",), "key": "k", "value": {"n": 1}, "created_at": NOW, "updated_at": NOW}


@pytest.mark.parametrize("namespace", [("a",), ("users", "42", "memories"), (" ",), ("a", "a"), ("*",), ("ä/b:c",)])
def test_a_valid_namespace_is_returned_unchanged(namespace: tuple[str, ...]) -> None:
    assert check_namespace(namespace) is namespace


@pytest.mark.parametrize(
    ("namespace", "message"),
    [
        ((), "has no label"),
        (("",), "has the label ''"),
        (("a", ""), "has the label ''"),
        (("a.b",), "has the label 'a.b'"),
        (("a", ".", "b"), r"has the label '\.'"),
        (("a", "b.", ""), r"has the label 'b\.'"),
        (("a\0",), r"has the label 'a\\x00'"),
    ],
)
def test_an_invalid_namespace_is_refused_with_its_invalid_label(namespace: tuple[str, ...], message: str) -> None:
    with pytest.raises(InvalidUpdateError, match=message + ".*one or more labels"):
        check_namespace(namespace)


@pytest.mark.parametrize("dims", [0, -1])
def test_an_index_needs_at_least_one_dimension(dims: int) -> None:
    with pytest.raises(InvalidConfig, match=rf"dims={dims}.*at least 1"):
        Index(dims=dims, embed=lambda texts: [])


def test_an_index_covers_the_whole_value_by_default() -> None:
    assert Index(dims=1, embed=lambda texts: []).fields == ("$",)


def test_items_never_expire_by_default() -> None:
    ttl = TimeToLive()
    assert (ttl.default, ttl.refresh_on_read) == (None, True)


def test_a_search_item_can_have_a_score() -> None:
    assert SearchItem(**FIELDS).score is None
    assert SearchItem(**FIELDS, score=0.0).score == 0.0
    assert isinstance(SearchItem(**FIELDS), Item)


def test_items_are_compared_by_type_and_fields() -> None:
    assert Item(**FIELDS) == Item(**FIELDS)
    assert Item(**FIELDS) != Item(**{**FIELDS, "value": {"n": 2}})
    assert Item(**FIELDS) != SearchItem(**FIELDS)


@pytest.mark.parametrize(
    ("instance", "name"),
    [
        (Item(**FIELDS), "key"),
        (SearchItem(**FIELDS), "score"),
        (GetOp(namespace=("a",), key="k"), "key"),
        (PutOp(namespace=("a",), key="k", value=None), "value"),
        (SearchOp(prefix=()), "limit"),
        (ListNamespacesOp(), "limit"),
        (TimeToLive(), "default"),
        (Index(dims=1, embed=lambda texts: []), "dims"),
    ],
)
def test_instances_are_frozen(instance: object, name: str) -> None:
    with pytest.raises(FrozenInstanceError):
        setattr(instance, name, None)
