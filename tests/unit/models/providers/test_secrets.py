"""The secrets of a connection to a provider."""

from __future__ import annotations

import pytest

from statewright.models.providers.names import ProviderSecrets
from statewright.redaction import HIDDEN


def test_keys_addresses_and_secret_settings_are_masked() -> None:
    secrets = ProviderSecrets(
        "openai-chat",
        api_key="the-key-itself",
        base_url="https://anna:pass-word@h/v1?code=the-query",
        settings={"temperature": 0, "extra_headers": {"X-Token": "Bearer the-token", "X-Team": "the-team"}},
    )
    mask = secrets.mask_for({"extra_body": {"api_key": "of-the-request"}}, "https://h?sig=of-the-client")
    for secret in ("the-key-itself", "pass-word", "the-query", "the-token", "of-the-request", "of-the-client"):
        assert mask(f"a {secret} b") == f"a {HIDDEN} b"
    assert mask("the-team at h") == "the-team at h"
    assert ProviderSecrets("openai").mask_for({}, "")("the-key-itself") == "the-key-itself"


def test_variables_are_read_at_creation_and_at_each_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "the-first-key")
    secrets = ProviderSecrets("openai")
    monkeypatch.setenv("OPENAI_API_KEY", "the-second-key")
    monkeypatch.setenv("GROQ_API_KEY", "that-of-another")
    masked = secrets.mask_for({}, "")("the-first-key the-second-key that-of-another")
    assert masked == f"{HIDDEN} {HIDDEN} that-of-another"


def test_all_secret_variables_are_masked_for_a_provider_with_unknown_variables(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "the-aws-key")
    monkeypatch.setenv("AWS_REGION", "eu-central-1")
    monkeypatch.setenv("PWD", "/home/anna")
    assert ProviderSecrets("bedrock").mask_for({}, "")("the-aws-key eu-central-1 /home/anna") == (
        f"{HIDDEN} eu-central-1 /home/anna"
    )
