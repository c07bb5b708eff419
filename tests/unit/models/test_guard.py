"""The switch that forbids calls of real models."""

from concurrent.futures import ThreadPoolExecutor

import pytest

from statewright.errors import InvalidConfig, ModelError
from statewright.models.guard import VARIABLE, allow_model_calls, check_calls_allowed, forbid_model_calls, is_local


@pytest.fixture(autouse=True)
def clean_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(VARIABLE, raising=False)


def is_allowed(base_url: str | None = None) -> bool:
    try:
        check_calls_allowed("gpt", base_url=base_url)
    except ModelError:
        return False
    return True


def test_calls_are_allowed_by_default() -> None:
    assert is_allowed()


def test_the_error_names_who_forbade_the_call_and_a_remedy() -> None:
    with forbid_model_calls(), pytest.raises(ModelError, match=r"'gpt'.*forbid_model_calls\(\).*ScriptedModel"):
        check_calls_allowed("gpt")
    assert is_allowed()


def test_without_a_with_block_a_rule_holds_until_it_ends() -> None:
    rule = forbid_model_calls()
    assert not is_allowed()
    rule.end()
    rule.end()
    assert is_allowed()


def test_the_innermost_rule_holds() -> None:
    with forbid_model_calls():
        with allow_model_calls():
            assert is_allowed()
            with forbid_model_calls():
                assert not is_allowed()
            assert is_allowed()
        assert not is_allowed()


def test_rules_may_end_in_any_order() -> None:
    first, second = forbid_model_calls(), forbid_model_calls()
    first.end()
    assert not is_allowed()
    second.end()
    assert is_allowed()


def test_rules_hold_on_all_threads() -> None:
    with forbid_model_calls(), ThreadPoolExecutor(1) as pool:
        assert not pool.submit(is_allowed).result()


def test_local_models_are_allowed_unless_forbidden_too() -> None:
    with forbid_model_calls():
        assert is_allowed("http://127.0.0.1:8080/v1")
        assert not is_allowed("https://api.openai.com/v1")
    with forbid_model_calls(local=False):
        assert not is_allowed("http://127.0.0.1:8080/v1")


@pytest.mark.parametrize("value", ["0", "false", " False "])
def test_the_environment_forbids_calls(monkeypatch: pytest.MonkeyPatch, value: str) -> None:
    monkeypatch.setenv(VARIABLE, value)
    with pytest.raises(ModelError, match=VARIABLE):
        check_calls_allowed("gpt")
    assert is_allowed("http://localhost:1")
    with allow_model_calls():
        assert is_allowed()


@pytest.mark.parametrize("value", ["", "1", "true"])
def test_the_environment_allows_calls(monkeypatch: pytest.MonkeyPatch, value: str) -> None:
    monkeypatch.setenv(VARIABLE, value)
    assert is_allowed()


def test_other_values_in_the_environment_are_rejected(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(VARIABLE, "maybe")
    with pytest.raises(InvalidConfig, match="'maybe'"):
        check_calls_allowed("gpt")


@pytest.mark.parametrize(
    ("url", "local"),
    [
        ("http://localhost:8000/v1", True),
        ("http://LOCALHOST", True),
        ("http://127.8.9.1/", True),
        ("http://[::1]:80/v1", True),
        ("localhost:11434", True),
        ("http://api.localhost/v1", True),
        ("http://127.0.0.1.evil.com/v1", False),
        ("http://localhost.evil.com", False),
        ("https://localhost@evil.com/", False),
        ("https://evil.com/localhost", False),
        ("http://10.0.0.1", False),
        ("http://[::1", False),
        ("", False),
    ],
)
def test_an_address_is_local_by_its_host(url: str, local: bool) -> None:
    assert is_local(url) is local
