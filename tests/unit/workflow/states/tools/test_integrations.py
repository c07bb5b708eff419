"""Credentials: found by alias, and hidden everywhere else."""

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


def jira() -> Integrations:
    return Integrations({"jira": JIRA, "plain": {"password": "hunter2-plain", "retries": 3}})


def test_values_are_looked_up_when_they_are_wanted(monkeypatch: pytest.MonkeyPatch) -> None:
    integrations = jira()
    monkeypatch.setenv("JIRA_TOKEN", SECRET)
    found = integrations.credentials("jira")
    assert dict(found) == {"base_url": "https://jira.example.com", "token": SECRET, "headers": {"X-Key": SECRET}}
    assert integrations.credentials("jira", {"JIRA_TOKEN": "another"})["token"] == "another"
    assert integrations.aliases == ("jira", "plain")
    assert "jira" in integrations


def test_no_alias_means_no_credentials() -> None:
    assert Integrations().credentials(None) is NO_CREDENTIALS


def test_a_variable_that_is_not_set_is_named() -> None:
    with pytest.raises(MissingApiKey, match="'jira' takes 'token' from the environment variable JIRA_TOKEN"):
        jira().credentials("jira", {"JIRA_TOKEN": ""})


def test_an_alias_that_is_nowhere_shows_the_snippet_to_add() -> None:
    with pytest.raises(ToolError) as caught:
        jira().credentials("jirra")
    assert "Integration 'jirra' does not exist. Did you mean 'jira'? Integrations: jira, plain." in str(caught.value)
    assert str(caught.value).endswith('[integrations.jirra]\ntoken = "env:JIRRA_TOKEN"')


def test_a_snippet_quotes_what_is_no_bare_key() -> None:
    assert integration_snippet("My Git") == '[integrations."My Git"]\ntoken = "env:MY_GIT_TOKEN"'
    assert integration_snippet("2nd") == '[integrations.2nd]\ntoken = "env:_2ND_TOKEN"'


def test_4_1_11_credentials_show_nothing_of_themselves() -> None:
    found = jira().credentials("jira", {"JIRA_TOKEN": SECRET})
    assert repr(found) == "Credentials('jira': base_url, token, headers)"
    assert "JIRA" not in repr(jira())
    for store in (pickle.dumps, copy.deepcopy):
        with pytest.raises(TypeError, match="not be stored"):
            store(found)


@pytest.mark.parametrize(
    "spelled",
    [
        SECRET,
        json.dumps(SECRET),
        json.dumps(SECRET, ensure_ascii=False),
        "p%40ss%2Fw%C3%B6rd%20%221%22",
        "p%40ss%2fw%c3%b6rd+%221%22",
        base64.b64encode(SECRET.encode()).decode(),
    ],
)
def test_4_1_11_a_secret_is_hidden_however_it_is_spelled(spelled: str) -> None:
    found = jira().credentials("jira", {"JIRA_TOKEN": SECRET})
    assert found.appear_in(f"<{spelled}>")
    hidden = found.hidden_in({"a": [f"<{spelled}>", 1], f"<{spelled}>": None})
    assert "rd" not in json.dumps(hidden)
    assert "***" in hidden["a"][0]


def test_values_of_secret_names_are_hidden_too_and_others_are_not() -> None:
    found = jira().credentials("plain")
    assert found.hidden_in("hunter2-plain 3") == "*** 3"
    assert jira().credentials("jira", {"JIRA_TOKEN": SECRET}).hidden_in("https://jira.example.com").endswith(".com")


def test_short_values_are_not_looked_for() -> None:
    assert jira().credentials("jira", {"JIRA_TOKEN": "a"}).hidden_in("banana") == "banana"


def test_what_a_tool_makes_of_a_secret_is_hidden_too() -> None:
    found = jira().credentials("jira", {"JIRA_TOKEN": SECRET})
    found.keep_secret("derived-value")
    assert found.hidden_in("a derived-value") == "a ***"
