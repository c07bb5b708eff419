"""Workflows as steps in JSON."""

from statewright.workflow.steps.model import Definition
from statewright.workflow.steps.read import read_definition
from statewright.workflow.steps.template import render

__all__ = ["Definition", "read_definition", "render"]
