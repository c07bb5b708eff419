"""A graph that is ready to run.

Methods that run the graph create a run (`run_factory`) and pass it to a driver (`driving`). If their names begin with
`a`, they use the driver for event loops. Running never changes a compiled graph, so threads and event loops may share
it. `CompiledGraph` inherits most methods: `ThreadMethods` inspects and changes threads, `StreamMethods` and
`InvokeMethods` run the graph.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from datetime import datetime
from typing import TYPE_CHECKING, Any, Unpack, cast

from statewright.errors import InvalidConfig, InvalidResume, suggestion
from statewright.futures import resolve
from statewright.graph import Command, ContextT, InputT, Memory, OutputT, ResultT, StateT
from statewright.runtime.core.subgraph import Pairs, common_fields
from statewright.runtime.invocation.run import Run
from statewright.runtime.lifecycle.snapshot import node_path, subgraphs_of
from statewright.runtime.lifecycle.start import TIMED_OUT
from statewright.runtime.methods.call_options import checked_nodes
from statewright.runtime.methods.driving import adrive_run, drive_run, outcome_of
from statewright.runtime.methods.invoke_methods import InvokeMethods
from statewright.runtime.methods.thread_methods import run_in_thread
from statewright.runtime.options import CallOptions, Config, Names
from statewright.runtime.tasks.interrupt import raise_to_caller
from statewright.runtime.tasks.result_cache import cached_name
from statewright.runtime.tasks.scope import Scope, current_scope
from statewright.state import context_json_schema, json_schema

if TYPE_CHECKING:
    from statewright.graph.draw import Drawing


class CompiledGraph(InvokeMethods[StateT, ContextT, InputT, OutputT, ResultT]):
    """A graph that is ready to run, created by `StateGraph.compile`. For type parameters see `graph/generics.py`."""

    def __repr__(self) -> str:
        return f"CompiledGraph({self.name!r}, {len(self.graph.nodes)} nodes)"

    # -- timers and events that resume a thread

    def resume_due(
        self, config: Config = None, *, now: datetime | None = None, **options: Unpack[CallOptions[ContextT]]
    ) -> ResultT | None:
        """Resume the tasks whose timers or time limits are due, and return the result; None if nothing is due.

        `now` is by default the time of the graph's clock.
        """
        while answers := self._due_answers(config, options, now):
            run = self._run(config, options)
            try:
                drive_run(run, Command(resume=answers))
            except InvalidResume:
                if _has_begun(run):
                    raise
            else:
                return self._result(run, output_keys=options.get("output_keys"))
        return None

    async def aresume_due(
        self, config: Config = None, *, now: datetime | None = None, **options: Unpack[CallOptions[ContextT]]
    ) -> ResultT | None:
        """Do the same as `resume_due`, on the running event loop."""
        while answers := await run_in_thread(self._due_answers, config, options, now):
            run = self._run(config, options)
            try:
                await adrive_run(run, Command(resume=answers))
            except InvalidResume:
                if _has_begun(run):
                    raise
            else:
                return self._result(run, output_keys=options.get("output_keys"))
        return None

    def send_event(
        self, name: str, payload: Any = None, config: Config = None, **options: Unpack[CallOptions[ContextT]]
    ) -> ResultT:
        """Deliver an event to every task of the thread that waits for it, resume these tasks, and return the result.

        Raises InvalidResume if no task waits for the event, or if the payload is not of the type that a task expects.
        """
        return self.invoke(Command(resume=self._event_answers(name, payload, config, options)), config, **options)

    async def asend_event(
        self, name: str, payload: Any = None, config: Config = None, **options: Unpack[CallOptions[ContextT]]
    ) -> ResultT:
        """Do the same as `send_event`, on the running event loop."""
        answers = await run_in_thread(self._event_answers, name, payload, config, options)
        return await self.ainvoke(Command(resume=answers), config, **options)

    def _due_answers(self, config: Any, options: Any, now: datetime | None) -> dict[str, Any]:
        """Return an answer for each interrupt whose time has come, by id."""
        now = now or self._clock.now()
        interrupts = self.get_state(config, **_thread_options(options)).interrupts
        return {item.id: TIMED_OUT for item in interrupts if item.due_at is not None and item.due_at <= now}

    def _event_answers(self, name: str, payload: Any, config: Any, options: Any) -> dict[str, Any]:
        """Return the payload as the answer for each interrupt that waits for the event, by id."""
        interrupts = self.get_state(config, **_thread_options(options)).interrupts
        answers: dict[str, Any] = {item.id: payload for item in interrupts if item.event == name}
        if not answers:
            awaited_events = sorted({item.event for item in interrupts if item.event is not None})
            raise InvalidResume(
                f"No task of this thread waits for the event {name!r}. "
                + suggestion(name, awaited_events, noun="Awaited events"),
                open_ids=[item.id for item in interrupts],
            )
        return answers

    # -- inspection

    def get_subgraphs(self, namespace: str | None = None, *, recurse: bool = False) -> Iterator[tuple[str, Any]]:
        """Yield pairs (path, compiled graph) for the nodes that are graphs; with `recurse`, at any depth.

        The path consists of the names of the nodes that lead to the graph, joined by `|`. With `namespace`, yield only
        the graph at this path.
        """
        for path, graph in subgraphs_of(self.graph, recurse=recurse or namespace is not None):
            if namespace is None or path == node_path(namespace):
                yield path, graph

    def clear_cache(self, nodes: Names = None) -> None:
        """Delete the cached results of some nodes, by default of all nodes.

        Raises InvalidConfig if a node does not exist, or if the graph has no cache.
        """
        if self.cache is None:
            raise InvalidConfig("The graph has no cache to clear. Pass one: compile(cache=InMemoryCache()).")
        names = checked_nodes(self.graph, nodes, "clear_cache") or frozenset(self.graph.nodes)
        resolve(self.cache.clear([cached_name(self.graph, node) for node in sorted(names)]))

    async def aclear_cache(self, nodes: Names = None) -> None:
        """Do the same as `clear_cache`, without blocking the running event loop."""
        await run_in_thread(self.clear_cache, nodes)

    def get_graph(self, *, xray: bool | int = False) -> Drawing:
        """Return a drawing of the graph. `xray=True` draws nodes of subgraphs too; a number limits their depth."""
        from statewright.graph.draw import drawing_of

        return drawing_of(self.graph, xray=xray)

    def _repr_mimebundle_(self, **_: Any) -> dict[str, Any]:
        """Return the representations that a notebook can show."""
        return {"image/svg+xml": self.get_graph().draw_svg(), "text/plain": repr(self)}

    def get_input_jsonschema(self) -> dict[str, Any]:
        """Return the JSON Schema of the input of `invoke`."""
        return json_schema(self.graph.input_schema, self.graph.fields, title=f"{self.name}Input")

    def get_output_jsonschema(self) -> dict[str, Any]:
        """Return the JSON Schema of the result of `invoke`."""
        return json_schema(self.graph.output_schema, self.graph.fields, title=f"{self.name}Output")

    def get_state_jsonschema(self) -> dict[str, Any]:
        """Return the JSON Schema of the state."""
        return json_schema(self.graph.schema, self.graph.fields, title=f"{self.name}State")

    def get_context_jsonschema(self) -> dict[str, Any] | None:
        """Return the JSON Schema of the context; None if the graph has no context schema."""
        return context_json_schema(self.graph.context_schema)

    # -- calls by a node of another graph (the protocol `core.subgraph.Callee`)

    @property
    def reported(self) -> frozenset[str]:
        """The fields of results that have a reducer. A caller that has a reducer for a field too merges its writes."""
        return self._program.reported_fields

    @property
    def passes_state_on(self) -> bool:
        """True if the result has the caller's state with changes, so that only the changes become an update."""
        return self._program.passes_state_on

    def call_within(self, state: Any, memory: Memory) -> tuple[Any, Pairs]:
        """Run as a node of another graph, in a namespace of the thread of that graph.

        Return the result, and the writes to the `reported` fields, which the caller merges with its own reducers.
        """
        run = self._node_run(memory)
        drive_run(run, self._input_from(state))
        return self._node_result(run)

    async def acall_within(self, state: Any, memory: Memory) -> tuple[Any, Pairs]:
        """Do the same as `call_within`, on the running event loop."""
        run = self._node_run(memory)
        await adrive_run(run, self._input_from(state))
        return self._node_result(run)

    def _node_run(self, memory: Memory) -> Run:
        return self._nested_run(cast(Scope, current_scope()), {}, memory, argument_is_state=True)

    def _node_result(self, run: Run) -> tuple[Any, Pairs]:
        outcome = outcome_of(run)
        raise_to_caller(run, outcome)
        checkpoint = outcome.checkpoint
        return self._program.output(checkpoint.values, plain=True), checkpoint.reported

    def _input_from(self, state: Any) -> Any:
        """Return the input for this graph from the state of a caller: the fields that both graphs have."""
        schema = self.graph.input_schema
        return common_fields(state, frozenset(schema.fields) if schema.closed else None)


def _thread_options(options: Mapping[str, Any]) -> Any:
    """Return the keywords of a call that identify a checkpoint, without all others."""
    return {name: options[name] for name in ("thread_id", "checkpoint_id", "branch") if name in options}


def _has_begun(run: Run) -> bool:
    """Return False if the run has done nothing: another caller gave the answers before it had claimed the thread."""
    return run.claim is None or run.claim.is_made
