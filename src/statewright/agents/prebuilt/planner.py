"""A planner: a model makes a plan, an agent does its steps, and the model looks at the results.

plan -> the steps that are ready, beside each other -> replan -> more steps ... or the answer
"""

from __future__ import annotations

import operator
from collections.abc import Iterable, Mapping, Sequence
from typing import Annotated, Any, Final

from typing_extensions import TypedDict  # pydantic refuses that of typing below Python 3.12

from statewright.agents.agent import as_tool
from statewright.agents.asking import ask, cut_short
from statewright.agents.prebuilt.member import MESSAGES, Member, checked_agent, tools_of, types_of
from statewright.agents.prebuilt.plan import Plan, PlanStep, Replan, plan_form, steps_left, steps_ready
from statewright.agents.prebuilt.react import AgentState, create_agent
from statewright.agents.prebuilt.structured import StructuredAnswer
from statewright.agents.retrying import retry_policy
from statewright.channels import Overwrite, add_messages
from statewright.checkpoint import Checkpointer
from statewright.errors import EmptyInputError, InvalidConfig
from statewright.graph import END, START, Command, RetryPolicy, Runtime, Send
from statewright.messages import Message
from statewright.models import ModelRequest, as_chat_model
from statewright.runtime import CompiledGraph, StateGraph
from statewright.state import read_schema
from statewright.store import Store

PLANNER_PROMPT: Final = (
    "Make a plan for the task. Each step is done by an assistant that sees only the task, its step, and the results "
    "of the steps that come before it by `after`. Steps that do not need each other are done at the same time. "
    "Do not do the steps yourself."
)
EXECUTOR_PROMPT: Final = "You do one step of a larger task. Do only this step, and answer with its result."
_REPLAN: Final = "These steps have been done. Give the answer to the task if they are enough, or else the steps left."
_FAULTS: Final = {"length": "not whole: it was cut off", "refused": "not done: the assistant refused"}
"""What the model is told of results that are not whole, by their finish reason."""
_ANSWER: Final = "Answer the task from the results of the steps."


class PlannerState(TypedDict, total=False):
    """The state of a planner."""

    messages: Annotated[list[Message], add_messages]
    """The conversation, where the task comes as its last message. The answer is added to it."""
    input: str
    """The task."""
    plan: list[dict[str, Any]]
    """The newest plan: steps with `id`, `task` and `after`, the ids of those that come before."""
    past_steps: Annotated[list[dict[str, Any]], operator.add]
    """The steps that were done, with their `result`; with a `finish_reason` where that is not whole."""
    response: str | None
    """The answer."""
    stop_reason: str | None
    """`completed`, or `max_steps` where not everything that was planned could be done; `length` or `refused` if that is
    how the answer ended."""


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
    retries: int | RetryPolicy = 4,
    checkpointer: Checkpointer | None = None,
    store: Store | None = None,
    name: str = "planner",
    **options: Any,
) -> CompiledGraph:
    """A graph that plans, and then does: `invoke({"input": task})` gives the `response`, or messages with it.

    Steps are done by `executor`, a graph over messages, or by an agent with the same model, `tools` and
    `executor_prompt`; those that do not need each other beside each other. With `replan` the model is shown the
    results after each round, and answers or changes the plan; without, the plan is followed, and it answers at the
    end. After `max_steps` it answers with what there is. A plan that cannot be followed is asked for again a few
    times; then ModelAnswerInvalid is raised. `settings` are more of the model's requests, `options` are those of
    `StateGraph.compile`. Raises InvalidConfig for what cannot be.
    """
    given = [as_tool(tool) for tool in tools]
    if executor is not None and given:
        raise InvalidConfig(f"Planner {name!r} has an executor and tools. Give the tools to the executor.")
    if max_steps < 1:
        raise InvalidConfig(f"max_steps of planner {name!r} is {max_steps}. Let it do at least one step.")
    if executor is None:
        executor = create_agent(
            model, given, prompt=executor_prompt, settings=settings, retries=retries, name=f"{name}_step"
        )
    member = Member(checked_agent(executor, where=f"Planner {name!r}"), read_schema(AgentState), apart=_APART)
    steps = _Steps(model, f"{planner_prompt}{_tools_told(executor)}", member, max_steps, settings or {}, name)
    policy = retry_policy(retries)
    after = "replan" if replan else "advance"
    graph = StateGraph(PlannerState).allow_types(*types_of([executor]))
    graph.add_node("plan", steps.plan, retry_policy=policy, destinations=["execute"])
    graph.add_node("execute", steps.execute, metadata=member.metadata("execute"))
    graph.add_node(
        after,
        getattr(steps, after),
        retry_policy=policy,
        destinations=["execute", "answer", *([END] if replan else [])],
    )
    graph.add_node("answer", steps.answer, retry_policy=policy)
    graph.add_edge(START, "plan").add_edge("execute", after).add_edge("answer", END)
    return graph.compile(checkpointer, store=store, name=name, **options)


_APART: Final = ("structured_response",)


def _tools_told(executor: CompiledGraph) -> str:
    """What the planner is told of the tools that steps may use."""
    listed = "\n".join(f"- {tool.name}: {tool.description}" for tool in tools_of(executor))
    return f"\n\nThe assistant has these tools:\n{listed}" if listed else ""


