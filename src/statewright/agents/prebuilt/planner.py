"""A planner: a model makes a plan, an agent executes the steps of the plan, and the model reviews the results.

plan -> the ready steps, concurrently -> replan -> the next steps -> ... until the model gives the answer
"""

from __future__ import annotations

import operator
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from graphlib import CycleError, TopologicalSorter
from typing import Annotated, Any, Final, TypeVar

from pydantic import BaseModel, Field, create_model, model_validator
from typing_extensions import TypedDict  # pydantic rejects typing.TypedDict before Python 3.12

from statewright.agents.agent import DEFAULT_RETRIES, as_tool
from statewright.agents.loop.model_call import ask, cut_short_reason, retry_policy
from statewright.agents.prebuilt.member import MESSAGES, Member, agent_tools, check_agent, stored_types
from statewright.agents.prebuilt.react import AgentState, create_agent
from statewright.agents.prebuilt.structured import StructuredOutput
from statewright.channels import Overwrite, add_messages
from statewright.checkpoint import Checkpointer
from statewright.errors import EmptyInputError, InvalidConfig, suggestion
from statewright.graph import END, START, Command, RetryPolicy, Runtime, Send
from statewright.messages import Message
from statewright.models import ChatModel, ModelRequest, as_chat_model
from statewright.runtime import CompiledGraph, StateGraph
from statewright.state import read_schema
from statewright.store import Store


class PlanStep(BaseModel):
    """One step of a plan."""

    id: str = Field(description="A short name of the step, unique in the plan.")
    task: str = Field(description="What is to be done, understandable on its own.")
    after: list[str] = Field(default=[], description="The ids of the steps whose results this one needs.")


class Plan(BaseModel):
    """A plan as a model writes it. Steps that do not need each other are done at the same time."""

    steps: list[PlanStep] = Field(description="The steps, as few as possible.")


class Replan(BaseModel):
    """The decision after some results: the answer, or the steps that are still to be done."""

    response: str = Field(default="", description="The answer to the task, if nothing is left to be done.")
    steps: list[PlanStep] = Field(
        default=[], description="Otherwise the remaining and the new steps, without finished ones."
    )


PlanModel = TypeVar("PlanModel", Plan, Replan)


def add_plan_validator(model_class: type[PlanModel], done: Collection[str] = ()) -> type[PlanModel]:
    """Return a subclass of a plan's class that also checks that the steps can be executed.

    `done` are the ids of the steps that have already been executed.
    """

    def validate_plan(plan: PlanModel) -> PlanModel:
        problems = [*_plan_problems(plan, frozenset(done))]
        if problems:
            raise ValueError(" ".join(problems))
        return plan

    validators: dict[str, Any] = {"checked": model_validator(mode="after")(validate_plan)}
    return create_model(
        model_class.__name__, __base__=model_class, __doc__=model_class.__doc__, __validators__=validators
    )


def _plan_problems(plan: Plan | Replan, done: frozenset[str]) -> Iterator[str]:
    """Yield the problems of a plan, as texts for the model."""
    if not isinstance(plan, Replan) or not plan.response.strip():
        yield from _step_problems(plan.steps, done)
    elif plan.steps:
        yield "There is a response, and there are steps. Give one of them."


def _step_problems(steps: Sequence[PlanStep], done: frozenset[str]) -> Iterator[str]:
    if not steps:
        yield "The plan has no steps."
    ids = [step.id for step in steps]
    for step in steps:
        if not step.id.strip() or not step.task.strip():
            yield f"Step {step.id!r} needs an id and a task."
        if step.id in done:
            yield f"Step {step.id!r} has been done: leave it out, or give a new step another id."
        for prerequisite in step.after:
            if prerequisite not in ids and prerequisite not in done:
                hint = suggestion(prerequisite, [*ids, *done], noun="Steps")
                yield f"Step {step.id!r} comes after {prerequisite!r}, which is not a step. {hint}"
    for duplicate in sorted({step_id for step_id in ids if ids.count(step_id) > 1}):
        yield f"Two steps have the id {duplicate!r}."
    try:
        TopologicalSorter({step.id: step.after for step in steps}).prepare()
    except CycleError as error:
        yield f"Steps wait for each other: {' after '.join(error.args[1])}."


