"""Steps as graph nodes. A node performs its step, and converts the result to a command."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

from statewright.errors import InvalidUpdateError, suggestion
from statewright.graph import END, Command, Runtime
from statewright.workflow.steps.execution import StepExecution
from statewright.workflow.steps.model import Definition, Step
from statewright.workflow.steps.result import NEXT_STEP, StepFailed, StepResult, to_jsonable_map
from statewright.workflow.steps.state import StepWrites


class StepOrder:
    """The order of the steps of a definition. After a jump to a step, the order continues with the steps after it."""

    def __init__(self, definition: Definition) -> None:
        self._steps = definition.steps
        self._index_by_name = {step.name: index for index, step in enumerate(definition.steps)}

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(self._index_by_name)

    def get_default_next(self, step: Step) -> str:
        """Return the successor of a step whose result names no step: END, its `next`, or the following step."""
        if step.end:
            return END
        if step.next is not None:
            return step.next
        index = self._index_by_name[step.name] + 1
        return self._steps[index].name if index < len(self._steps) else END

    def resolve_next(self, step: Step, name: Any) -> str:
        """Return the successor that a result names, or the default successor if the name is None.

        Raises InvalidUpdateError if there is no step with this name.
        """
        if name is None:
            return self.get_default_next(step)
        if isinstance(name, str) and name in self._index_by_name:
            return name
        hint = suggestion(str(name), self._index_by_name, noun="Steps")
        raise InvalidUpdateError(f"Step {step.name!r} returned {NEXT_STEP} {name!r}, which is not a step. {hint}")

    def iter_skipped(self, step: Step, target: str, visits: Mapping[str, int]) -> Iterator[str]:
        """Yield the steps that a forward jump skips, except steps that were visited or skipped before."""
        index = self._index_by_name[step.name]
        stop = self._index_by_name[target] if target != END else len(self._steps)
        for skipped in self._steps[index + 1 : stop]:
            if skipped.name not in visits:
                yield skipped.name


# -- nodes

Values = Mapping[str, Any]


class StepNode:
    """The node of a step. `perform` performs the step and returns its result."""

    def __init__(self, step: Step, order: StepOrder, perform: Callable[[StepExecution], Any]) -> None:
        self._step = step
        self._order = order
        self._perform = perform

    def __call__(self, values: Values, runtime: Runtime[Any], config: Values) -> Command[Any]:
        execution = StepExecution(self._step, values, runtime, config)
        return make_command(execution, self._perform(execution), self._order)


class AsyncStepNode(StepNode):
    """The node of a step whose `perform` is a coroutine function."""

    async def __call__(self, values: Values, runtime: Runtime[Any], config: Values) -> Command[Any]:  # pyright: ignore[reportIncompatibleMethodOverride]
        execution = StepExecution(self._step, values, runtime, config)
        return make_command(execution, await self._perform(execution), self._order)


def make_command(execution: StepExecution, result: StepResult, order: StepOrder) -> Command[Any]:
    """Convert a result to a command. Raises StepFailed, and InvalidUpdateError for a result that cannot be stored."""
    step = execution.step
    if result.status == "failed":
        raise make_failure(result, step)
    updates = to_jsonable_map(result.state_updates, f"stateUpdates of step {step.name!r}")
    target = order.resolve_next(step, updates.pop(NEXT_STEP, None))
    output = to_jsonable_map(result.output, f"output of step {step.name!r}") if result.output is not None else None
    skipped = list(order.iter_skipped(step, target, execution.visits))
    # The record is written last, because it would stay in the log if the attempt failed afterwards.
    details = {"output": output, "skipped": skipped}
    execution.record(**{name: value for name, value in details.items() if value})
    visits = {step.name: execution.visit_number, **dict.fromkeys(skipped, 0)}
    return Command(update=StepWrites(updates, visits), goto=target)


def make_failure(result: StepResult, step: Step) -> StepFailed:
    """Convert a failed result to an error."""
    error = result.error
    if error is None:
        return StepFailed(f"Step {step.name!r} failed without a reason. Return an error with a message.")
    details = to_jsonable_map({"details": error.details}, f"The error of step {step.name!r}")["details"]
    return StepFailed(error.message or f"Step {step.name!r} failed.", code=error.code, details=details)
