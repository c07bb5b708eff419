"""Reading and checking the settings of a call."""

from typing import Any

import pytest

from statewright.errors import InvalidConfig
from statewright.runtime.config import ON_BUSY, checked_choice, read_settings


@pytest.mark.parametrize(
    ("config", "keywords", "expected"),
    [
        (None, {}, {"thread_id": None, "branch": "main", "recursion_limit": 1000, "max_concurrency": None}),
        ({}, {}, {"thread_id": None, "branch": "main"}),
        (None, {"thread_id": "1"}, {"thread_id": "1"}),
        ({"configurable": {"thread_id": "1"}}, {}, {"thread_id": "1"}),
        ({"thread_id": "1"}, {}, {"thread_id": "1"}),
        ({"configurable": {"thread_id": 1}}, {}, {"thread_id": "1"}),
        (None, {"thread_id": 0}, {"thread_id": "0"}),
        ({"configurable": {"thread_id": "inner"}, "thread_id": "outer"}, {}, {"thread_id": "outer"}),
        ({"configurable": {"thread_id": "inner"}, "thread_id": "outer"}, {"thread_id": "k"}, {"thread_id": "k"}),
        ({"configurable": {"thread_id": "inner"}}, {"thread_id": None}, {"thread_id": "inner"}),
        ({"configurable": None, "branch": "side"}, {}, {"branch": "side", "thread_id": None}),
        ({"recursion_limit": 5}, {"max_concurrency": 2}, {"recursion_limit": 5, "max_concurrency": 2}),
        ({"configurable": {"checkpoint_id": "c", "namespace": "n"}}, {}, {"checkpoint_id": "c", "namespace": "n"}),
        ({"run_id": "r", "tags": ["t"], "metadata": {}, "run_name": "n"}, {}, {"run_id": "r"}),
        ({"configurable": {"user": "ann"}}, {}, {"thread_id": None}),
    ],
)
def test_settings_come_from_keywords_then_the_config_then_configurable(
    config: Any, keywords: dict[str, Any], expected: dict[str, Any]
) -> None:
    settings = read_settings(config, **keywords)

    assert {name: getattr(settings, name) for name in expected} == expected


@pytest.mark.parametrize(
    ("config", "keywords", "reason"),
    [
        ("thread-1", {}, "of type str"),
        ([], {}, "of type list"),
        ({"thread": "1"}, {}, "unknown key 'thread'.*Did you mean 'thread_id'"),
        ({"recursion_limit": 0}, {}, "recursion_limit is 0"),
        ({"recursion_limit": "5"}, {}, "recursion_limit is '5'"),
        ({"recursion_limit": True}, {}, "recursion_limit is True"),
        (None, {"max_concurrency": -1}, "max_concurrency is -1"),
        (None, {"max_concurrency": 1.5}, "max_concurrency is 1.5"),
        (None, {"thread_id": ""}, "thread_id is ''"),
        ({"configurable": {"thread_id": ["1"]}}, {}, "thread_id is .* of type list"),
        (None, {"branch": 3}, "branch is 3"),
        (None, {"checkpoint_id": ""}, "checkpoint_id is ''"),
        (None, {"run_id": b"r"}, "run_id is b'r'"),
        pytest.param(
            {"configurable": "thread-1"},
            {},
            "configurable",
        ),
        pytest.param(
            {3: "thread-1"},
            {},
            "unknown key 3",
        ),
        pytest.param(
            {"thread_id": True},
            {},
            "thread_id is True",
        ),
    ],
)
def test_unknown_keys_and_invalid_values_are_refused(config: Any, keywords: dict[str, Any], reason: str) -> None:
    with pytest.raises(InvalidConfig, match=reason):
        read_settings(config, **keywords)


def test_the_config_of_nodes_has_the_callers_values_and_the_run_id() -> None:
    config = {"configurable": {"user": "ann", "thread_id": 7}, "tags": ["t"]}
    settings = read_settings(config, recursion_limit=5)

    assert settings.as_config("", "run") == {
        "configurable": {"user": "ann", "thread_id": "7"},
        "tags": ["t"],
        "run_id": "run",
        "recursion_limit": 5,
        "max_concurrency": None,
    }
    assert config == {"configurable": {"user": "ann", "thread_id": 7}, "tags": ["t"]}


def test_the_config_of_nodes_of_a_subgraph_has_the_namespace() -> None:
    settings = read_settings(None, thread_id="1")

    assert settings.as_config("sub:1", "run")["configurable"] == {"thread_id": "1", "namespace": "sub:1"}


@pytest.mark.parametrize("value", [None, *ON_BUSY])
def test_checked_choice_returns_a_valid_choice(value: Any) -> None:
    assert checked_choice("on_busy", value, ON_BUSY) == value


@pytest.mark.parametrize("value", ["wait", "", 3, False])
def test_an_invalid_choice_is_refused_with_a_list_of_the_choices(value: Any) -> None:
    with pytest.raises(InvalidConfig, match=r"on_busy is .*enqueue, interrupt, reject, rollback"):
        checked_choice("on_busy", value, ON_BUSY)
