"""Credentials: found by alias, and masked everywhere else."""

from __future__ import annotations

import base64
import copy
import json
import pickle

import pytest

from statewright.agents import NO_CREDENTIALS
from statewright.errors import MissingApiKey, ToolError
from statewright.workflow.states.tools.integrations import Integrations, integration_snippet

SECRET = 'p@ss/wörd "1"'
JIRA = {"base_url": "https://jira.example.com", "token": "env:JIRA_TOKEN", "headers": {"X-Key": "env:JIRA_TOKEN"}}


def make_integrations() -> Integrations:
    return Integrations({"jira": JIRA, "plain": {"password": "hunter2-plain", "retries": 3}})


def test_values_are_read_from_the_environment_on_use(monkeypatch: pytest.MonkeyPatch) -> None:
    integrations = make_integrations()
    monkeypatch.setenv("JIRA_TOKEN", SECRET)
    credentials = integrations.credentials("jira")
    assert dict(credentials) == {"base_url": "https://jira.example.com", "token": SECRET, "headers": {"X-Key": SECRET}}
    assert integrations.credentials("jira", {"JIRA_TOKEN": "another"})["token"] == "another"
    assert integrations.aliases == ("jira", "plain")
    assert "jira" in integrations


def test_without_an_alias_there_are_no_credentials() -> None:
    assert Integrations().credentials(None) is NO_CREDENTIALS


def test_the_error_names_the_missing_variable() -> None:
    with pytest.raises(MissingApiKey, match="'jira' takes 'token' from the environment variable JIRA_TOKEN"):
        make_integrations().credentials("jira", {"JIRA_TOKEN": ""})


def test_the_error_for_a_missing_alias_contains_a_snippet() -> None:
    with pytest.raises(ToolError) as caught:
        make_integrations().credentials("jirra")
    assert "Integration 'jirra' does not exist. Did you mean 'jira'? Integrations: jira, plain." in str(caught.value)
    assert str(caught.value).endswith('[integrations.jirra]\ntoken = "env:JIRRA_TOKEN"')


def test_a_snippet_quotes_names_with_spaces() -> None:
    assert integration_snippet("My Git") == '[integrations."My Git"]\ntoken = "env:MY_GIT_TOKEN"'
    assert integration_snippet("2nd") == '[integrations.2nd]\ntoken = "env:_2ND_TOKEN"'


def test_4_1_11_credentials_have_no_secrets_in_their_repr_and_cannot_be_stored() -> None:
    credentials = make_integrations().credentials("jira", {"JIRA_TOKEN": SECRET})
    assert repr(credentials) == "Credentials('jira': base_url, token, headers)"
    assert "JIRA" not in repr(make_integrations())
    for store in (pickle.dumps, copy.deepcopy):
        with pytest.raises(TypeError, match="not be stored"):
            store(credentials)


@pytest.mark.parametrize(
    "spelling",
    [
        SECRET,
        json.dumps(SECRET),
        json.dumps(SECRET, ensure_ascii=False),
        "p%40ss%2Fw%C3%B6rd%20%221%22",
        "p%40ss%2fw%c3%b6rd+%221%22",
        base64.b64encode(SECRET.encode()).decode(),
    ],
)
def test_4_1_11_a_secret_is_masked_in_every_spelling(spelling: str) -> None:
    credentials = make_integrations().credentials("jira", {"JIRA_TOKEN": SECRET})
    assert credentials.appear_in(f"<{spelling}>")
    hidden = credentials.hidden_in({"a": [f"<{spelling}>", 1], f"<{spelling}>": None})
    assert "rd" not in json.dumps(hidden)
    assert "***" in hidden["a"][0]


def test_values_of_secret_names_are_masked_and_others_are_not() -> None:
    credentials = make_integrations().credentials("plain")
    assert credentials.hidden_in("hunter2-plain 3") == "*** 3"
    assert (
        make_integrations()
        .credentials("jira", {"JIRA_TOKEN": SECRET})
        .hidden_in("https://jira.example.com")
        .endswith(".com")
    )


def test_short_values_are_not_masked() -> None:
    assert make_integrations().credentials("jira", {"JIRA_TOKEN": "a"}).hidden_in("banana") == "banana"


def test_a_derived_secret_is_masked() -> None:
    credentials = make_integrations().credentials("jira", {"JIRA_TOKEN": SECRET})
    credentials.keep_secret("derived-value")
    assert credentials.hidden_in("a derived-value") == "a ***"