def remaining_steps(plan: Sequence[Mapping[str, Any]], done: Collection[str]) -> list[Mapping[str, Any]]:
    """Return the steps of a plan whose ids are not in `done`, in order."""
    return [step for step in plan if step["id"] not in done]


def ready_steps(plan: Sequence[Mapping[str, Any]], done: Collection[str]) -> list[Mapping[str, Any]]:
    """Return the remaining steps whose prerequisites are all in `done`."""
    return [step for step in remaining_steps(plan, done) if all(prerequisite in done for prerequisite in step["after"])]


# -- the graph

PLANNER_PROMPT: Final = (
    "Make a plan for the task. Each step is done by an assistant that sees only the task, its step, and the results "
    "of the steps that come before it by `after`. Steps that do not need each other are done at the same time. "
    "Do not do the steps yourself."
)
EXECUTOR_PROMPT: Final = "You do one step of a larger task. Do only this step, and answer with its result."
_REPLAN_PROMPT: Final = (
    "These steps have been done. Give the answer to the task if they are enough, or else the steps left."
)
_INCOMPLETE: Final = {"length": "incomplete: it was cut off", "refused": "not done: the assistant refused"}
"""Notes for the planning model on incomplete results, by finish reason."""
_ANSWER_PROMPT: Final = "Answer the task from the results of the steps."


class PlannerState(TypedDict, total=False):
    """The state of a planner."""

    messages: Annotated[list[Message], add_messages]
    """The conversation. If its last message is the user's, that message is the task. The answer is appended."""
    input: str
    """The task."""
    plan: list[dict[str, Any]]
    """The latest plan: steps, each with its `id`, its `task`, and in `after` the ids of its prerequisites."""
    past_steps: Annotated[list[dict[str, Any]], operator.add]
    """The finished steps, each with `id`, `task` and `result`, and with `finish_reason` if the result is incomplete."""
    response: str | None
    """The answer; None until there is one."""
    stop_reason: str | None
    """`completed`; `max_steps` if not all planned steps could be executed; or `length` or `refused` if the answer was
    cut off or refused."""


def create_planner(
    model: Any,
    tools: Iterable[Any] = (),
    *,
    planner_prompt: str = PLANNER_PROMPT,
    executor: CompiledGraph | None = None,
    executor_prompt: Any = EXECUTOR_PROMPT,
    replan: bool = True,
    max_steps: int = 20,
    settings: Mapping[str, Any] | None = None,
    retries: int | RetryPolicy = DEFAULT_RETRIES,
    checkpointer: Checkpointer | None = None,
    store: Store | None = None,
    name: str = "planner",
    **options: Any,
) -> CompiledGraph:
    """Create a graph that makes and executes a plan: `invoke({"input": task})` returns the `response`.

    Steps are executed by `executor`, a compiled graph whose state has `messages`; by default, by an agent with the same
    model, `tools` and `executor_prompt`. Steps that do not need each other's results run concurrently. With `replan`
    the model reviews the results whenever the ready steps have been executed, and then answers or changes the plan.
    Without it the plan is executed unchanged, and the model answers at the end. After `max_steps` steps the model
    answers from the results that are available. An invalid plan is requested again a few times before
    ModelAnswerInvalid is raised. `settings` are further fields of `ModelRequest`, and `options` are those of
    `StateGraph.compile`. Raises InvalidConfig for invalid arguments.
    """
    own_tools = [as_tool(tool) for tool in tools]
    if executor is not None and own_tools:
        raise InvalidConfig(f"Planner {name!r} has both an executor and tools. Pass the tools to the executor instead.")
    if max_steps < 1:
        raise InvalidConfig(f"max_steps of planner {name!r} is {max_steps}. Allow at least one step.")
    if executor is None:
        executor = create_agent(
            model, own_tools, prompt=executor_prompt, settings=settings, retries=retries, name=f"{name}_step"
        )
    check_agent(executor, owner=f"Planner {name!r}")
    member = Member(executor, read_schema(AgentState), shares_response=False)
    prompt = f"{planner_prompt}{_describe_tools(executor)}"
    nodes = _PlannerNodes(name, as_chat_model(model), prompt, member, max_steps, settings or {})
    policy = retry_policy(retries)
    next_node = "replan" if replan else "advance"
    graph = StateGraph(PlannerState).allow_types(*stored_types([executor]))
    graph.add_node("plan", nodes.plan, retry_policy=policy, destinations=["execute"])
    graph.add_node("execute", nodes.execute, metadata=member.metadata("execute"))
    graph.add_node(
        next_node,
        getattr(nodes, next_node),
        retry_policy=policy,
        destinations=["execute", "answer", *([END] if replan else [])],
    )
    graph.add_node("answer", nodes.answer, retry_policy=policy)
    graph.add_edge(START, "plan").add_edge("execute", next_node).add_edge("answer", END)
    return graph.compile(checkpointer, store=store, name=name, **options)


