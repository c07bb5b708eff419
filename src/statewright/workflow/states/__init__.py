"""YAML states: workflows of assistants, tools and transitions, compiled to graphs.

workflow = load_workflow("flow.yaml")
app = workflow.compile(models=ScriptedModel(["Hello!"]))
app.invoke({"input": "Say hello."})["result"]
"""

from statewright.workflow.states.load import Workflow, load_workflow

__all__ = ["Workflow", "load_workflow"]
