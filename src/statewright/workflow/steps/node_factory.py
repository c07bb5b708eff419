"""Creation of nodes: resolves the functions, models and tools that a step names, and reports the missing ones."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

from statewright.errors import InvalidConfig, Problem, ToolError, suggestion
from statewright.graph import is_coroutine_function
from statewright.workflow.steps.handlers import Handler, Handlers, UnknownHandler, as_handlers
from statewright.workflow.steps.kinds import (
    ApprovalStepHandler,
    AsyncTaskStepHandler,
    ConditionStepHandler,
    ExternalEventStepHandler,
    TaskStepHandler,
    WaitStepHandler,
)
from statewright.workflow.steps.llm.checks import CHECKS, Check, OutputGuard
from statewright.workflow.steps.llm.handler import LlmStepHandler
from statewright.workflow.steps.llm.models import ModelsGiven, StepModels
from statewright.workflow.steps.llm.tools import DeclaredTool, HandlerToolSource, ToolsGiven, ToolSource, read_tools
from statewright.workflow.steps.model import (
    ApprovalStep,
    ConditionStep,
    ExternalEventStep,
    LlmStep,
    LlmTool,
    Step,
    TaskStep,
    WaitStep,
)
from statewright.workflow.steps.node import AsyncStepNode, StepNode, StepOrder

Node = Callable[..., Any]


class StepNodeFactory:
    """Creates the nodes of one workflow. Collects problems, so that all of them are reported together."""

    def __init__(
        self,
        *,
        handlers: Handlers | Mapping[str, Handler] | None = None,
        models: ModelsGiven = None,
        tools: ToolsGiven = None,
        checks: Mapping[str, Check] | None = None,
    ) -> None:
        self.problems: list[Problem] = []
        self._handlers = as_handlers(handlers)
        self._models = StepModels(models)
        self._tools = read_tools(tools)
        self._checks: Mapping[str, Check] = {**CHECKS, **(checks or {})}

    def make_node(self, step: Step, index: int, order: StepOrder) -> Node:
        """Return the node of the step at an index of the definition."""
        path = f"steps[{index}]"
        match step:
            case TaskStep():
                return self._make_task_node(step, path, order)
            case LlmStep():
                return self._make_llm_node(step, path, order)
            case WaitStep():
                return StepNode(step, order, WaitStepHandler(step).perform)
            case ConditionStep():
                return StepNode(step, order, ConditionStepHandler(step).perform)
            case ExternalEventStep():
                return StepNode(step, order, ExternalEventStepHandler(step).perform)
            case ApprovalStep():
                return StepNode(step, order, ApprovalStepHandler(step).perform)

    # -- tasks

    def _make_task_node(self, step: TaskStep, path: str, order: StepOrder) -> Node:
        try:
            handler = self._handlers.find(step.handler)
        except UnknownHandler as error:
            self.problems.append(Problem(f"{path}.handler", 0, 0, str(error), error.hint))
            return _placeholder_node
        if is_coroutine_function(handler):
            return AsyncStepNode(step, order, AsyncTaskStepHandler(step, handler).perform)
        return StepNode(step, order, TaskStepHandler(step, handler).perform)

    # -- models

    def _make_llm_node(self, step: LlmStep, path: str, order: StepOrder) -> Node:
        problems = [*self._check_models(step, path), *self._check_guardrails(step, path)]
        sources = [
            self._find_tool_source(tool, step, f"{path}.tools[{index}]") for index, tool in enumerate(step.tools)
        ]
        self.problems.extend(problems)
        resolved = [source for source in sources if source is not None]
        if problems or len(resolved) < len(sources):
            return _placeholder_node
        handler = LlmStepHandler(step, order, self._models, resolved, OutputGuard(step, self._checks))
        return AsyncStepNode(step, order, handler.perform)

    def _check_models(self, step: LlmStep, path: str) -> Iterator[Problem]:
        """Report a step without a known model. One is enough: a run reports an unknown model, and uses the next one."""
        if not any(self._models.has(name) for name in (step.model, *step.fallback_models)):
            hint = "Register it, or name its provider: provider:model."
            yield Problem(f"{path}.model", 0, 0, f"The model {step.model!r} is unknown.", hint)

    def _check_guardrails(self, step: LlmStep, path: str) -> Iterator[Problem]:
        for index, name in enumerate(step.guardrails.post_checks):
            if name not in self._checks:
                hint = suggestion(name, self._checks, noun="Checks")
                yield Problem(f"{path}.guardrails.postChecks[{index}]", 0, 0, f"Check {name!r} does not exist.", hint)

    def _find_tool_source(self, tool: LlmTool, step: LlmStep, path: str) -> ToolSource | None:
        """Return the implementation of a tool; report a problem and return None if there is none."""
        if tool.name in self._tools:
            return self._declare_tool(tool, path)
        if self._handlers.has(tool.name):
            return HandlerToolSource(tool, self._handlers.find(tool.name), step)
        hint = suggestion(tool.name, [*self._tools, *self._handlers.names], noun="Tools and handlers")
        self.problems.append(Problem(f"{path}.name", 0, 0, f"Tool {tool.name!r} does not exist.", hint))
        return None

    def _declare_tool(self, tool: LlmTool, path: str) -> ToolSource | None:
        try:
            return DeclaredTool(tool, self._tools[tool.name])
        except (ToolError, InvalidConfig) as error:
            self.problems.append(Problem(f"{path}.name", 0, 0, str(error)))
            return None


def _placeholder_node(values: Any) -> None:
    """Stand in for a node that cannot be created; the definition is rejected."""
