"""Kinds that are refused."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from statewright.errors import WorkflowError


@pytest.mark.parametrize(("kind", "reason"), [("bedrock_flow_node", "AWS"), ("supervisor_node", "chooses")])
def test_2_10_kinds_that_are_not_run_say_why(kind: str, reason: str, run: Callable[..., Any], faults_of: Any) -> None:
    assert faults_of(kind, {}) == [(("custom_node_id",), True)]
    with pytest.raises(WorkflowError, match=reason):
        run(kind)
