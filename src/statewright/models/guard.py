"""A switch that forbids calls of real models, so that no test pays for one by mistake.

Adapters call `check_calls_allowed` before they contact a provider. Models that contact no provider, such as a
ScriptedModel, or a RecordedModel that replays answers, do not call it. The switch applies to the whole process, because
graphs run on several threads. Calls of models that are served on this machine remain allowed, unless they are forbidden
too.
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
"""The environment variable that forbids model calls with the value 0, and allows them with 1. Calls of the functions in
this module take precedence."""
_IS_ALLOWED_BY_VALUE: Final = {"": True, "1": True, "true": True, "0": False, "false": False}


class CallRule:
    """A rule about model calls. It is active until `end` is called, or until the end of its `with` block."""

    def __init__(self, *, allows_calls: bool, allows_local_calls: bool, set_by: str) -> None:
        self.allows_calls = allows_calls
        """True if calls of all models are allowed."""
        self.allows_local_calls = allows_local_calls
        """True if calls of models on this machine are allowed."""
        self.set_by = set_by
        """The function call that set the rule, for errors."""
        with _lock:
            _rules.append(self)

    def __enter__(self) -> CallRule:
        return self

    def __exit__(self, *_: object) -> None:
        self.end()

    def end(self) -> None:
        """Remove the rule, so that the previous rule applies again. A second call does nothing."""
        with _lock:
            _rules[:] = [rule for rule in _rules if rule is not self]


_lock = threading.Lock()
_rules: list[CallRule] = []
"""The active rules, of which the last applies."""


def forbid_model_calls(*, local: bool = True) -> CallRule:
    """Forbid calls of real models in this process, so that they raise ModelError.

    Call it once for the whole program, or write `with forbid_model_calls():` for a part of the program. Calls of models
    that are served on this machine remain allowed unless `local` is False.
    """
    return CallRule(allows_calls=False, allows_local_calls=local, set_by="forbid_model_calls()")


def allow_model_calls() -> CallRule:
    """Allow calls of real models in spite of earlier rules; if used as a context manager, only inside its block."""
    return CallRule(allows_calls=True, allows_local_calls=True, set_by="allow_model_calls()")


def check_calls_allowed(model: str, *, base_url: str | None = None) -> None:
    """Raise ModelError if the model named `model` may not be called. Adapters check this before each call.

    `base_url` is the address of the model; None if it is unknown.
    """
    with _lock:
        rule = _rules[-1] if _rules else None
    if rule is not None:
        allows_calls, allows_local_calls = rule.allows_calls, rule.allows_local_calls
    else:
        allows_calls, allows_local_calls = _environment_allows(), True
    if allows_calls or (allows_local_calls and base_url is not None and is_local(base_url)):
        return
    set_by = rule.set_by if rule is not None else f"{VARIABLE}={os.environ.get(VARIABLE)}"
    raise ModelError(
        f"The model {model!r} was not called: calls of real models are forbidden by {set_by}. "
        f"Use a ScriptedModel or a RecordedModel, or allow the call with `with allow_model_calls():`."
    )


def is_local(base_url: str) -> bool:
    """Return True if a URL is the address of a server on this machine."""
    with suppress(ValueError):  # an invalid address, or the host name of another machine
        host = urlsplit(base_url if "//" in base_url else f"//{base_url}").hostname or ""
        return host == "localhost" or host.endswith(".localhost") or ip_address(host).is_loopback
    return False


def _environment_allows() -> bool:
    """Return True unless the environment variable forbids model calls. Raises InvalidConfig for an unknown value."""
    value = os.environ.get(VARIABLE, "")
    try:
        return _IS_ALLOWED_BY_VALUE[value.strip().lower()]
    except KeyError:
        raise InvalidConfig(
            f"The environment variable {VARIABLE} is {value!r}. Set it to 0 to forbid model calls, or to 1 to allow "
            f"them."
        ) from None
