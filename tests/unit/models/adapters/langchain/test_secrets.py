"""Masking of secrets in the fields of LangChain's models."""

from __future__ import annotations

from typing import Any

import pytest
from pydantic import BaseModel, SecretBytes, SecretStr

from statewright.models.adapters.langchain.errors import mask_for
from statewright.redaction import HIDDEN


class Model(BaseModel):
    openai_api_key: SecretStr | None = None
    raw: SecretBytes | None = None
    access_token: str | None = None
    default_headers: dict[str, str] | None = None
    base_url: str | None = None
    team: str | None = None
    bound: Any = None
    lc_secrets: dict[str, str] = {}


@pytest.mark.parametrize(
    "model",
    [
        Model(openai_api_key=SecretStr("the-key-itself")),
        Model(access_token="the-key-itself"),
        Model(default_headers={"Authorization": "Token the-key-itself"}),
        Model(base_url="https://anna:the-key-itself@h"),
        Model(lc_secrets={"openai_api_key": "KEY_OF_TESTS"}),
        Model(bound=Model(openai_api_key=SecretStr("the-key-itself"))),
    ],
)
def test_keys_are_masked_in_every_field_that_may_hold_them(model: Model, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KEY_OF_TESTS", "the-key-itself")
    assert mask_for(model, {})("no the-key-itself") == f"no {HIDDEN}"


def test_fields_without_secrets_are_not_masked() -> None:
    model = Model(team="the-team", raw=SecretBytes(b"x"))
    model.bound = model
    assert mask_for(model, {"api_key": "of-the-request"})("the-team of-the-request") == f"the-team {HIDDEN}"
