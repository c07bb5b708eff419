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
from statewright.runtime.concurrency.worker_threads import call_in_thread
from statewright.runtime.lifecycle.unfinished import unfinished_calls
from statewright.store import Store

T = TypeVar("T")


class RunOptions(CallOptions, total=False):
    """Keyword options of a run: those of every graph call, and these."""

    state: Any
    """Initial data, or a State; replaces that of the thread or of the network."""
    router: Router
    """Replaces the network's router."""
    model: Any
    """Replaces the models of all agents."""
    default_model: Any
    checkpointer: Checkpointer | None
    store: Store | None
    """Memory across threads."""


_NETWORK_OPTIONS: Final = frozenset({"state", "router", "model", "default_model", "checkpointer", "store"})


class Network(Generic[T]):
    """Agents, a router, and the state that they share.

    The router is called before each call of an agent; see `Router` for its forms. Without one, the default model
    chooses by a tool. `state` is the initial state of new conversations: data, or a State. Raises InvalidConfig for
    duplicate agent names, and without a router or default model.
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
        """Maximum number of agent calls in one run; 0: no limit."""
        self.stop_when = stop_when
        """`(result, state, network) -> bool`: True to end the run after a call of an agent."""
        self.usage_limits = usage_limits
        self.history = history
        self.formatter: Formatter = formatter
        problems = [*self._problems(router)]
        if problems:
            raise InvalidConfig(f"Network {name!r} is invalid: " + " ".join(problems))
        self.registry = AgentRegistry(name, agents, router)
        self._models: Mapping[str | None, Any] = {}

    def _problems(self, router: object) -> Iterator[str]:
        name, hook, limits, history = cast("Any", (self.name, self.stop_when, self.usage_limits, self.history))
        if not isinstance(name, str) or not name.strip():
            yield "it has no name."
        if router is None and self.default_model is None:
            yield "it has no router. Pass a router, or a default_model that chooses."
        if not (router is None or isinstance(router, RoutingAgent) or callable(router)):
            yield f"router is {router!r}. Pass a function that returns agents, or a RoutingAgent."
        if not is_count(self.max_iter):
            yield f"max_iter is {self.max_iter!r}. Pass 0 or a positive integer."
        if not (hook is None or callable(hook)):
            yield f"stop_when is {hook!r}. Pass a function."
        if not isinstance(limits, UsageLimits | None):
            yield f"usage_limits is {limits!r}. Pass UsageLimits."
        if not isinstance(history, ThreadHistory | None):
            yield f"history is {history!r}. Pass a ThreadHistory."

    @property
    def agents(self) -> Mapping[str, Agent]:
        """The declared agents, by name."""
        return self.registry.declared

    def add_agent(self, agent: Agent) -> None:
        """Declare another agent. Raises InvalidConfig if one has its name."""
        self.registry.declare(agent)

    def available_agents(self, state: State[T] | None = None) -> list[Agent]:
        """Return the declared agents that are enabled in a state, by default the initial one."""
        return NetworkRun(self.name, state or self.default_state.clone(), self.agents).available_agents

    @property
    def defaults(self) -> dict[str, Any]:
        """The initial data of new conversations."""
        return field_values(self.default_state.data)

    @cached_property
    def default_chat_model(self) -> ChatModel | None:
        """The default model, connected if it was given by name."""
        return as_chat_model(self.default_model) if self.default_model is not None else None

    def with_models(self, model: Any = None, /, **by_agent: Any) -> Network[T]:
        """Return the network with other models: one for all agents, and one for each agent that is named.

        The agents stay the same objects, so a router may still return them. Raises InvalidConfig for an agent that is
        not declared.
        """
        unknown = next((name for name in by_agent if name not in self.agents), None)
        if unknown is not None:
            hint = suggestion(unknown, self.agents, noun="Agents")
            raise InvalidConfig(f"Network {self.name!r} has no agent {unknown!r}. {hint}")
        models = {name: as_chat_model(value) for name, value in by_agent.items()}
        for_all = {None: as_chat_model(model)} if model is not None else {}
        network = self._copy()
        network._models = {**self._models, **for_all, **models}
        return network

    def model_for(self, agent: Agent) -> ChatModel | None:
        """Return the model that replaces an agent's own; None if there is none."""
        return self._models.get(agent.name) or self._models.get(None)

    def compile(self, checkpointer: Checkpointer | None = None, **options: Any) -> CompiledGraph:
        """Compile the network to a graph with the input `{"input": message}`; options as for `StateGraph.compile`."""
        return build_network_graph(self).compile(checkpointer, name=self.name, **options)

    # -- runs

    def run(self, input: Any = None, **options: Unpack[RunOptions]) -> NetworkRun[T]:  # noqa: A002  # the field's word
        """Run until the router chooses nobody or something else ends the run; see `stop_reason` of the returned run.

        `input` is text, a message, or a Command that answers interrupts; None resumes a thread that did not finish. A
        run can be resumed if it has a checkpointer and a thread_id.
        """
        app, graph_input, rest = self._prepare_run(input, options)
        return self._with_unfinished_usage(self.run_of(app.invoke(graph_input, **rest)), app, rest)

    async def arun(self, input: Any = None, **options: Unpack[RunOptions]) -> NetworkRun[T]:  # noqa: A002
        """Like `run`, on the running event loop."""
        app, graph_input, rest = self._prepare_run(input, options)
        run = self.run_of(await app.ainvoke(graph_input, **rest))
        return await call_in_thread(self._with_unfinished_usage, run, app, rest) if run.interrupts else run

    def stream(
        self,
        input: Any = None,  # noqa: A002
        *,
        stream_mode: Any = "messages",
        **options: Unpack[RunOptions],
    ) -> Iterator[Any]:
        """Yield the parts of a run as they arrive: messages and chunks, or the parts of another stream mode."""
        app, graph_input, rest = self._prepare_run(input, options)
        return app.stream(graph_input, stream_mode=stream_mode, **rest)

    def astream(
        self,
        input: Any = None,  # noqa: A002
        *,
        stream_mode: Any = "messages",
        **options: Unpack[RunOptions],
    ) -> AsyncIterator[Any]:
        """Like `stream`, on the running event loop."""
        app, graph_input, rest = self._prepare_run(input, options)
        return app.astream(graph_input, stream_mode=stream_mode, **rest)

    def state_of(self, values: Mapping[str, Any]) -> State[T]:
        """Return the state in the values of the compiled graph or of a snapshot."""
        return State.of(
            self.form,
            data_fields(values),
            values.get("messages", ()),
            values.get("turns", ()),
            values.get("history_thread"),
        )

    def run_of(self, values: Mapping[str, Any]) -> NetworkRun[T]:
        """Return the run in the values of the compiled graph or of a snapshot.

        If the run is interrupted, its usage does not include that of the interrupted agent.
        """
        agents = {**self.registry.implicit, **self.agents}
        run: NetworkRun[T] = NetworkRun(
            self.name,
            self.state_of(values),
            self.agents,
            message=values.get("message"),
            stack=[agents[name] for name in values.get("queue", ()) if name in agents],
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
        """Add the usage of interrupted agents to a run, and return it."""
        if run.interrupts and app.checkpointer is not None:
            run.count(usage_of_calls(unfinished_calls(app, options)))
        return run

    def _prepare_run(self, value: Any, options: Any) -> tuple[CompiledGraph, Any, dict[str, Any]]:
        """Return the graph of a run, its input, and the options to pass on to the graph."""
        rest: dict[str, Any] = {name: value for name, value in options.items() if name not in _NETWORK_OPTIONS}
        network = self._with_run_options(options)
        app = network.compile(options.get("checkpointer"), store=options.get("store"))
        return app, self._graph_input(value, options.get("state")), rest

    def _with_run_options(self, options: Any) -> Network[T]:
        """Return the network with the model and router of one run."""
        network = self if options.get("model") is None else self.with_models(options["model"])
        router, default = options.get("router"), options.get("default_model")
        if router is not None or default is not None:
            network = network._copy()
            network.router = router or network.router
            network.registry = AgentRegistry(network.name, list(network.agents.values()), network.router)
            network.registry.implicit = {**self.registry.implicit, **network.registry.implicit}
            network.default_model = default if default is not None else network.default_model
        return network

    def _copy(self) -> Network[T]:
        network = copy(self)
        network.__dict__.pop("default_chat_model", None)  # cached for the original's default model
        return network

    def _graph_input(self, value: Any, state: Any) -> Any:
        """Return the input of the graph."""
        if value is None or isinstance(value, Command):
            if state is not None:
                raise InvalidConfig("A resumed run has a state already. Pass state= only together with an input.")
            return cast(Any, value)
        graph_input = {"input": as_user_message(value)}
        if state is None:
            return graph_input
        schema = self.form.source if not isinstance(state, type) else None
        initial = cast("State[Any]", state if isinstance(state, State) else State(state, schema=schema))
        return {**graph_input, **_state_input(initial)}

    def __repr__(self) -> str:
        return f"Network({self.name!r}, agents: {', '.join(self.agents) or 'none'})"


def _state_input(state: State[Any]) -> dict[str, Any]:
    """Return a caller's state as input of the graph."""
    data = {f"{PREFIX}{name}": value for name, value in field_values(state.data).items()}
    thread = {"history_thread": state.thread_id} if state.thread_id is not None else {}
    return {**data, "messages": state.messages, "turns": Overwrite(state.turns), **thread}
