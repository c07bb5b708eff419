"""Workflows as steps in JSON."""

from statewright.workflow.steps.template import render

__all__ = ["render"]
