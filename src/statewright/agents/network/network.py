"""Networks: agents that share a state, and a router that chooses the next one from it."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence
from copy import copy
from functools import cached_property
from typing import Any, Final, Generic, TypeVar, Unpack, cast

from statewright.agents.agent import Agent, is_count
from statewright.agents.loop.call import data_fields
from statewright.agents.network.graph import build_network_graph
from statewright.agents.network.router import AgentRegistry, Router
from statewright.agents.network.routing_agent import RoutingAgent, default_router
from statewright.agents.network.run import NetworkRun
from statewright.agents.network.start import as_user_message
from statewright.agents.network.state import further_usage, usage_of_calls
from statewright.agents.state.data import PREFIX, field_values
from statewright.agents.state.state import Formatter, State, result_messages
from statewright.agents.state.usage_limits import UsageLimits
from statewright.agents.thread_history import ThreadHistory
from statewright.channels import Overwrite
from statewright.checkpoint import Checkpointer
from statewright.errors import InvalidConfig, suggestion
from statewright.graph import Command
from statewright.models import ChatModel, as_chat_model
from statewright.runtime import CallOptions, CompiledGraph
from statewright.runtime.thread_calls import call_in_thread
from statewright.runtime.unfinished import unfinished_calls
from statewright.store import Store

T = TypeVar("T")


class RunOptions(CallOptions, total=False):
    """The keywords of a run: those of every call that runs a graph, and these."""

    state: Any
    """What the run begins with, in the place of what the thread or the network has: data, or a State."""
    router: Router
    """In the place of the network's."""
    model: Any
    """Asked by all agents, in the place of their own."""
    default_model: Any
    checkpointer: Checkpointer | None
    store: Store | None
    """Memory across threads."""


_NETWORK_OPTIONS: Final = frozenset({"state", "router", "model", "default_model", "checkpointer", "store"})


