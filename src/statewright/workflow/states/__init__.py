"""YAML states: workflows of assistants, tools and transitions, compiled to graphs.

    workflow = load_workflow("flow.yaml")
    app = workflow.compile(models=ScriptedModel(["Hello!"]))
    app.invoke({"input": "Say hello."})["result"]

Both names are imported on first use, because they need the libraries of the extra `states`. Projects without YAML
workflows use the modules for models and tools in this package, and may lack these libraries.
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
