"""Networks of agents: the methods that compile and run them; their definition is in `definition`."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator, Mapping
from typing import Any, Final, Self, TypeVar, Unpack, cast

from statewright.agents.agent import Agent, AgentRunner
from statewright.agents.loop.graph import compile_agent
from statewright.agents.loop.run import NetworkRun
from statewright.agents.network.definition import AgentRegistry, NetworkDefinition
from statewright.agents.network.graph import build_network_graph
from statewright.agents.network.router import Router
from statewright.agents.network.state import as_user_message, build_run, usage_of_calls
from statewright.agents.state.data import data_fields, field_values, with_prefix
from statewright.agents.state.state import State
from statewright.channels import Overwrite
from statewright.checkpoint import Checkpointer
from statewright.errors import InvalidConfig
from statewright.graph import Command
from statewright.models import Usage
from statewright.runtime import CallOptions, CompiledGraph
from statewright.runtime.concurrency.thread_calls import call_in_thread
from statewright.runtime.lifecycle.unfinished import load_unfinished_calls
from statewright.store import Store

T = TypeVar("T")


class RunOptions(CallOptions, total=False):
    """The keyword options of a run, in addition to those of every graph call."""

    state: Any
    """Initial data, or a State; replaces the state of the thread, or the initial state of the network."""
    router: Router
    """Replaces the network's router."""
    model: Any
    """Replaces the models of all agents."""
    default_model: Any
    """Replaces the network's default model."""
    checkpointer: Checkpointer | None
    store: Store | None
    """Memory across threads."""


_NETWORK_OPTIONS: Final = frozenset(RunOptions.__annotations__).difference(CallOptions.__annotations__)


