"""The settings of one call: read from `config` and keywords, checked, nothing ignored."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from datetime import timedelta
from typing import Any, Final, Literal, cast

from statewright.clock import as_seconds
from statewright.errors import InvalidConfig, suggestion
from statewright.ids import checked_name

DEFAULT_RECURSION_LIMIT: Final = 1000
"""Supersteps that one call may take."""

OnUnfinished = Literal["discard", "finish"]
Durability = Literal["sync", "async", "exit"]
ChangedQuestions = Literal["warn", "error"]
"""The consequence if a task asks an answered question in other words."""
OnBusy = Literal["reject", "enqueue", "interrupt", "rollback"]
ON_BUSY: tuple[OnBusy, ...] = ("reject", "enqueue", "interrupt", "rollback")
STOPS_HOLDER: tuple[OnBusy, ...] = ("interrupt", "rollback")
"""Of these, the ones that ask the holder of a thread to stop."""
ON_UNFINISHED: tuple[OnUnfinished, ...] = ("discard", "finish")
DURABILITIES: tuple[Durability, ...] = ("sync", "async", "exit")

_OWN = ("thread_id", "checkpoint_id", "branch", "namespace", "recursion_limit", "max_concurrency", "run_id")
_PASSED_ON = ("tags", "metadata", "run_name", "callbacks")
"""Not read here, but in the config of nodes: what LangChain's models and tools take from it."""
_KNOWN = ("configurable", *_OWN, *_PASSED_ON)


class Settings:
    """The settings of one call."""

    __slots__ = (
        "branch",
        "checkpoint_id",
        "given",
        "max_concurrency",
        "namespace",
        "recursion_limit",
        "run_id",
        "thread_id",
    )

    def __init__(self, config: Mapping[str, Any] | None = None) -> None:
        self.given: Mapping[str, Any] = config or {}
        self.thread_id: str | None = None
        self.checkpoint_id: str | None = None
        self.branch = "main"
        self.namespace: str | None = None
        self.run_id: str | None = None
        self.recursion_limit = DEFAULT_RECURSION_LIMIT
        self.max_concurrency: int | None = None

    def as_config(self, namespace: str, run_id: str) -> dict[str, Any]:
        """The settings as nodes see them: what the caller gave, with the ids of this run."""
        configurable = {**self.given.get("configurable", {}), "thread_id": self.thread_id}
        if namespace:
            configurable["namespace"] = namespace
        return {
            **self.given,
            "configurable": configurable,
            "run_id": run_id,
            "recursion_limit": self.recursion_limit,
            "max_concurrency": self.max_concurrency,
        }


def read_settings(config: Any, **keywords: Any) -> Settings:
    """The settings in a config and in keywords, which win. Raises InvalidConfig for what is unknown or wrong."""
    if config is None and not any(value is not None for value in keywords.values()):
        return Settings()
    if config is not None and not isinstance(config, Mapping):
        raise InvalidConfig(
            f"config is {config!r} of type {type(config).__name__}. "
            f"Pass a mapping such as {{'configurable': {{'thread_id': '1'}}}}."
        )
    given = cast(Mapping[str, Any], config or {})
    unknown = next((key for key in given if key not in _KNOWN), None)
    if unknown is not None:
        hint = suggestion(str(unknown), _KNOWN, noun="Keys")
        raise InvalidConfig(f"config holds the unknown key {unknown!r}. {hint}")
    settings = Settings(given)
    configurable: Any = given.get("configurable") or {}
    if not isinstance(configurable, Mapping):
        raise InvalidConfig(f"configurable is {configurable!r}. Pass a mapping such as {{'thread_id': '1'}}.")
    for name in _OWN:
        value = _first_given(name, keywords, given, cast(Mapping[str, Any], configurable))
        if value is not None:
            setattr(settings, name, _checked(name, value))
    return settings


def joined_configs(outer: Any, inner: Any) -> Any:
    """One config out of two; what `inner` says wins, also about a key that `outer` has under `configurable`."""
    if not (isinstance(outer, Mapping) and isinstance(inner, Mapping)):
        return inner if inner is not None else cast(Any, outer)
    first, then = dict(cast(Mapping[str, Any], outer)), dict(cast(Mapping[str, Any], inner))
    old: Mapping[str, Any] = first.pop("configurable", None) or {}
    new: Mapping[str, Any] = then.pop("configurable", None) or {}
    first = {key: value for key, value in first.items() if key not in new}
    configurable = {**{key: value for key, value in old.items() if key not in then}, **new}
    return {**first, **then, **({"configurable": configurable} if configurable else {})}


def _first_given(name: str, *sources: Mapping[str, Any]) -> Any:
    return next((source[name] for source in sources if source.get(name) is not None), None)


def _checked(name: str, value: Any) -> Any:
    if name in ("recursion_limit", "max_concurrency"):
        if not isinstance(value, int) or isinstance(value, bool) or value < 1:
            raise InvalidConfig(f"{name} is {value!r}. Give a whole number of at least 1.")
        return value
    if name == "thread_id":
        value = thread_name(value)
    return checked_name(name, value)


def thread_name(value: Any) -> Any:
    """The id of a thread as text, if it was given as a number or a UUID; everything else as it is."""
    if isinstance(value, str):
        return value
    uuid = sys.modules.get("uuid")  # who has a UUID has loaded it
    is_number = isinstance(value, int) and not isinstance(value, bool)
    return str(value) if is_number or (uuid is not None and isinstance(value, uuid.UUID)) else value


def checked_choice(name: str, value: Any, choices: tuple[str, ...]) -> Any:
    """The value, if it is one of the choices. Raises InvalidConfig."""
    if value is not None and value not in choices:
        raise InvalidConfig(f"{name} is {value!r}. " + suggestion(str(value), choices, noun="Choices"))
    return value


def checked_grace(value: Any) -> float | None:
    """A `sibling_grace` in seconds; None for ever. Raises InvalidConfig."""
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, int | float | timedelta) or not as_seconds(value) >= 0:
        raise InvalidConfig(
            f"sibling_grace is {value!r}. Give seconds or a timedelta that is not negative; 0 waits for nobody, "
            f"None for ever."
        )
    return as_seconds(value)
