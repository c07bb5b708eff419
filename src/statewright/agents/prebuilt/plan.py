"""Plans that a model makes: steps, and which of them need the results of which others."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from graphlib import CycleError, TopologicalSorter
from typing import Any, TypeVar

from pydantic import BaseModel, Field, create_model, model_validator

from statewright.errors import suggestion


class PlanStep(BaseModel):
    """One step of a plan."""

    id: str = Field(description="A short name of the step, told from all others.")
    task: str = Field(description="What is to be done, understandable by itself.")
    after: list[str] = Field(default=[], description="The ids of the steps whose results this one needs.")


class Plan(BaseModel):
    """A plan as a model writes it. Steps that do not need each other are done at the same time."""

    steps: list[PlanStep] = Field(description="The steps; as few as will do.")


class Replan(BaseModel):
    """What a model says when it has seen results: the answer, or the steps that are still to be done."""

    response: str = Field(default="", description="The answer to the task, if nothing is left to be done.")
    steps: list[PlanStep] = Field(
        default=[], description="Otherwise the steps that are left or new, without done ones."
    )


Form = TypeVar("Form", Plan, Replan)


def plan_form(form: type[Form], done: Collection[str] = ()) -> type[Form]:
    """The form with a check: an answer has to be a plan that can be followed when the steps in `done` are done."""

    def checked(plan: Form) -> Form:
        problems = [*_problems(plan, frozenset(done))]
        if problems:
            raise ValueError(" ".join(problems))
        return plan

    validators: dict[str, Any] = {"checked": model_validator(mode="after")(checked)}
    return create_model(form.__name__, __base__=form, __doc__=form.__doc__, __validators__=validators)


def _problems(plan: Plan | Replan, done: frozenset[str]) -> Iterator[str]:
    """What is wrong with a plan, for the model to read."""
    if not isinstance(plan, Replan) or not plan.response.strip():
        yield from _step_problems(plan.steps, done)
    elif plan.steps:
        yield "There is a response, and there are steps. Give one of them."


def _step_problems(steps: Sequence[PlanStep], done: frozenset[str]) -> Iterator[str]:
    if not steps:
        yield "The plan has no steps."
    known = [step.id for step in steps]
    for step in steps:
        if not step.id.strip() or not step.task.strip():
            yield f"Step {step.id!r} needs an id and a task."
        if step.id in done:
            yield f"Step {step.id!r} has been done: leave it out, or give a new step another id."
        for other in step.after:
            if other not in known and other not in done:
                hint = suggestion(other, [*known, *done], noun="Steps")
                yield f"Step {step.id!r} comes after {other!r}, which is no step. {hint}"
    for twice in sorted({one for one in known if known.count(one) > 1}):
        yield f"Two steps have the id {twice!r}."
    try:
        TopologicalSorter({step.id: step.after for step in steps}).prepare()
    except CycleError as error:
        yield f"Steps wait for each other: {' after '.join(error.args[1])}."


def steps_left(plan: Sequence[Mapping[str, Any]], done: Collection[str]) -> list[Mapping[str, Any]]:
    """The steps of a plan that have not been done, in its order."""
    return [step for step in plan if step["id"] not in done]


def steps_ready(plan: Sequence[Mapping[str, Any]], done: Collection[str]) -> list[Mapping[str, Any]]:
    """Of the steps that are left, those that need no other one of them."""
    return [step for step in steps_left(plan, done) if all(one in done for one in step["after"])]
