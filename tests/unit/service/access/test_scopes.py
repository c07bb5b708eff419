"""The scopes of keys."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest

from statewright.errors import Forbidden, InvalidRequest
from statewright.runs import ApiKey
from statewright.service.access.keys import ADMIN, OPERATOR_SCOPES, SCOPES, check_scope, validate_scopes


def key(*scopes: str) -> ApiKey:
    at = datetime(2026, 1, 1, tzinfo=UTC)
    return ApiKey(
        id="key_1",
        workspace_id="default",
        name="ci",
        digest="d",
        prefix="stw_abcdefgh",
        scopes=list(scopes),
        created_at=at,
    )


@pytest.mark.parametrize("scope", SCOPES)
def test_a_key_allows_its_scopes_and_admin_allows_all(scope: str) -> None:
    check_scope(key(scope), scope)
    if scope not in OPERATOR_SCOPES:
        check_scope(key(ADMIN), scope)


@pytest.mark.parametrize("scope", OPERATOR_SCOPES)
def test_admin_does_not_include_operator_scopes(scope: str) -> None:
    with pytest.raises(Forbidden, match=f"lacks the scope '{scope}'"):
        check_scope(key(ADMIN), scope)


@pytest.mark.parametrize("scope", [scope for scope in SCOPES if scope != "runs:read"])
def test_missing_scopes_are_forbidden(scope: str) -> None:
    with pytest.raises(Forbidden, match=f"'ci' .stw_abcdefgh.*lacks the scope '{scope}'; it has runs:read"):
        check_scope(key("runs:read"), scope)


def test_duplicate_scopes_are_removed() -> None:
    assert validate_scopes(["runs:write", "runs:read", "runs:write"]) == ["runs:write", "runs:read"]


@pytest.mark.parametrize(
    ("scopes", "message"),
    [
        ([], "at least one scope"),
        (["run:read"], "Did you mean 'runs:read'"),
        (["RUNS:READ"], "Scope 'RUNS:READ' does not exist"),
        ("admin", "list of strings"),
        (None, "list of strings"),
        ([None], "must be a string"),
    ],
)
def test_unknown_scopes_are_refused(scopes: Any, message: str) -> None:
    with pytest.raises(InvalidRequest) as caught:
        validate_scopes(scopes)
    assert message in str(caught.value)
