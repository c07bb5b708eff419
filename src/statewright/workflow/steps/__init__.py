"""Workflows written as steps in JSON: parsing, validation and compilation to graphs."""

from statewright.workflow.steps.compile import StepsGraph, compile_steps
from statewright.workflow.steps.execution import StepContext
from statewright.workflow.steps.handlers import Handlers, registered, task_handler
from statewright.workflow.steps.llm.checks import CheckedAnswer, post_check
from statewright.workflow.steps.llm.resources import StepTools
from statewright.workflow.steps.model import Definition, read_definition
from statewright.workflow.steps.result import StepFailed, StepFailure, StepResult
from statewright.workflow.steps.template import render

__all__ = [
    "CheckedAnswer",
    "Definition",
    "Handlers",
    "StepContext",
    "StepFailed",
    "StepFailure",
    "StepResult",
    "StepTools",
    "StepsGraph",
    "compile_steps",
    "post_check",
    "read_definition",
    "registered",
    "render",
    "task_handler",
]
