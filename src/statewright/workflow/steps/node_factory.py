"""Nodes made of steps: each with the functions, models and tools that it names, or a problem for what is nowhere."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

from statewright.errors import InvalidConfig, Problem, ToolError, suggestion
from statewright.graph import is_coroutine_function
from statewright.workflow.steps.handlers import Handler, Handlers, UnknownHandler, as_handlers
from statewright.workflow.steps.kinds import (
    ApprovalPerformer,
    AwaitedTaskPerformer,
    ConditionPerformer,
    ExternalEventPerformer,
    TaskPerformer,
    WaitPerformer,
)
from statewright.workflow.steps.llm.checks import CHECKS, Check, Guard
from statewright.workflow.steps.llm.handler import LlmPerformer
from statewright.workflow.steps.llm.models import ModelsGiven, StepModels
from statewright.workflow.steps.llm.tools import GivenTool, HandlerSource, ToolsGiven, ToolSource, read_tools
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
from statewright.workflow.steps.node import AwaitedStepNode, Order, StepNode

Node = Callable[..., Any]


class StepNodeFactory:
    """What the steps of one workflow are made with. Collects what is wrong, so that all of it can be told at once."""

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

    def node(self, step: Step, place: int, order: Order) -> Node:
        """The node of a step, which is the one at `place` of the definition."""
        where = f"steps[{place}]"
        match step:
            case TaskStep():
                return self._task(step, where, order)
            case LlmStep():
                return self._llm(step, where, order)
            case WaitStep():
                return StepNode(step, order, WaitPerformer(step).perform)
            case ConditionStep():
                return StepNode(step, order, ConditionPerformer(step).perform)
            case ExternalEventStep():
                return StepNode(step, order, ExternalEventPerformer(step).perform)
            case ApprovalStep():
                return StepNode(step, order, ApprovalPerformer(step).perform)

    # -- tasks

    def _task(self, step: TaskStep, where: str, order: Order) -> Node:
        try:
            handler = self._handlers.find(step.handler)
        except UnknownHandler as error:
            self.problems.append(Problem(f"{where}.handler", 0, 0, str(error), error.hint))
            return _nothing
        if is_coroutine_function(handler):
            return AwaitedStepNode(step, order, AwaitedTaskPerformer(step, handler).perform)
        return StepNode(step, order, TaskPerformer(step, handler).perform)

    # -- models

    def _llm(self, step: LlmStep, where: str, order: Order) -> Node:
        problems = [*self._unknown_models(step, where), *self._unknown_checks(step, where)]
        sources = [self._source(one, step, f"{where}.tools[{place}]") for place, one in enumerate(step.tools)]
        self.problems.extend(problems)
        known = [source for source in sources if source is not None]
        if problems or len(known) < len(sources):
            return _nothing
        performer = LlmPerformer(step, order, self._models, known, Guard(step, self._checks))
        return AwaitedStepNode(step, order, performer.perform)

    def _unknown_models(self, step: LlmStep, where: str) -> Iterator[Problem]:
        """That nobody could ever answer. Those of a list that are not here are skipped when it comes to that."""
        if not any(self._models.knows(name) for name in (step.model, *step.fallback_models)):
            hint = "Register it, or name its provider: provider:model."
            yield Problem(f"{where}.model", 0, 0, f"Nobody knows the model {step.model!r}.", hint)

    def _unknown_checks(self, step: LlmStep, where: str) -> Iterator[Problem]:
        for place, name in enumerate(step.guardrails.post_checks):
            if name not in self._checks:
                hint = suggestion(name, self._checks, noun="Checks")
                yield Problem(f"{where}.guardrails.postChecks[{place}]", 0, 0, f"There is no check {name!r}.", hint)

    def _source(self, tool: LlmTool, step: LlmStep, where: str) -> ToolSource | None:
        """What does the work of a tool; notes a problem and gives None if nothing does."""
        if tool.name in self._tools:
            return self._given(tool, where)
        if self._handlers.has(tool.name):
            return HandlerSource(tool, self._handlers.find(tool.name), step)
        hint = suggestion(tool.name, [*self._tools, *self._handlers.names], noun="Tools and handlers")
        self.problems.append(Problem(f"{where}.name", 0, 0, f"Nobody registered a tool {tool.name!r}.", hint))
        return None

    def _given(self, tool: LlmTool, where: str) -> ToolSource | None:
        try:
            return GivenTool(tool, self._tools[tool.name])
        except (ToolError, InvalidConfig) as error:
            self.problems.append(Problem(f"{where}.name", 0, 0, str(error)))
            return None


def _nothing(values: Any) -> None:
    """Stands for a node that cannot be made; the definition is refused."""
