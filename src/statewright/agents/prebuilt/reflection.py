"""Reflection: a model drafts an answer, a critic judges it, and the model revises it until the critic is satisfied.

draft -> critique -> revise -> critique -> ... until the critic is satisfied, or the last draft has been written
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Annotated, Any, Final, Self

from pydantic import BaseModel, Field, model_validator
from typing_extensions import TypedDict  # pydantic rejects typing.TypedDict before Python 3.12

from statewright.agents.agent import DEFAULT_RETRIES
from statewright.agents.kwargs_injection import acall_with_kwargs
from statewright.agents.loop.model_call import cut_short_reason, retry_policy
from statewright.agents.prebuilt.member import MESSAGES, Member
from statewright.agents.prebuilt.react import AgentState, create_agent
from statewright.agents.prebuilt.structured import StructuredOutput
from statewright.channels import Overwrite, add_messages
from statewright.checkpoint import Checkpointer
from statewright.errors import InvalidConfig
from statewright.graph import END, START, Command, RetryPolicy, Runtime
from statewright.messages import Message
from statewright.models import ChatModel, ModelRequest, as_chat_model
from statewright.runtime import CompiledGraph, StateGraph
from statewright.state import read_schema
from statewright.store import Store

CRITIC_PROMPT: Final = (
    "You judge answers. Say what is wrong, missing or unclear in the last answer, and how to do better. "
    "Be satisfied if nothing important remains to be improved."
)
_JUDGE: Final = "Judge the answer above."
_REVISE: Final = "A critic has read your answer. Write a complete new version that takes this into account:"


class Critique(BaseModel):
    """A critic's judgement of a draft."""

    satisfied: bool = Field(description="Whether the answer needs no change.")
    critique: str = Field(default="", description="What is to be improved, and how.")

    @model_validator(mode="after")
    def _require_critique(self) -> Self:
        if not self.satisfied and not self.critique.strip():
            raise ValueError("You are not satisfied, and the critique is empty. Say what is to be improved.")
        return self


class ReflectionState(TypedDict, total=False):
    """The state of a reflection."""

    messages: Annotated[list[Message], add_messages]
    """The conversation, to which only the last draft is added, as the answer."""
    drafts: Annotated[list[str], operator.add]
    """The drafts of this turn, oldest first."""
    critiques: Annotated[list[str], operator.add]
    """The critiques of the drafts, in the same order; the last draft may have no critique."""
    stop_reason: str | None
    """The reason why the last draft is final: `satisfied`, `stop_when` or `max_iterations`; or `length` or `refused` if
    that draft was cut off or refused."""
    draft_reason: str | None
    """`length` or `refused` if the last draft was cut off or refused."""


def create_reflection(
    model: Any,
    *,
    tools: Iterable[Any] = (),
    prompt: Any = None,
    critic_model: Any = None,
    critic_prompt: str = CRITIC_PROMPT,
    max_iterations: int = 3,
    stop_when: Callable[..., Any] | None = None,
    settings: Mapping[str, Any] | None = None,
    retries: int | RetryPolicy = DEFAULT_RETRIES,
    checkpointer: Checkpointer | None = None,
    store: Store | None = None,
    name: str = "reflection",
    **options: Any,
) -> CompiledGraph:
    """Create a graph that improves its answer: `invoke({"messages": [...]})` returns the conversation with the answer.

    Drafts are written by `create_agent` with `model`, `tools`, `prompt` and `settings`, and judged by `critic_model`,
    by default the same model. At most `max_iterations` drafts are written; a draft that reaches this limit is final and
    is not judged. `stop_when` may have the parameters `draft`, `critique`, `iteration` and `state`; if it returns true,
    the draft is final although the critic is not satisfied. An invalid critique is requested again a few times before
    ModelAnswerInvalid is raised. `options` are those of `StateGraph.compile`. Raises InvalidConfig for invalid
    arguments.
    """
    if max_iterations < 1:
        raise InvalidConfig(f"max_iterations of reflection {name!r} is {max_iterations}. Allow at least one draft.")
    author = create_agent(model, tools, prompt=prompt, settings=settings, retries=retries, name=name)
    member = Member(author, read_schema(AgentState), shares_response=False)
    critic = as_chat_model(critic_model if critic_model is not None else model)
    nodes = _ReflectionNodes(member, critic, critic_prompt, max_iterations, stop_when)
    graph = StateGraph(ReflectionState)
    graph.add_node("draft", nodes.draft, destinations=["critique", END], metadata=member.metadata("draft"))
    graph.add_node("critique", nodes.critique, retry_policy=retry_policy(retries), destinations=["revise", END])
    graph.add_node("revise", nodes.revise, destinations=["critique", END], metadata=member.metadata("revise"))
    graph.add_edge(START, "draft")
    return graph.compile(checkpointer, store=store, name=name, **options)


