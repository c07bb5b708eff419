"""YAML states: workflows of assistants, tools and transitions, compiled to graphs.

workflow = load_workflow("flow.yaml")
app = workflow.compile(models=ScriptedModel(["Hello!"]))
app.invoke({"input": "Say hello."})["result"]

The libraries of the extra `states` are imported with the first of these names, because projects without workflows use
the modules about models and tools too.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from statewright.extras import optional

if TYPE_CHECKING:
    from statewright.workflow.states.load import Workflow, load_workflow

__all__ = ["Workflow", "load_workflow"]


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    with optional("Workflows in YAML need", extra="states"):
        from statewright.workflow.states import load
    return getattr(load, name)
