"""A switch that forbids calls of real models, so that no test pays for one by mistake.

Adapters call `check_calls_allowed` before they contact a provider. Models that contact none, such as a ScriptedModel or
a replaying RecordedModel, do not. The switch applies to the whole process, since graphs run on several threads. Models
served on this machine remain allowed unless they are forbidden too.
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
"""Environment variable: 0 forbids model calls, 1 allows them. The functions of this module take precedence."""
_IS_ALLOWED_BY_SETTING: Final = {"": True, "1": True, "true": True, "0": False, "false": False}


class CallRule:
    """A rule about model calls, active until `end` is called; as a context manager, until the block ends."""

    def __init__(self, *, calls: bool, local: bool, source: str) -> None:
        self.calls = calls
        """True if calls of real models are allowed."""
        self.local = local
        """True if calls of models on this machine are allowed."""
        self.source = source
        """The call or variable that set the rule, for errors."""
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
"""The active rules; the last one applies."""


def forbid_model_calls(*, local: bool = True) -> CallRule:
    """Forbid calls of real models in this process: they raise ModelError.

    Call it once for the whole program, or write `with forbid_model_calls():` for a part of it. With `local`, models
    served on this machine remain allowed.
    """
    return CallRule(calls=False, local=local, source="forbid_model_calls()")


def allow_model_calls() -> CallRule:
    """Allow calls of real models, overriding earlier rules; as a context manager, for a part of a program."""
    return CallRule(calls=True, local=True, source="allow_model_calls()")


def check_calls_allowed(model: str, *, base_url: str | None = None) -> None:
    """Raise ModelError if a model may not be called; adapters check this before each call.

    `base_url` is the address of the model, if known.
    """
    with _lock:
        rule = _rules[-1] if _rules else None
    is_allowed, is_local_allowed = (rule.calls, rule.local) if rule is not None else (_environment_allows(), True)
    if is_allowed or (is_local_allowed and base_url is not None and is_local(base_url)):
        return
    source = rule.source if rule is not None else f"{VARIABLE}={os.environ.get(VARIABLE)}"
    raise ModelError(
        f"The model {model!r} was not called: calls of real models are forbidden by {source}. "
        f"Use a ScriptedModel or a RecordedModel, or allow the call with `with allow_model_calls():`."
    )


def is_local(base_url: str) -> bool:
    """Return True for the address of a server on this machine."""
    with suppress(ValueError):  # an invalid address, or the host name of another machine
        host = urlsplit(base_url if "//" in base_url else f"//{base_url}").hostname or ""
        return host == "localhost" or host.endswith(".localhost") or ip_address(host).is_loopback
    return False


def _environment_allows() -> bool:
    setting = os.environ.get(VARIABLE, "")
    try:
        return _IS_ALLOWED_BY_SETTING[setting.strip().lower()]
    except KeyError:
        raise InvalidConfig(
            f"The environment variable {VARIABLE} is {setting!r}. Set it to 0 to forbid model calls, or to 1 to allow "
            f"them."
        ) from None
