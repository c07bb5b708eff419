"""The resources of nodes."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace

import pytest

from statewright.errors import InvalidConfig, ModelError
from statewright.models import ScriptedModel
from statewright.workflow.states.nodes import NodeResources


def test_models_are_found_by_name() -> None:
    model = ScriptedModel([])
    resources = NodeResources(state_id="s", find_model=lambda name: model if name == "big" else None)
    assert resources.model("big") is model
    with pytest.raises(ModelError, match="State 's' needs the model 'small'"):
        resources.model("small")
    with pytest.raises(ModelError, match="State 's' needs a model, but none is configured"):
        resources.model()


def test_the_error_for_a_missing_data_source_contains_a_snippet() -> None:
    resources = NodeResources(state_id="s", datasources={"docs": SimpleNamespace(folder=Path(), glob="**")})
    assert resources.datasource("docs").folder == Path()
    with pytest.raises(InvalidConfig, match=r"Did you mean 'docs'.*\[datasources.dosc\]"):
        resources.datasource("dosc")