@dataclass(frozen=True)
class _ReflectionNodes:
    """The nodes of a reflection."""

    author: Member
    critic: ChatModel
    prompt: str
    max_iterations: int
    stop_when: Callable[..., Any] | None
    output: StructuredOutput = field(default_factory=lambda: StructuredOutput(Critique))

    async def draft(self, state: Any) -> Command[Any]:
        """Write the first draft of a turn, and discard the drafts and critiques of the previous turn."""
        draft, reason = await self._write_draft(state.get(MESSAGES, ()))
        reset = {"critiques": Overwrite([]), "stop_reason": None, "draft_reason": reason}
        return self._critique_or_end({**reset, "drafts": Overwrite([draft])}, draft, 1)

    async def revise(self, state: Any) -> Command[Any]:
        """Write the next draft, given all earlier drafts and their critiques."""
        messages = [*state.get(MESSAGES, ())]
        for draft, critique in zip(state["drafts"], state["critiques"], strict=True):
            messages += [Message(draft, "assistant"), Message(f"{_REVISE}\n\n{critique}")]
        draft, reason = await self._write_draft(messages)
        return self._critique_or_end({"drafts": [draft], "draft_reason": reason}, draft, len(state["drafts"]) + 1)

    async def critique(self, state: Any, runtime: Runtime[Any]) -> Command[Any]:
        """Judge the last draft."""
        draft = state["drafts"][-1]
        messages = [*state.get(MESSAGES, ()), Message(draft, "assistant"), Message(_JUDGE)]
        request = ModelRequest(messages=messages, system=self.prompt, metadata={"agent": "critic", "state": state})
        verdict: Critique = await self.output.ask(self.critic, request, runtime)
        update: dict[str, Any] = {"critiques": [verdict.critique], "draft_reason": state.get("draft_reason")}
        if verdict.satisfied:
            return self._end(update, draft, "satisfied")
        kwargs = {"draft": draft, "critique": verdict.critique, "iteration": len(state["drafts"]), "state": state}
        if self.stop_when is not None and await acall_with_kwargs(self.stop_when, kwargs):
            return self._end(update, draft, "stop_when")
        return Command(update=update, goto="revise")

    async def _write_draft(self, messages: Iterable[Message]) -> tuple[str, str | None]:
        """Return a draft; and `length` or `refused` if it was cut off or refused, else None."""
        last = (await self.author.call({MESSAGES: list(messages)})).last
        return last.text if last is not None else "", cut_short_reason(last)

    def _critique_or_end(self, update: dict[str, Any], draft: str, iteration: int) -> Command[Any]:
        """Return a Command that goes to the critic, or that ends the run if this is the last draft allowed."""
        if iteration >= self.max_iterations:
            return self._end(update, draft, "max_iterations")
        return Command(update=update, goto="critique")

    def _end(self, update: dict[str, Any], draft: str, stop_reason: str) -> Command[Any]:
        """Return a Command that adds the final draft to the conversation, and ends the run."""
        finish_reason = update["draft_reason"]
        metadata = {"finish_reason": finish_reason} if finish_reason else None
        message = Message(draft, "assistant", name=self.author.name, metadata=metadata)
        return Command(update={**update, "messages": [message], "stop_reason": finish_reason or stop_reason}, goto=END)
