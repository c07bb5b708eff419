"""Unsupported kinds of custom nodes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from statewright.errors import WorkflowError


@pytest.mark.parametrize(("kind", "reason"), [("bedrock_flow_node", "AWS"), ("supervisor_node", "chooses")])
def test_2_10_the_error_for_an_unsupported_kind_gives_the_reason(
    kind: str, reason: str, run: Callable[..., Any], faults_of: Any
) -> None:
    assert faults_of(kind, {}) == [(("custom_node_id",), True)]
    with pytest.raises(WorkflowError, match=reason):
        run(kind)
