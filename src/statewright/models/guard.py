"""A switch that forbids calls of real models, so that no test pays for one by mistake.

Adapters that reach a provider call `check_calls_allowed` first. Models that reach none, such as a ScriptedModel or a
replaying RecordedModel, never do. The switch holds for the whole process, since graphs run on threads of their own.
Servers on this machine are still allowed unless that is forbidden too.
"""

from __future__ import annotations

import os
import threading
from contextlib import suppress
from ipaddress import ip_address
from typing import Final
from urllib.parse import urlsplit

from statewright.errors import InvalidConfig, ModelError

VARIABLE: Final = "STATEWRIGHT_ALLOW_MODEL_CALLS"
"""Environment variable: 0 forbids model calls, 1 allows them. Calls of this module take precedence."""
_MEANINGS: Final = {"": True, "1": True, "true": True, "0": False, "false": False}


class CallRule:
    """A rule about model calls, active from its creation; as a context manager, until the block ends."""

    def __init__(self, *, calls: bool, local: bool, source: str) -> None:
        self.calls = calls
        self.local = local
        """True if models on this machine are allowed."""
        self.source = source
        """The name of the rule in errors."""
        with _lock:
            _rules.append(self)

    def __enter__(self) -> CallRule:
        return self

    def __exit__(self, *_: object) -> None:
        self.end()

    def end(self) -> None:
        """Restore the previous rule; a second call does nothing."""
        with _lock:
            _rules[:] = [rule for rule in _rules if rule is not self]


_lock = threading.Lock()
_rules: list[CallRule] = []
"""The last one is active."""


def forbid_model_calls(*, local: bool = True) -> CallRule:
    """Forbid calls of real models in this process: they raise ModelError.

    Write `with forbid_model_calls():` for a part of a program, or call it for all of it. With `local`, models that are
    served on this machine are still allowed.
    """
    return CallRule(calls=False, local=local, source="forbid_model_calls()")


def allow_model_calls() -> CallRule:
    """Allow calls of real models, overriding earlier rules; as a context manager, for a part of a program."""
    return CallRule(calls=True, local=True, source="allow_model_calls()")


def check_calls_allowed(model: str, *, base_url: str | None = None) -> None:
    """Raise ModelError if calls of real models are forbidden; adapters call it before each call.

    `base_url` is the address of the model, if known.
    """
    with _lock:
        rule = _rules[-1] if _rules else None
    is_allowed, local_is_allowed = (rule.calls, rule.local) if rule is not None else (_environment_allows(), True)
    if is_allowed or (local_is_allowed and base_url is not None and is_local(base_url)):
        return
    source = rule.source if rule is not None else f"{VARIABLE}={os.environ.get(VARIABLE)}"
    raise ModelError(
        f"The model {model!r} was not called: calls of real models are forbidden by {source}. "
        f"Use a ScriptedModel or a RecordedModel, or let this one through with `with allow_model_calls():`."
    )


def is_local(base_url: str) -> bool:
    """Return True for an address of this machine."""
    with suppress(ValueError):  # of an invalid address, or the name of another machine
        host = urlsplit(base_url if "//" in base_url else f"//{base_url}").hostname or ""
        return host == "localhost" or host.endswith(".localhost") or ip_address(host).is_loopback
    return False


def _environment_allows() -> bool:
    setting = os.environ.get(VARIABLE, "")
    try:
        return _MEANINGS[setting.strip().lower()]
    except KeyError:
        raise InvalidConfig(
            f"{VARIABLE} is {setting!r} in the environment. Write 0 to forbid calls of models, or 1 to allow them."
        ) from None
