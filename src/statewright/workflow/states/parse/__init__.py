"""From the text of a workflow file to its model: tables of the language, and the checks that go by them."""

from statewright.workflow.states.parse.references import NODE_KINDS
from statewright.workflow.states.parse.workflow import Parsed, parse_workflow

__all__ = ["NODE_KINDS", "Parsed", "parse_workflow"]
