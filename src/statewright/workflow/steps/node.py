"""Where a run goes from a step: a jump moves the position, and from there the order of the definition goes on."""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Iterator, Mapping
from typing import Any, Protocol

from statewright.errors import InvalidUpdateError, suggestion
from statewright.graph import END, Command, Runtime
from statewright.workflow.steps.execution import Execution
from statewright.workflow.steps.jsonable import plain_map
from statewright.workflow.steps.model import Definition, Step
from statewright.workflow.steps.result import NEXT_STEP, StepFailed, StepResult
from statewright.workflow.steps.state import StepWrites


class Order:
    """The steps of a definition in their order."""

    def __init__(self, definition: Definition) -> None:
        self._steps = definition.steps
        self._places = {step.name: place for place, step in enumerate(definition.steps)}

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(self._places)

    def usual(self, step: Step) -> str:
        """What follows a step that names no other: its `next`, the end, or the step that is written after it."""
        if step.end:
            return END
        if step.next is not None:
            return step.next
        after = self._places[step.name] + 1
        return self._steps[after].name if after < len(self._steps) else END

    def following(self, step: Step, named: Any) -> str:
        """What follows a step whose result names the next one, or None. Raises InvalidUpdateError for no step."""
        if named is None:
            return self.usual(step)
        if isinstance(named, str) and named in self._places:
            return named
        hint = suggestion(str(named), self._places, noun="Steps")
        raise InvalidUpdateError(f"Step {step.name!r} goes on with {NEXT_STEP} {named!r}, which is no step. {hint}")

    def skipped(self, step: Step, target: str, visits: Mapping[str, int]) -> Iterator[str]:
        """The steps that a way forward leaves out, and that have neither run nor been left out before."""
        place = self._places[step.name]
        upto = self._places[target] if target != END else len(self._steps)
        for one in self._steps[place + 1 : upto]:
            if one.name not in visits:
                yield one.name


# -- A step as a node: performs it, and turns its result into writes and the way on.

Values = Mapping[str, Any]


class StepHandler(Protocol):
    """Does what a step of one kind does. What it waits for it waits for itself: a result is completed or failed."""

    @property
    def perform(self) -> Callable[[Execution], StepResult | Coroutine[Any, Any, StepResult]]: ...


class StepNode:
    """The node of a step whose performer is a plain function."""

    def __init__(self, step: Step, order: Order, perform: Callable[[Execution], StepResult]) -> None:
        self._step = step
        self._order = order
        self._perform = perform

    def __call__(self, values: Values, runtime: Runtime[Any], config: Values) -> Command[Any]:
        execution = Execution(self._step, values, runtime, config)
        return concluded(execution, self._perform(execution), self._order)


class AwaitedStepNode:
    """The node of a step whose performer is a coroutine function."""

    def __init__(
        self, step: Step, order: Order, perform: Callable[[Execution], Coroutine[Any, Any, StepResult]]
    ) -> None:
        self._step = step
        self._order = order
        self._perform = perform

    async def __call__(self, values: Values, runtime: Runtime[Any], config: Values) -> Command[Any]:
        execution = Execution(self._step, values, runtime, config)
        return concluded(execution, await self._perform(execution), self._order)


def concluded(execution: Execution, result: StepResult, order: Order) -> Command[Any]:
    """What a result means for the run. Raises StepFailed, and InvalidUpdateError for what cannot be kept."""
    step = execution.step
    if result.status == "failed":
        raise failure_of(result, step)
    updates = plain_map(result.state_updates, f"stateUpdates of step {step.name!r}")
    target = order.following(step, updates.pop(NEXT_STEP, None))
    output = plain_map(result.output, f"output of step {step.name!r}") if result.output is not None else None
    skipped = list(order.skipped(step, target, execution.visits))
    # Told last: a report of an attempt that fails after all would stay in the log.
    told = {"output": output or None, "skipped": skipped or None}
    execution.report(**{name: value for name, value in told.items() if value is not None})
    visits = {step.name: execution.number, **dict.fromkeys(skipped, 0)}
    return Command(update=StepWrites(updates, visits), goto=target)


def failure_of(result: StepResult, step: Step) -> StepFailed:
    """The error that a failed result means."""
    error = result.error
    if error is None:
        return StepFailed(f"Step {step.name!r} failed, and its handler did not say why.")
    details = plain_map({"details": error.details}, f"The error of step {step.name!r}")["details"]
    return StepFailed(error.message or f"Step {step.name!r} failed.", code=error.code, details=details)