def _describe_tools(executor: CompiledGraph) -> str:
    """Describe the tools of the executor for the planning model."""
    lines = "\n".join(f"- {tool.name}: {tool.description}" for tool in agent_tools(executor))
    return f"\n\nThe assistant has these tools:\n{lines}" if lines else ""


@dataclass(frozen=True)
class _PlannerNodes:
    """The nodes of a planner."""

    name: str
    model: ChatModel
    prompt: str
    executor: Member
    max_steps: int
    settings: Mapping[str, Any]

    async def plan(self, state: Any, runtime: Runtime[Any]) -> Command[Any]:
        """Make the plan of a turn, and discard the plan and the results of the previous turn."""
        task = self._task(state)
        request = self._request({**state, "input": task}, self.prompt)
        plan: Plan = await StructuredOutput(add_plan_validator(Plan)).ask(self.model, request, runtime)
        steps = _dump_steps(plan.steps)
        reset = {"past_steps": Overwrite([]), "response": None, "stop_reason": None}
        return Command(update={"input": task, "plan": steps, **reset}, goto=self._next_steps(steps, []))

    async def execute(self, step: Any, runtime: Runtime[Any]) -> dict[str, Any]:
        """Execute one step."""
        state = runtime.state
        prerequisites = [past_step for past_step in state["past_steps"] if past_step["id"] in step["after"]]
        context = f"The whole task, for context only:\n{state['input']}{_describe_results(prerequisites)}"
        output = await self.executor.call({MESSAGES: [Message(f"{context}\n\nYour step:\n{step['task']}")]})
        last = output.last
        past_step = {"id": step["id"], "task": step["task"], "result": last.text if last is not None else ""}
        finish_reason = cut_short_reason(last)
        return {"past_steps": [{**past_step, "finish_reason": finish_reason} if finish_reason else past_step]}

    async def replan(self, state: Any, runtime: Runtime[Any]) -> Command[Any]:
        """Let the model review the results, and give the answer or plan further steps."""
        past_steps = state["past_steps"]
        if len(past_steps) >= self.max_steps:
            return Command(goto="answer")
        remaining = remaining_steps(state["plan"], _step_ids(past_steps))
        progress = f"{_describe_results(past_steps)}{_describe_remaining(remaining)}\n\n{_REPLAN_PROMPT}"
        output = StructuredOutput(add_plan_validator(Replan, _step_ids(past_steps)))
        decision: Replan = await output.ask(self.model, self._request(state, self.prompt, progress), runtime)
        if not decision.steps:
            return Command(update=self._answer_update(decision.response, "completed"), goto=END)
        steps = _dump_steps(decision.steps)
        return Command(update={"plan": steps}, goto=self._next_steps(steps, past_steps))

    def advance(self, state: Any) -> Command[Any]:
        """Continue with the unchanged plan, or go to the answer if no further step can be executed."""
        return Command(goto=self._next_steps(state["plan"], state["past_steps"]) or "answer")

    async def answer(self, state: Any, runtime: Runtime[Any]) -> dict[str, Any]:
        """Answer the task from the available results."""
        remaining = remaining_steps(state["plan"], _step_ids(state["past_steps"]))
        progress = f"{_describe_results(state['past_steps'])}{_describe_remaining(remaining)}"
        response = await ask(self.model, self._request(state, _ANSWER_PROMPT, progress), runtime, name=self.name)
        finish_reason = cut_short_reason(response.message)
        return self._answer_update(response.text, "max_steps" if remaining else "completed", finish_reason)

    def _answer_update(self, response: str, stop_reason: str, finish_reason: str | None = None) -> dict[str, Any]:
        """Return the update with the answer. A `finish_reason` that is not None replaces the stop reason."""
        metadata = {"finish_reason": finish_reason} if finish_reason else None
        message = Message(response, "assistant", name=self.name, metadata=metadata)
        return {"response": response, "stop_reason": finish_reason or stop_reason, "messages": [message]}

    def _next_steps(self, plan: Sequence[Mapping[str, Any]], past_steps: Sequence[Mapping[str, Any]]) -> list[Send]:
        """Return sends for the ready steps, but not for more than `max_steps` allows."""
        allowed = self.max_steps - len(past_steps)
        return [Send("execute", step) for step in ready_steps(plan, _step_ids(past_steps))[:allowed]]

    def _task(self, state: Mapping[str, Any]) -> str:
        """Return the task: the last message if it is the user's, or else the input.

        Raises EmptyInputError if the task is blank.
        """
        messages: Sequence[Message] = state.get(MESSAGES) or ()
        task = messages[-1].text if messages and messages[-1].role == "user" else state.get("input") or ""
        if not task.strip():
            raise EmptyInputError(
                f"Planner {self.name!r} has no task. Call invoke({{'input': '...'}}), or pass messages that end with a "
                f"user message."
            )
        return task

    def _request(self, state: Mapping[str, Any], system: str, progress: str = "") -> ModelRequest:
        """Return a request whose last message is the task, followed by the text `progress`."""
        messages: Sequence[Message] = state.get(MESSAGES) or ()
        earlier = messages[:-1] if messages and messages[-1].role == "user" else messages
        return ModelRequest(
            messages=[*earlier, Message(f"{state['input']}{progress}")],
            system=system,
            metadata={"agent": self.name, "state": state},
            **self.settings,
        )


def _dump_steps(steps: Iterable[PlanStep]) -> list[dict[str, Any]]:
    return [step.model_dump() for step in steps]


def _step_ids(steps: Iterable[Mapping[str, Any]]) -> set[str]:
    return {step["id"] for step in steps}


def _describe_results(past_steps: Iterable[Mapping[str, Any]]) -> str:
    lines = "\n".join(f"- {step['id']}: {step['task']}\n  {_describe_result(step)}" for step in past_steps)
    return f"\n\nResults of steps:\n{lines}" if lines else ""


def _describe_result(step: Mapping[str, Any]) -> str:
    note = _INCOMPLETE.get(step.get("finish_reason") or "")
    return f"Result{f' ({note})' if note else ''}: {step['result']}"


def _describe_remaining(remaining: Iterable[Mapping[str, Any]]) -> str:
    lines = "\n".join(f"- {step['id']}: {step['task']}" for step in remaining)
    return f"\n\nSteps of the plan that have not been done:\n{lines}" if lines else ""