class _Steps:
    """The nodes."""

    def __init__(
        self, model: Any, prompt: str, executor: Member, max_steps: int, settings: Mapping[str, Any], name: str
    ) -> None:
        self._model = as_chat_model(model)
        self._prompt = prompt
        self._executor = executor
        self._max_steps = max_steps
        self._settings = settings
        self._name = name

    async def plan(self, state: Any, runtime: Runtime[Any]) -> Command[Any]:
        """Make the plan. A new turn of a thread begins anew."""
        task = self._task(state)
        request = self._request({**state, "input": task}, self._prompt)
        plan: Plan = await StructuredAnswer(plan_form(Plan)).ask(self._model, request, runtime)
        steps = _plain(plan.steps)
        fresh = {"past_steps": Overwrite([]), "response": None, "stop_reason": None}
        return Command(update={"input": task, "plan": steps, **fresh}, goto=self._ways(steps, []))

    async def execute(self, step: Any, runtime: Runtime[Any]) -> dict[str, Any]:
        """Do one step."""
        state = runtime.state
        needed = [one for one in state["past_steps"] if one["id"] in step["after"]]
        told = (
            f"The whole task, for context only:\n{state['input']}{_results_told(needed)}\n\nYour step:\n{step['task']}"
        )
        said = await self._executor.call({MESSAGES: [Message(told)]})
        done = {"id": step["id"], "task": step["task"], "result": said.last.text if said.last is not None else ""}
        cut = cut_short(said.last) if said.last is not None else None
        return {"past_steps": [{**done, "finish_reason": cut} if cut else done]}

    async def replan(self, state: Any, runtime: Runtime[Any]) -> Command[Any]:
        """Ask what is left to be done, now that there are results."""
        past = state["past_steps"]
        if len(past) >= self._max_steps:
            return Command(goto="answer")
        told = f"{_results_told(past)}{_left_told(steps_left(state['plan'], _ids(past)))}\n\n{_REPLAN}"
        form = StructuredAnswer(plan_form(Replan, _ids(past)))
        found: Replan = await form.ask(self._model, self._request(state, self._prompt, told), runtime)
        if not found.steps:
            return Command(update=self._answered(found.response, "completed"), goto=END)
        steps = _plain(found.steps)
        return Command(update={"plan": steps}, goto=self._ways(steps, past))

    def advance(self, state: Any) -> Command[Any]:
        """Go on with the plan as it is."""
        return Command(goto=self._ways(state["plan"], state["past_steps"]) or "answer")

    async def answer(self, state: Any, runtime: Runtime[Any]) -> dict[str, Any]:
        """Answer the task with what there is."""
        left = steps_left(state["plan"], _ids(state["past_steps"]))
        told = f"{_results_told(state['past_steps'])}{_left_told(left)}"
        response = await ask(self._model, self._request(state, _ANSWER, told), runtime, name=self._name)
        cut = cut_short(response.message)
        return self._answered(response.text, "max_steps" if left else "completed", cut)

    def _answered(self, response: str, reason: str, cut: str | None = None) -> dict[str, Any]:
        message = Message(response, "assistant", name=self._name, metadata={"finish_reason": cut} if cut else None)
        return {"response": response, "stop_reason": cut or reason, "messages": [message]}

    def _ways(self, plan: Sequence[Mapping[str, Any]], past: Sequence[Mapping[str, Any]]) -> list[Send]:
        """The steps that come next, as many as may still be done."""
        return [Send("execute", step) for step in steps_ready(plan, _ids(past))[: self._max_steps - len(past)]]

    def _task(self, state: Mapping[str, Any]) -> str:
        """What is to be done: the last message, if it is the user's, or else the input. Raises EmptyInputError."""
        messages: Sequence[Message] = state.get(MESSAGES) or ()
        task = messages[-1].text if messages and messages[-1].role == "user" else state.get("input") or ""
        if not task.strip():
            raise EmptyInputError(
                f"Planner {self._name!r} has no task. Call invoke({{'input': '...'}}), or give messages that end with "
                f"one of the user."
            )
        return task

    def _request(self, state: Mapping[str, Any], system: str, told: str = "") -> ModelRequest:
        """The conversation that the model is shown: it ends with the task, and with what has been done for it."""
        messages: Sequence[Message] = state.get(MESSAGES) or ()
        before = messages[:-1] if messages and messages[-1].role == "user" else messages
        return ModelRequest(
            messages=[*before, Message(f"{state['input']}{told}")],
            system=system,
            metadata={"agent": self._name, "state": state},
            **self._settings,
        )


def _plain(steps: Iterable[PlanStep]) -> list[dict[str, Any]]:
    return [step.model_dump() for step in steps]


def _ids(past: Iterable[Mapping[str, Any]]) -> set[str]:
    return {one["id"] for one in past}


def _results_told(past: Iterable[Mapping[str, Any]]) -> str:
    listed = "\n".join(f"- {one['id']}: {one['task']}\n  {_result_told(one)}" for one in past)
    return f"\n\nResults of steps:\n{listed}" if listed else ""


def _result_told(step: Mapping[str, Any]) -> str:
    fault = _FAULTS.get(step.get("finish_reason") or "")
    return f"Result{f' ({fault})' if fault else ''}: {step['result']}"


def _left_told(left: Iterable[Mapping[str, Any]]) -> str:
    listed = "\n".join(f"- {one['id']}: {one['task']}" for one in left)
    return f"\n\nSteps of the plan that have not been done:\n{listed}" if listed else ""