class Network(NetworkDefinition[T]):
    """Agents, a router, and the state that they share.

    The router is called before each call of an agent; see `Router` for its forms. Without a router, the default model
    chooses the agents. `state` is the initial state of new conversations: data, or a State. Raises InvalidConfig for
    duplicate agent names, and without either a router or a default model.
    """

    def compile(self, checkpointer: Checkpointer | None = None, **options: Any) -> CompiledGraph:
        """Compile the network to a graph with the input `{"input": message}`; see `StateGraph.compile` for options."""
        return build_network_graph(self).compile(checkpointer, name=self.name, **options)

    def run(self, input: Any = None, **options: Unpack[RunOptions]) -> NetworkRun[T]:  # noqa: A002
        """Run until the router chooses no agent, or a limit or a hook ends the run; `stop_reason` tells which.

        `input` is text, a message, or a Command that answers interrupts; None resumes a thread that did not finish.
        Only runs with a checkpointer and a thread_id can be resumed.
        """
        app, graph_input, graph_options = self._prepare_run(input, options)
        return self._with_unfinished_usage(self.run_of(app.invoke(graph_input, **graph_options)), app, graph_options)

    async def arun(self, input: Any = None, **options: Unpack[RunOptions]) -> NetworkRun[T]:  # noqa: A002
        """Like `run`, on the running event loop."""
        app, graph_input, graph_options = self._prepare_run(input, options)
        run = self.run_of(await app.ainvoke(graph_input, **graph_options))
        return await call_in_thread(self._with_unfinished_usage, run, app, graph_options) if run.interrupts else run

    def stream(
        self,
        input: Any = None,  # noqa: A002
        *,
        stream_mode: Any = "messages",
        **options: Unpack[RunOptions],
    ) -> Iterator[Any]:
        """Run like `run`, and yield messages and chunks as they arrive, or the events of another `stream_mode`."""
        app, graph_input, graph_options = self._prepare_run(input, options)
        return app.stream(graph_input, stream_mode=stream_mode, **graph_options)

    def astream(
        self,
        input: Any = None,  # noqa: A002
        *,
        stream_mode: Any = "messages",
        **options: Unpack[RunOptions],
    ) -> AsyncIterator[Any]:
        """Like `stream`, on the running event loop."""
        app, graph_input, graph_options = self._prepare_run(input, options)
        return app.astream(graph_input, stream_mode=stream_mode, **graph_options)

    def state_of(self, values: Mapping[str, Any]) -> State[T]:
        """Return the State in `values`, which are the output of the compiled graph or the values of a snapshot."""
        return self.run_of(values).state

    def run_of(self, values: Mapping[str, Any]) -> NetworkRun[T]:
        """Return the run in `values`, which are the output of the compiled graph or the values of a snapshot.

        If the run is interrupted, its usage does not include the usage of the interrupted agent.
        """
        agents = {**self.registry.referenced, **self.agents}
        stack = [agents[name] for name in values.get("queue", ()) if name in agents]
        data, thread_id = data_fields(values), values.get("history_thread")
        run = build_run(self, values, thread_id, stack, None, data, Usage())
        run.stop_reason, run.summary = values.get("stop_reason"), values.get("summary")
        run.interrupts = tuple(values.get("__interrupt__", ()))
        return run

    # -- parts of a run

    def _with_unfinished_usage(
        self, run: NetworkRun[T], app: CompiledGraph, options: Mapping[str, Any]
    ) -> NetworkRun[T]:
        """Add the usage of interrupted agents to a run, and return it."""
        if run.interrupts and app.checkpointer is not None:
            run.count(usage_of_calls(load_unfinished_calls(app, options)))
        return run

    def _prepare_run(self, value: Any, options: Any) -> tuple[CompiledGraph, Any, dict[str, Any]]:
        """Return the graph to run, and the input and the options with which to call it."""
        graph_options: dict[str, Any] = {name: value for name, value in options.items() if name not in _NETWORK_OPTIONS}
        network = self._with_run_options(options)
        app = network.compile(options.get("checkpointer"), store=options.get("store"))
        return app, self._graph_input(value, options.get("state")), graph_options

    def _with_run_options(self, options: Any) -> Self:
        """Return the network with the models and the router of one run."""
        network = self if options.get("model") is None else self.with_models(options["model"])
        router, default_model = options.get("router"), options.get("default_model")
        if default_model is not None:
            network = network._copy()
            network.default_model = default_model
        if router is not None:
            network = network._copy()
            network.router = router
            network.registry = AgentRegistry(network.name, list(network.agents.values()), router)
            network.registry.referenced = {**self.registry.referenced, **network.registry.referenced}
            network.registry.admitted = self.registry.admitted
        return network

    def _graph_input(self, value: Any, state: Any) -> Any:
        """Return the input of the graph for the input and the `state` of a run."""
        if value is None or isinstance(value, Command):
            if state is not None:
                raise InvalidConfig("A resumed run already has a state. Pass state= only together with an input.")
            return cast(Any, value)
        graph_input = {"input": as_user_message(value)}
        if state is None:
            return graph_input
        schema = self.data_schema.data_class if not isinstance(state, type) else None
        initial = cast("State[Any]", state if isinstance(state, State) else State(state, schema=schema))
        return {**graph_input, **_state_input(initial)}

    def __repr__(self) -> str:
        return f"Network({self.name!r}, agents: {', '.join(self.agents) or 'none'})"


def _state_input(state: State[Any]) -> dict[str, Any]:
    """Return the part of the graph's input that sets the state of the thread."""
    data = with_prefix(field_values(state.data))
    thread = {"history_thread": state.thread_id} if state.thread_id is not None else {}
    return {**data, "messages": state.messages, "turns": Overwrite(state.turns), **thread}


def network_of(agent: Agent, **options: Any) -> Network[Any]:
    """Return a network whose runs call one agent, once."""
    defaults: dict[str, Any] = {"agents": [agent], "router": _route_once, "history": agent.history}
    return Network(agent.name, **{**defaults, **options})


def _route_once(network: Any, call_count: int) -> Any:
    return None if call_count else next(iter(network.agents.values()))


Agent.runner = AgentRunner(compile_agent, network_of)
