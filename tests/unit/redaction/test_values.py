"""Secrets whose values are known."""

from __future__ import annotations

import re
from typing import Any

import pytest

from statewright.redaction import HIDDEN, KnownSecrets, values


def test_a_value_added_while_a_regex_is_compiled_is_masked_afterwards(monkeypatch: pytest.MonkeyPatch) -> None:
    secrets, compile_regex = KnownSecrets(["first-secret"]), re.compile

    def compile_while_adding(pattern: Any) -> Any:
        monkeypatch.undo()
        secrets.add("second-secret")  # as another thread may do
        return compile_regex(pattern)

    monkeypatch.setattr(values.re, "compile", compile_while_adding)
    assert secrets.mask("first-secret") == HIDDEN
    assert secrets.mask("first-secret, second-secret") == f"{HIDDEN}, {HIDDEN}"
