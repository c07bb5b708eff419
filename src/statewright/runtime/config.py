"""The settings of one call, which are read from `config` and from keywords. Unknown keys raise InvalidConfig."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from datetime import timedelta
from typing import Any, Final, Literal, cast

from statewright.clock import as_seconds
from statewright.errors import InvalidConfig, suggestion
from statewright.ids import checked_name

DEFAULT_RECURSION_LIMIT: Final = 1000
"""The default of the maximum number of supersteps of a call."""

OnUnfinished = Literal["discard", "finish"]
Durability = Literal["sync", "async", "exit"]
ChangedQuestions = Literal["warn", "error"]
"""The reaction when a task is executed again and asks a question whose wording has changed since it was answered."""
OnBusy = Literal["reject", "enqueue", "interrupt", "rollback"]
ON_BUSY: tuple[OnBusy, ...] = ("reject", "enqueue", "interrupt", "rollback")
STOPS_HOLDER: tuple[OnBusy, ...] = ("interrupt", "rollback")
"""The choices of `on_busy` with which the run that holds the thread is stopped."""
ON_UNFINISHED: tuple[OnUnfinished, ...] = ("discard", "finish")
DURABILITIES: tuple[Durability, ...] = ("sync", "async", "exit")

SETTING_KEYS = ("thread_id", "checkpoint_id", "branch", "namespace", "recursion_limit", "max_concurrency", "run_id")
"""The settings, as keys of a config and as keywords of a call."""
_NODE_KEYS = ("tags", "metadata", "run_name", "callbacks")
"""Keys that do not affect the run, but are passed on in the config of nodes, for LangChain's models and tools."""
_CONFIG_KEYS = ("configurable", *SETTING_KEYS, *_NODE_KEYS)


class Settings:
    """The settings of one call."""

    __slots__ = (
        "branch",
        "checkpoint_id",
        "config",
        "max_concurrency",
        "namespace",
        "recursion_limit",
        "run_id",
        "thread_id",
    )

    def __init__(self, config: Mapping[str, Any] | None = None) -> None:
        self.config: Mapping[str, Any] = config or {}
        """The config of the call as it was passed."""
        self.thread_id: str | None = None
        self.checkpoint_id: str | None = None
        self.branch = "main"
        self.namespace: str | None = None
        self.run_id: str | None = None
        self.recursion_limit = DEFAULT_RECURSION_LIMIT
        self.max_concurrency: int | None = None

    def as_config(self, namespace: str, run_id: str) -> dict[str, Any]:
        """Return the config that nodes receive: the config of the call, with the ids and limits of this run."""
        configurable = {**self.config.get("configurable", {}), "thread_id": self.thread_id}
        if namespace:
            configurable["namespace"] = namespace
        return {
            **self.config,
            "configurable": configurable,
            "run_id": run_id,
            "recursion_limit": self.recursion_limit,
            "max_concurrency": self.max_concurrency,
        }


def read_settings(config: Any, **keywords: Any) -> Settings:
    """Return the settings in a config and in keywords. Keywords take precedence.

    Raises InvalidConfig for unknown keys and invalid values.
    """
    if config is None and not any(value is not None for value in keywords.values()):
        return Settings()
    if config is not None and not isinstance(config, Mapping):
        raise InvalidConfig(
            f"config is {config!r} of type {type(config).__name__}. "
            f"Pass a mapping such as {{'configurable': {{'thread_id': '1'}}}}."
        )
    entries = cast(Mapping[str, Any], config or {})
    unknown = next((key for key in entries if key not in _CONFIG_KEYS), None)
    if unknown is not None:
        raise InvalidConfig(
            f"config has the unknown key {unknown!r}. " + suggestion(str(unknown), _CONFIG_KEYS, noun="Keys")
        )
    settings = Settings(entries)
    configurable: Any = entries.get("configurable") or {}
    if not isinstance(configurable, Mapping):
        raise InvalidConfig(f"configurable is {configurable!r}. Pass a mapping such as {{'thread_id': '1'}}.")
    for name in SETTING_KEYS:
        value = _first_value(name, keywords, entries, cast(Mapping[str, Any], configurable))
        if value is not None:
            setattr(settings, name, _checked_setting(name, value))
    return settings


def merge_configs(outer: Any, inner: Any) -> Any:
    """Merge two configs. Keys of `inner` take precedence, even if a key is under "configurable" in only one of them."""
    if not (isinstance(outer, Mapping) and isinstance(inner, Mapping)):
        return inner if inner is not None else cast(Any, outer)
    old, new = dict(cast(Mapping[str, Any], outer)), dict(cast(Mapping[str, Any], inner))
    old_nested: Mapping[str, Any] = old.pop("configurable", None) or {}
    new_nested: Mapping[str, Any] = new.pop("configurable", None) or {}
    old = {key: value for key, value in old.items() if key not in new_nested}
    configurable = {**{key: value for key, value in old_nested.items() if key not in new}, **new_nested}
    return {**old, **new, **({"configurable": configurable} if configurable else {})}


def _first_value(name: str, *sources: Mapping[str, Any]) -> Any:
    return next((source[name] for source in sources if source.get(name) is not None), None)


def _checked_setting(name: str, value: Any) -> Any:
    if name in ("recursion_limit", "max_concurrency"):
        if not isinstance(value, int) or isinstance(value, bool) or value < 1:
            raise InvalidConfig(f"{name} is {value!r}. Pass an integer of at least 1.")
        return value
    if name == "thread_id":
        value = as_thread_id(value)
    return checked_name(name, value)


def as_thread_id(value: Any) -> Any:
    """Return an integer or a UUID as a string, and any other value unchanged."""
    if isinstance(value, str):
        return value
    uuid = sys.modules.get("uuid")  # a UUID exists only if its module is loaded
    is_number = isinstance(value, int) and not isinstance(value, bool)
    return str(value) if is_number or (uuid is not None and isinstance(value, uuid.UUID)) else value


def checked_choice(name: str, value: Any, choices: tuple[str, ...]) -> Any:
    """Return a value that is None or one of the choices. Raises InvalidConfig for any other value."""
    if value is not None and value not in choices:
        raise InvalidConfig(f"{name} is {value!r}. " + suggestion(str(value), choices, noun="Choices"))
    return value


def checked_grace(value: Any) -> float | None:
    """Return a `sibling_grace` in seconds; None for no limit. Raises InvalidConfig for an invalid value."""
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, int | float | timedelta) or not as_seconds(value) >= 0:
        raise InvalidConfig(
            f"sibling_grace is {value!r}. Pass seconds or a timedelta that is not negative, 0 not to wait, "
            f"or None to wait without limit."
        )
    return as_seconds(value)
