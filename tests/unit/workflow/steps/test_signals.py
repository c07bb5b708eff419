"""Payloads of signals."""

from __future__ import annotations

from typing import Any

import pytest

from statewright.workflow.steps.perform import check_payload


@pytest.mark.parametrize("payload", [{}, {"a": None}, {"_a": 1, "a__": 2}])
def test_maps_are_valid_payloads(payload: Any) -> None:
    assert check_payload(payload) is None


@pytest.mark.parametrize(
    ("payload", "message"),
    [
        ("text", "of type str"),
        ([], "of type list"),
        ({"__nextStep": "a"}, "the key '__nextStep'"),
        ({"a": 1, "__": 2}, "the key '__'"),
        ({0: 1}, "the key 0"),
    ],
)
def test_other_payloads_are_rejected(payload: Any, message: str) -> None:
    assert message in (check_payload(payload) or "")