class Network(Generic[T]):
    """Agents, a router, and the state that they share.

    The router is asked before each call of an agent; see `Router` for what it may be. Without one, a model chooses:
    the default model, by a tool. `state` is what new conversations begin with: data, or a State. Raises InvalidConfig
    for two agents of one name, and where nobody can route.
    """

    def __init__(
        self,
        name: str,
        *,
        agents: Sequence[Agent] = (),
        router: Router | None = None,
        state: State[T] | T | type[T] | Mapping[str, Any] | None = None,
        default_model: Any = None,
        max_iter: int = 0,
        stop_when: Callable[..., Any] | None = None,
        usage_limits: UsageLimits | None = None,
        history: ThreadHistory | None = None,
        formatter: Formatter = result_messages,
        description: str = "",
    ) -> None:
        self.name = name
        self.description = description
        self.default_model = default_model
        self.router: Router = cast(Any, router) if router is not None else default_router()
        self.default_state: State[T] = state if isinstance(state, State) else State(cast(Any, state))
        self.form = self.default_state.form
        self.max_iter = max_iter
        """How many agents are called in one run at most; 0: as many as the router wants."""
        self.stop_when = stop_when
        """`(result, state, network) -> bool`: whether the run ends after a call of an agent."""
        self.usage_limits = usage_limits
        self.history = history
        self.formatter: Formatter = formatter
        problems = [*self._problems(router)]
        if problems:
            raise InvalidConfig(f"Network {name!r} cannot be: " + " ".join(problems))
        self.registry = AgentRegistry(name, agents, router)
        self._models: Mapping[str | None, Any] = {}

    def _problems(self, router: object) -> Iterator[str]:
        name, hook, limits, history = cast("Any", (self.name, self.stop_when, self.usage_limits, self.history))
        if not isinstance(name, str) or not name.strip():
            yield "it has no name."
        if router is None and self.default_model is None:
            yield "it has no router. Give it one, or a default_model that chooses."
        if not (router is None or isinstance(router, RoutingAgent) or callable(router)):
            yield f"its router is {router!r}. Give a function that answers agents, or a RoutingAgent."
        if not is_count(self.max_iter):
            yield f"max_iter is {self.max_iter!r}. Give 0 or a whole number above."
        if not (hook is None or callable(hook)):
            yield f"stop_when is {hook!r}. Give a function."
        if not isinstance(limits, UsageLimits | None):
            yield f"usage_limits are {limits!r}. Give UsageLimits."
        if not isinstance(history, ThreadHistory | None):
            yield f"its history is {history!r}. Give a ThreadHistory."

    @property
    def agents(self) -> Mapping[str, Agent]:
        """The declared agents, by name."""
        return self.registry.declared

    def add_agent(self, agent: Agent) -> None:
        """Declare another agent. Raises InvalidConfig if one has its name."""
        self.registry.declare(agent)

    def available_agents(self, state: State[T] | None = None) -> list[Agent]:
        """The declared agents whose hook `enabled` does not say no, in the state that a run begins with or another."""
        return NetworkRun(self.name, state or self.default_state.clone(), self.agents).available_agents

    @property
    def defaults(self) -> dict[str, Any]:
        """The data that new conversations begin with."""
        return field_values(self.default_state.data)

    @cached_property
    def default_chat_model(self) -> ChatModel | None:
        """The default model, connected to where it was given by name."""
        return as_chat_model(self.default_model) if self.default_model is not None else None

    def with_models(self, model: Any = None, /, **by_agent: Any) -> Network[T]:
        """The same network whose agents ask other models: one for all, and others for those that are named.

        The agents stay the same objects, so a router may go on answering them. Raises InvalidConfig for an agent that
        is not declared.
        """
        unknown = next((name for name in by_agent if name not in self.agents), None)
        if unknown is not None:
            hint = suggestion(unknown, self.agents, noun="Agents")
            raise InvalidConfig(f"Network {self.name!r} has no agent {unknown!r}. {hint}")
        named = {name: as_chat_model(one) for name, one in by_agent.items()}
        everybody = {None: as_chat_model(model)} if model is not None else {}
        other = self._copy()
        other._models = {**self._models, **everybody, **named}
        return other

    def model_for(self, agent: Agent) -> ChatModel | None:
        """The model that an agent asks in the place of its own; None if it asks its own."""
        return self._models.get(agent.name) or self._models.get(None)

    def compile(self, checkpointer: Checkpointer | None = None, **options: Any) -> CompiledGraph:
        """The network as a graph, whose input is `{"input": message}`; options are those of `StateGraph.compile`."""
        return build_network_graph(self).compile(checkpointer, name=self.name, **options)

    # -- runs

    def run(self, input: Any = None, **options: Unpack[RunOptions]) -> NetworkRun[T]:  # noqa: A002  # the field's word
        """Run until the router names nobody, or something else ends it: see `stop_reason` of what is returned.

        `input` is text, a message, or a Command that answers questions; None goes on with a thread that did not come
        to its end. A run with a checkpointer and a thread_id can be gone on with.
        """
        app, given, rest = self._prepare_run(input, options)
        return self._with_unfinished_usage(self.run_of(app.invoke(given, **rest)), app, rest)

    async def arun(self, input: Any = None, **options: Unpack[RunOptions]) -> NetworkRun[T]:  # noqa: A002
        """`run`, on the running event loop."""
        app, given, rest = self._prepare_run(input, options)
        run = self.run_of(await app.ainvoke(given, **rest))
        return await call_in_thread(self._with_unfinished_usage, run, app, rest) if run.interrupts else run

    def stream(
        self,
        input: Any = None,  # noqa: A002
        *,
        stream_mode: Any = "messages",
        **options: Unpack[RunOptions],
    ) -> Iterator[Any]:
        """The parts of a run as they come: messages and pieces of them, or what another stream mode shows."""
        app, given, rest = self._prepare_run(input, options)
        return app.stream(given, stream_mode=stream_mode, **rest)

    def astream(
        self,
        input: Any = None,  # noqa: A002
        *,
        stream_mode: Any = "messages",
        **options: Unpack[RunOptions],
    ) -> AsyncIterator[Any]:
        """`stream`, on the running event loop."""
        app, given, rest = self._prepare_run(input, options)
        return app.astream(given, stream_mode=stream_mode, **rest)

    def state_of(self, values: Mapping[str, Any]) -> State[T]:
        """The state that a result of the compiled graph, or a snapshot, holds."""
        return State.of(
            self.form,
            data_fields(values),
            values.get("messages", ()),
            values.get("turns", ()),
            values.get("history_thread"),
        )

    def run_of(self, values: Mapping[str, Any]) -> NetworkRun[T]:
        """The run that a result of the compiled graph, or a snapshot, tells of.

        Where that waits for an answer, its usage is without that of the agent which waits.
        """
        known = {**self.registry.implicit, **self.agents}
        run: NetworkRun[T] = NetworkRun(
            self.name,
            self.state_of(values),
            self.agents,
            message=values.get("message"),
            stack=[known[name] for name in values.get("queue", ()) if name in known],
            call_count=values.get("call_count", 0),
            further_usage=further_usage(values),
        )
        run.stop_reason, run.summary = values.get("stop_reason"), values.get("summary")
        run.interrupts = tuple(values.get("__interrupt__", ()))
        return run

    # -- parts of a run

    def _with_unfinished_usage(
        self, run: NetworkRun[T], app: CompiledGraph, options: Mapping[str, Any]
    ) -> NetworkRun[T]:
        """The run, with what the agents have used that wait for an answer."""
        if run.interrupts and app.checkpointer is not None:
            run.count(usage_of_calls(unfinished_calls(app, options)))
        return run

    def _prepare_run(self, given: Any, options: Any) -> tuple[CompiledGraph, Any, dict[str, Any]]:
        """What a run needs: the graph, its input, and the options that are those of the graph's own methods."""
        rest: dict[str, Any] = {name: value for name, value in options.items() if name not in _NETWORK_OPTIONS}
        network = self._with_run_options(options)
        app = network.compile(options.get("checkpointer"), store=options.get("store"))
        return app, self._graph_input(given, options.get("state")), rest

    def _with_run_options(self, options: Any) -> Network[T]:
        """The network with what one run has otherwise."""
        other = self if options.get("model") is None else self.with_models(options["model"])
        router, default = options.get("router"), options.get("default_model")
        if router is not None or default is not None:
            other = other._copy()
            other.router = router or other.router
            other.registry = AgentRegistry(other.name, list(other.agents.values()), other.router)
            other.registry.implicit = {**self.registry.implicit, **other.registry.implicit}
            other.default_model = default if default is not None else other.default_model
        return other

    def _copy(self) -> Network[T]:
        other = copy(self)
        other.__dict__.pop("default_chat_model", None)  # the connection to the model that it has, if there is one
        return other

    def _graph_input(self, given: Any, state: Any) -> Any:
        """The input of the graph."""
        if given is None or isinstance(given, Command):
            if state is not None:
                raise InvalidConfig("A run that goes on has its state already. Give a state with an input only.")
            return cast(Any, given)
        found = {"input": as_user_message(given)}
        if state is None:
            return found
        schema = self.form.source if not isinstance(state, type) else None
        known = cast("State[Any]", state if isinstance(state, State) else State(state, schema=schema))
        return {**found, **_state_input(known)}

    def __repr__(self) -> str:
        return f"Network({self.name!r}, agents: {', '.join(self.agents) or 'none'})"


def _state_input(state: State[Any]) -> dict[str, Any]:
    """A state that a caller gives, as input of the graph."""
    data = {f"{PREFIX}{name}": value for name, value in field_values(state.data).items()}
    thread = {"history_thread": state.thread_id} if state.thread_id is not None else {}
    return {**data, "messages": state.messages, "turns": Overwrite(state.turns), **thread}
