"""A graph that is ready to run.

Every method makes a run (`run_factory`) and passes its core to a driver; methods whose name begins with `a` use the
driver for event loops. Running never changes a compiled graph, so it may be shared by threads and event loops.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Generator, Iterator, Mapping, Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Any, Literal, TypeVar, Unpack, cast, overload
from weakref import finalize

from statewright.errors import (
    InternalError,
    InvalidConfig,
    InvalidResume,
    suggestion,
)
from statewright.futures import resolve
from statewright.graph import (
    Command,
    ContextT,
    InputT,
    Memory,
    OutputT,
    ResultT,
    StateT,
)
from statewright.runtime.batch import config_at, recorded, run_beside, run_beside_async, without_signals
from statewright.runtime.config import (
    checked_choice,
    joined_configs,
    read_settings,
)
from statewright.runtime.core.subgraph import (
    Pairs,
    common_fields,
)
from statewright.runtime.drivers.saver_calls import perform_all
from statewright.runtime.drivers.sync import drive_sync, iter_parts
from statewright.runtime.invocation.emitter import EventEmitter
from statewright.runtime.invocation.outcome import RunOutcome
from statewright.runtime.invocation.run import Run
from statewright.runtime.lifecycle.snapshot import (
    node_path,
    subgraphs_of,
)
from statewright.runtime.lifecycle.start import TIMED_OUT
from statewright.runtime.lifecycle.thread_lease import note_closing
from statewright.runtime.lifecycle.thread_state import (
    load_branch_head,
)
from statewright.runtime.lifecycle.turn import run_until_idle
from statewright.runtime.options import CallOptions, CallOptionsApart, Config, GraphOutput, Names, StreamPart
from statewright.runtime.streaming.iterate import Halt, StepIterator, StepWatch
from statewright.runtime.streaming.modes import (
    INTERRUPT,
    StreamMode,
    StreamVersion,
    StreamView,
    checked_modes,
    shown_values,
)
from statewright.runtime.tasks.interrupt import ChildCommand, Paused, raise_to_caller
from statewright.runtime.tasks.result_cache import cached_name
from statewright.runtime.tasks.scope import Scope, current_scope
from statewright.runtime.thread_methods import ThreadMethods, run_in_thread
from statewright.state import context_json_schema, json_schema

if TYPE_CHECKING:
    from statewright.graph.draw import Drawing

T = TypeVar("T")


class CompiledGraph(ThreadMethods[StateT, ContextT, InputT, OutputT, ResultT]):
    """A graph that is ready to run. Made by `StateGraph.compile`. For its parameters see `graph/generics.py`."""

    def __repr__(self) -> str:
        return f"CompiledGraph({self.name!r}, {len(self.graph.nodes)} nodes)"

    # -- running

    @overload
    def invoke(
        self,
        input: InputT | StateT | Command[Any] | None,  # the field's word
        config: Config = None,
        *,
        stream_mode: Literal["values"] = "values",
        version: StreamVersion = "v1",
        output_keys: str,
        **options: Unpack[CallOptionsApart[ContextT]],
    ) -> Any: ...
    @overload
    def invoke(
        self,
        input: InputT | StateT | Command[Any] | None,  # the field's word
        config: Config = None,
        *,
        stream_mode: Literal["values"] = "values",
        version: Literal["v1"] = "v1",
        **options: Unpack[CallOptions[ContextT]],
    ) -> ResultT: ...
    @overload
    def invoke(
        self,
        input: InputT | StateT | Command[Any] | None,  # the field's word
        config: Config = None,
        *,
        stream_mode: Literal["values"] = "values",
        version: Literal["v2"],
        **options: Unpack[CallOptions[ContextT]],
    ) -> GraphOutput[OutputT]: ...
    @overload
    def invoke(
        self,
        input: InputT | StateT | Command[Any] | None,  # the field's word
        config: Config = None,
        *,
        stream_mode: StreamMode,
        version: StreamVersion = "v1",
        **options: Unpack[CallOptions[ContextT]],
    ) -> list[Any]: ...
    def invoke(
        self,
        input: Any,  # noqa: A002  # the field's word
        config: Any = None,
        *,
        stream_mode: StreamMode = "values",
        version: StreamVersion = "v1",
        **options: Unpack[CallOptions[ContextT]],
    ) -> Any:
        """Run to rest, and return the state that the output schema shows.

        If the run waits for answers, the result holds them under `"__interrupt__"`; with `version="v2"` it is a
        `GraphOutput`. With another `stream_mode` the result is the list of all parts. Raises what a node raised,
        with a note that says where; the errors under `RunError` for wrong input, settings and answers;
        `CheckpointConflict` if another run moved the thread.
        """
        if stream_mode != "values":
            return list(self.stream(input, config, stream_mode=stream_mode, version=version, **options))
        if input is None and config is not None:
            config = self._from_inside(config)
        run = self._run(config, options, input)
        _drive(run, input)
        return self._result(run, version, options.get("output_keys"))

    @overload
    async def ainvoke(
        self,
        input: InputT | StateT | Command[Any] | None,  # the field's word
        config: Config = None,
        *,
        stream_mode: Literal["values"] = "values",
        version: StreamVersion = "v1",
        output_keys: str,
        **options: Unpack[CallOptionsApart[ContextT]],
    ) -> Any: ...
    @overload
    async def ainvoke(
        self,
        input: InputT | StateT | Command[Any] | None,  # the field's word
        config: Config = None,
        *,
        stream_mode: Literal["values"] = "values",
        version: Literal["v1"] = "v1",
        **options: Unpack[CallOptions[ContextT]],
    ) -> ResultT: ...
    @overload
    async def ainvoke(
        self,
        input: InputT | StateT | Command[Any] | None,  # the field's word
        config: Config = None,
        *,
        stream_mode: Literal["values"] = "values",
        version: Literal["v2"],
        **options: Unpack[CallOptions[ContextT]],
    ) -> GraphOutput[OutputT]: ...
    @overload
    async def ainvoke(
        self,
        input: InputT | StateT | Command[Any] | None,  # the field's word
        config: Config = None,
        *,
        stream_mode: StreamMode,
        version: StreamVersion = "v1",
        **options: Unpack[CallOptions[ContextT]],
    ) -> list[Any]: ...
    async def ainvoke(
        self,
        input: Any,  # noqa: A002  # the field's word
        config: Any = None,
        *,
        stream_mode: StreamMode = "values",
        version: StreamVersion = "v1",
        **options: Unpack[CallOptions[ContextT]],
    ) -> Any:
        """`invoke`, on the running event loop."""
        if stream_mode != "values":
            parts = self.astream(input, config, stream_mode=stream_mode, version=version, **options)
            return [part async for part in parts]
        if input is None and config is not None:
            config = await run_in_thread(self._from_inside, config)
        run = self._run(config, options, input)
        await _drive_async(run, input)
        return self._result(run, version, options.get("output_keys"))

    @overload
    def stream(
        self,
        input: InputT | StateT | Command[Any] | None,  # the field's word
        config: Config = None,
        *,
        stream_mode: Literal["values"],
        subgraphs: Literal[False] = False,
        version: Literal["v1"] = "v1",
        output_keys: str,
        **options: Unpack[CallOptionsApart[ContextT]],
    ) -> Generator[Any]: ...
    @overload
    def stream(
        self,
        input: InputT | StateT | Command[Any] | None,  # the field's word
        config: Config = None,
        *,
        stream_mode: Literal["updates"] = "updates",
        subgraphs: Literal[False] = False,
        version: Literal["v1"] = "v1",
        **options: Unpack[CallOptions[ContextT]],
    ) -> Generator[dict[str, Any]]: ...
    @overload
    def stream(
        self,
        input: InputT | StateT | Command[Any] | None,  # the field's word
        config: Config = None,
        *,
        stream_mode: Literal["values"],
        subgraphs: Literal[False] = False,
        version: Literal["v1"] = "v1",
        **options: Unpack[CallOptions[ContextT]],
    ) -> Generator[ResultT]: ...
    @overload
    def stream(
        self,
        input: InputT | StateT | Command[Any] | None,  # the field's word
        config: Config = None,
        *,
        stream_mode: Literal["messages"],
        subgraphs: Literal[False] = False,
        version: Literal["v1"] = "v1",
        **options: Unpack[CallOptions[ContextT]],
    ) -> Generator[tuple[Any, dict[str, Any]]]: ...
    @overload
    def stream(
        self,
        input: InputT | StateT | Command[Any] | None,  # the field's word
        config: Config = None,
        *,
        stream_mode: Literal["custom", "tasks", "checkpoints", "debug"],
        subgraphs: Literal[False] = False,
        version: Literal["v1"] = "v1",
        **options: Unpack[CallOptions[ContextT]],
    ) -> Generator[Any]: ...
    @overload
    def stream(
        self,
        input: InputT | StateT | Command[Any] | None,  # the field's word
        config: Config = None,
        *,
        stream_mode: Sequence[StreamMode],
        subgraphs: Literal[False] = False,
        version: Literal["v1"] = "v1",
        **options: Unpack[CallOptions[ContextT]],
    ) -> Generator[tuple[StreamMode, Any]]: ...
    @overload
    def stream(
        self,
        input: InputT | StateT | Command[Any] | None,  # the field's word
        config: Config = None,
        *,
        stream_mode: StreamMode | Sequence[StreamMode] = "updates",
        subgraphs: bool = False,
        version: Literal["v2"],
        **options: Unpack[CallOptions[ContextT]],
    ) -> Generator[StreamPart]: ...
    @overload
    def stream(
        self,
        input: InputT | StateT | Command[Any] | None,  # the field's word
        config: Config = None,
        *,
        stream_mode: StreamMode | Sequence[StreamMode] = "updates",
        subgraphs: bool = False,
        version: StreamVersion = "v1",
        **options: Unpack[CallOptions[ContextT]],
    ) -> Generator[Any]: ...
    def stream(
        self,
        input: Any,  # noqa: A002  # the field's word
        config: Any = None,
        *,
        stream_mode: StreamMode | Sequence[StreamMode] = "updates",
        subgraphs: bool = False,
        version: StreamVersion = "v1",
        **options: Unpack[CallOptions[ContextT]],
    ) -> Generator[Any]:
        """Run while the caller reads what happens; see `runtime/streaming/modes.py` for the modes.

        The run advances as parts are taken; closing the iterator abandons it.
        """
        if input is None and config is not None:
            config = self._from_inside(config)
        run, view = self._streamed(input, config, options, stream_mode, subgraphs, version)
        yield from iter_parts(run, input)
        self._result(run, version)
        view.warn_of_hidden()

    @overload
    def astream(
        self,
        input: InputT | StateT | Command[Any] | None,  # the field's word
        config: Config = None,
        *,
        stream_mode: Literal["values"],
        subgraphs: Literal[False] = False,
        version: Literal["v1"] = "v1",
        output_keys: str,
        **options: Unpack[CallOptionsApart[ContextT]],
    ) -> AsyncGenerator[Any]: ...
    @overload
    def astream(
        self,
        input: InputT | StateT | Command[Any] | None,  # the field's word
        config: Config = None,
        *,
        stream_mode: Literal["updates"] = "updates",
        subgraphs: Literal[False] = False,
        version: Literal["v1"] = "v1",
        **options: Unpack[CallOptions[ContextT]],
    ) -> AsyncGenerator[dict[str, Any]]: ...
    @overload
    def astream(
        self,
        input: InputT | StateT | Command[Any] | None,  # the field's word
        config: Config = None,
        *,
        stream_mode: Literal["values"],
        subgraphs: Literal[False] = False,
        version: Literal["v1"] = "v1",
        **options: Unpack[CallOptions[ContextT]],
    ) -> AsyncGenerator[ResultT]: ...
    @overload
    def astream(
        self,
        input: InputT | StateT | Command[Any] | None,  # the field's word
        config: Config = None,
        *,
        stream_mode: Literal["messages"],
        subgraphs: Literal[False] = False,
        version: Literal["v1"] = "v1",
        **options: Unpack[CallOptions[ContextT]],
    ) -> AsyncGenerator[tuple[Any, dict[str, Any]]]: ...
    @overload
    def astream(
        self,
        input: InputT | StateT | Command[Any] | None,  # the field's word
        config: Config = None,
        *,
        stream_mode: Literal["custom", "tasks", "checkpoints", "debug"],
        subgraphs: Literal[False] = False,
        version: Literal["v1"] = "v1",
        **options: Unpack[CallOptions[ContextT]],
    ) -> AsyncGenerator[Any]: ...
    @overload
    def astream(
        self,
        input: InputT | StateT | Command[Any] | None,  # the field's word
        config: Config = None,
        *,
        stream_mode: Sequence[StreamMode],
        subgraphs: Literal[False] = False,
        version: Literal["v1"] = "v1",
        **options: Unpack[CallOptions[ContextT]],
    ) -> AsyncGenerator[tuple[StreamMode, Any]]: ...
    @overload
    def astream(
        self,
        input: InputT | StateT | Command[Any] | None,  # the field's word
        config: Config = None,
        *,
        stream_mode: StreamMode | Sequence[StreamMode] = "updates",
        subgraphs: bool = False,
        version: Literal["v2"],
        **options: Unpack[CallOptions[ContextT]],
    ) -> AsyncGenerator[StreamPart]: ...
    @overload
    def astream(
        self,
        input: InputT | StateT | Command[Any] | None,  # the field's word
        config: Config = None,
        *,
        stream_mode: StreamMode | Sequence[StreamMode] = "updates",
        subgraphs: bool = False,
        version: StreamVersion = "v1",
        **options: Unpack[CallOptions[ContextT]],
    ) -> AsyncGenerator[Any]: ...
    def astream(
        self,
        input: Any,  # noqa: A002  # the field's word
        config: Any = None,
        *,
        stream_mode: StreamMode | Sequence[StreamMode] = "updates",
        subgraphs: bool = False,
        version: StreamVersion = "v1",
        **options: Unpack[CallOptions[ContextT]],
    ) -> AsyncGenerator[Any]:
        """`stream`, on the running event loop. The run goes on while the reader is busy, up to a bounded buffer."""
        owners: list[str] = []
        parts = self._parts_read(input, config, options, stream_mode, subgraphs, version, owners)
        # The loop closes it some time after it was dropped, and the next run on the thread has to know before.
        finalize(parts, note_closing, owners).atexit = False
        return parts

    async def _parts_read(
        self,
        input: Any,  # noqa: A002
        config: Any,
        options: Mapping[str, Any],
        stream_mode: StreamMode | Sequence[StreamMode],
        subgraphs: bool,
        version: StreamVersion,
        owners: list[str],
    ) -> AsyncGenerator[Any]:
        """The parts of a stream, read on the running event loop; `owners` is told as whom it holds a thread."""
        from statewright.runtime.drivers.stream_reader import StreamReader  # loads asyncio

        if input is None and config is not None:
            config = await run_in_thread(self._from_inside, config)
        run, view = self._streamed(input, config, options, stream_mode, subgraphs, version)
        if run.owner is not None and not run.nested:
            owners.append(run.owner)
        reader = StreamReader(run, input, view.buffer)
        try:
            while (parts := await reader.read()) is not None:
                for part in parts:
                    yield part
        finally:
            await reader.close()
        self._result(run, version)
        view.warn_of_hidden()

    def iter(
        self,
        input: InputT | StateT | Command[Any] | None,  # noqa: A002  # the field's word
        config: Config = None,
        *,
        halt: Halt | None = None,
        **options: Unpack[CallOptions[ContextT]],
    ) -> StepIterator:
        """Drive a run superstep by superstep. It ends early where `halt(step)` is true, or at a breakpoint."""
        watch = EventEmitter(self._listeners)
        steps = StepWatch(watch)
        run = steps.run = self._run(config, options, input, watch)
        return StepIterator(run, iter_parts(run, input), halt)

    @overload
    def batch(
        self,
        inputs: Sequence[InputT | StateT | Command[Any] | None],
        config: Config | Sequence[Config] = None,
        *,
        return_exceptions: Literal[False] = False,
        **options: Unpack[CallOptions[ContextT]],
    ) -> list[ResultT]: ...
    @overload
    def batch(
        self,
        inputs: Sequence[InputT | StateT | Command[Any] | None],
        config: Config | Sequence[Config] = None,
        *,
        return_exceptions: bool,
        **options: Unpack[CallOptions[ContextT]],
    ) -> list[ResultT | Exception]: ...
    def batch(
        self,
        inputs: Sequence[Any],
        config: Any = None,
        *,
        return_exceptions: bool = False,
        **options: Unpack[CallOptions[ContextT]],
    ) -> list[Any]:
        """The results of many inputs, in their order, run beside each other on threads.

        `config` may be a list with one for each input. With `return_exceptions=True` a failed run gives its error
        in place of a result, a `NodeFailed` where a node raised.
        """

        nested = self._nested_runs(config, inputs, options)

        def run_one(place: int) -> Any:
            try:
                run = nested[place] if nested else self._run(config_at(config, place, len(inputs)), options)
                _drive(run, inputs[place])
                return (recorded(run) if return_exceptions else None) or self._result(run)
            except (Paused, ChildCommand) as signal:
                return signal
            except Exception as error:
                if return_exceptions:
                    return error
                raise

        return without_signals(run_beside(run_one, len(inputs), options.get("max_concurrency")))

    @overload
    async def abatch(
        self,
        inputs: Sequence[InputT | StateT | Command[Any] | None],
        config: Config | Sequence[Config] = None,
        *,
        return_exceptions: Literal[False] = False,
        **options: Unpack[CallOptions[ContextT]],
    ) -> list[ResultT]: ...
    @overload
    async def abatch(
        self,
        inputs: Sequence[InputT | StateT | Command[Any] | None],
        config: Config | Sequence[Config] = None,
        *,
        return_exceptions: bool,
        **options: Unpack[CallOptions[ContextT]],
    ) -> list[ResultT | Exception]: ...
    async def abatch(
        self,
        inputs: Sequence[Any],
        config: Any = None,
        *,
        return_exceptions: bool = False,
        **options: Unpack[CallOptions[ContextT]],
    ) -> list[Any]:
        """`batch`, on the running event loop."""

        nested = self._nested_runs(config, inputs, options)

        async def run_one(place: int) -> Any:
            try:
                run = nested[place] if nested else self._run(config_at(config, place, len(inputs)), options)
                await _drive_async(run, inputs[place])
                return (recorded(run) if return_exceptions else None) or self._result(run)
            except (Paused, ChildCommand) as signal:
                return signal
            except Exception as error:
                if return_exceptions:
                    return error
                raise

        return without_signals(await run_beside_async(run_one, len(inputs), options.get("max_concurrency")))

    # -- going on from outside

    def resume_due(
        self, config: Config = None, *, now: datetime | None = None, **options: Unpack[CallOptions[ContextT]]
    ) -> ResultT | None:
        """Go on where timers have gone off and waits have ended; the result, or None if nothing is due.

        `now` is the present instant by the clock of the graph if it is not given.
        """
        while due := self._due(config, options, now):
            run = self._run(config, options)
            try:
                _drive(run, Command(resume=due))
            except InvalidResume:
                if _has_begun(run):
                    raise
            else:
                return self._result(run, output_keys=options.get("output_keys"))
        return None

    async def aresume_due(
        self, config: Config = None, *, now: datetime | None = None, **options: Unpack[CallOptions[ContextT]]
    ) -> ResultT | None:
        """`resume_due`, on the running event loop."""
        while due := await run_in_thread(self._due, config, options, now):
            run = self._run(config, options)
            try:
                await _drive_async(run, Command(resume=due))
            except InvalidResume:
                if _has_begun(run):
                    raise
            else:
                return self._result(run, output_keys=options.get("output_keys"))
        return None

    def send_event(
        self, name: str, payload: Any = None, config: Config = None, **options: Unpack[CallOptions[ContextT]]
    ) -> ResultT:
        """Give an event to every task of the thread that waits for it, and go on; the result.

        Raises InvalidResume if none does, or if the payload does not have the type that they asked for.
        """
        return self.invoke(Command(resume=self._waiting(name, payload, config, options)), config, **options)

    async def asend_event(
        self, name: str, payload: Any = None, config: Config = None, **options: Unpack[CallOptions[ContextT]]
    ) -> ResultT:
        """`send_event`, on the running event loop."""
        answers = await run_in_thread(self._waiting, name, payload, config, options)
        return await self.ainvoke(Command(resume=answers), config, **options)

    def _due(self, config: Any, options: Any, now: datetime | None) -> dict[str, Any]:
        instant = now or self._clock.now()
        waits = self.get_state(config, **_naming(options)).interrupts
        return {wait.id: TIMED_OUT for wait in waits if wait.due_at is not None and wait.due_at <= instant}

    def _waiting(self, name: str, payload: Any, config: Any, options: Any) -> dict[str, Any]:
        waits = self.get_state(config, **_naming(options)).interrupts
        answers: dict[str, Any] = {wait.id: payload for wait in waits if wait.event == name}
        if not answers:
            known = sorted({wait.event for wait in waits if wait.event is not None})
            raise InvalidResume(
                f"Nobody waits for the event {name!r} on this thread. "
                + suggestion(name, known, noun="Awaited events"),
                open_ids=[wait.id for wait in waits],
            )
        return answers

    # -- looking

    def get_subgraphs(self, namespace: str | None = None, *, recurse: bool = False) -> Iterator[tuple[str, Any]]:
        """The graphs that are nodes of this one, with the names of their nodes; inside them too if `recurse`.

        Inside, names are paths joined by `|`. With a `namespace` only the graph at that path.
        """
        for path, graph in subgraphs_of(self.graph, recurse=recurse or namespace is not None):
            if namespace is None or path == node_path(namespace):
                yield path, graph

    def clear_cache(self, nodes: Names = None) -> None:
        """Forget the kept results of some nodes, of all if none is named, whatever their input was.

        Raises InvalidConfig for a node that does not exist, and where the graph has no cache.
        """
        if self.cache is None:
            raise InvalidConfig("The graph keeps no results: compile(cache=...) gives it a cache.")
        named = self._known(nodes, "clear_cache") or frozenset(self.graph.nodes)
        resolve(self.cache.clear([cached_name(self.graph, node) for node in sorted(named)]))

    async def aclear_cache(self, nodes: Names = None) -> None:
        """`clear_cache`, without blocking the running event loop."""
        await run_in_thread(self.clear_cache, nodes)

    def get_graph(self, *, xray: bool | int = False) -> Drawing:
        """The graph as a drawing, with the insides of subgraphs if `xray`, down to a depth if it is a number."""
        from statewright.graph.draw import drawing_of

        return drawing_of(self.graph, xray=xray)

    def _repr_mimebundle_(self, **_: Any) -> dict[str, Any]:
        """How a notebook shows the graph."""
        return {"image/svg+xml": self.get_graph().draw_svg(), "text/plain": repr(self)}

    def get_input_jsonschema(self) -> dict[str, Any]:
        """The JSON Schema of what `invoke` takes."""
        return json_schema(self.graph.input_schema, self.graph.fields, title=f"{self.name}Input")

    def get_output_jsonschema(self) -> dict[str, Any]:
        """The JSON Schema of what `invoke` returns."""
        return json_schema(self.graph.output_schema, self.graph.fields, title=f"{self.name}Output")

    def get_state_jsonschema(self) -> dict[str, Any]:
        """The JSON Schema of the whole state."""
        return json_schema(self.graph.schema, self.graph.fields, title=f"{self.name}State")

    def get_context_jsonschema(self) -> dict[str, Any] | None:
        """The JSON Schema of the context; None if the graph has none."""
        return context_json_schema(self.graph.context_schema)

    # -- called by a node

    @property
    def reported(self) -> frozenset[str]:
        """The fields that merge and that results show: a caller that merges them too is told what was written."""
        return self._program.reported

    @property
    def passes_state_on(self) -> bool:
        """True if the result is the state of the caller with changes; else all of it is a result of its own."""
        return self._program.passes_state_on

    def call_within(self, state: Any, memory: Memory) -> tuple[Any, Pairs]:
        """Run as a node of another graph, in a namespace of its thread: the result, and what its caller may merge."""
        run = self._node_run(memory)
        _drive(run, self._own_input(state))
        return self._answer(run)

    async def acall_within(self, state: Any, memory: Memory) -> tuple[Any, Pairs]:
        """`call_within`, on the running event loop."""
        run = self._node_run(memory)
        await _drive_async(run, self._own_input(state))
        return self._answer(run)

    def _node_run(self, memory: Memory) -> Run:
        return self._nested_run(cast(Scope, current_scope()), {}, memory, takes_state=True)

    def _answer(self, run: Run) -> tuple[Any, Pairs]:
        rest = _rest_of(run)
        raise_to_caller(run, rest)
        return self._program.output(rest.checkpoint.values, plain=True), rest.checkpoint.reported

    def _own_input(self, state: Any) -> Any:
        """Return the input that a caller's state means here: the fields that both have."""
        schema = self.graph.input_schema
        return common_fields(state, frozenset(schema.fields) if schema.closed else None)

    # -- streams and results

    def _from_inside(self, config: Any) -> Any:
        """The config of a thread that goes on from a checkpoint inside a subgraph, which is made its head there."""
        settings = read_settings(joined_configs(self._bound, config))
        if settings.namespace is None or settings.checkpoint_id is None:
            return config
        run = self._thread_run(config, {})
        head = perform_all(run, load_branch_head(run))
        if head is None or head.id != settings.checkpoint_id:
            self.fork(config)
        places = ("namespace", "checkpoint_id", "checkpoint_ns")
        whole = {name: value for name, value in config.items() if name not in places}
        if isinstance(configurable := whole.get("configurable"), Mapping):
            named = cast(Mapping[str, Any], configurable)
            whole["configurable"] = {name: value for name, value in named.items() if name not in places}
        return whole

    def _streamed(
        self,
        given: Any,
        config: Any,
        options: Mapping[str, Any],
        stream_mode: Any,
        subgraphs: bool,
        version: str,
    ) -> tuple[Run, StreamView]:
        """A run whose events become the parts that a reader asked for."""
        checked_choice("version", version, ("v1", "v2"))
        view = StreamView(
            self._program,
            checked_modes(stream_mode),
            several=not isinstance(stream_mode, str),
            subgraphs=subgraphs,
            version=cast(Any, version),
            output_keys=options.get("output_keys"),
        )
        watch = EventEmitter([*self._listeners, *view.listeners()])
        watch.buffer = view.buffer
        run = view.run = self._run(config, options, given, watch)
        return run, view

    def _result(self, run: Run, version: str = "v1", output_keys: Names = None) -> Any:
        """Return the result of a run that is idle, as the caller gets it."""
        rest = _rest_of(run)
        raise_to_caller(run, rest)
        values = rest.checkpoint.values
        if output_keys is None and version == "v1":
            value = self._program.output(values)
        else:
            value = shown_values(self._program, values, keys=output_keys, typed=version == "v2")
        if version == "v2":
            return GraphOutput(value, rest.interrupts)
        if rest.interrupts:
            shown = {} if value is None else {"__root__": value}
            return {**(cast(dict[str, Any], value) if isinstance(value, dict) else shown), INTERRUPT: rest.interrupts}
        return value


def _naming(options: Mapping[str, Any]) -> Any:
    """Of the keywords of a call, those that name a checkpoint."""
    return {name: options[name] for name in ("thread_id", "checkpoint_id", "branch") if name in options}


def _rest_of(run: Run) -> RunOutcome:
    if run.rest is None:
        raise InternalError("A driver ended before its run came to rest. Please report this.")
    return run.rest


def _has_begun(run: Run) -> bool:
    """Return whether a run got as far as taking its thread: otherwise an answer came before it, and it did nothing."""
    return run.claim is None or run.claim.is_made


def _drive(run: Run, given: Any) -> None:
    """Take a run to rest on this thread."""
    if run.owner is None and not run.nested:
        _exhaust(drive_sync(run, run_until_idle(run, given)))
    else:
        _exhaust(iter_parts(run, given))


async def _drive_async(run: Run, given: Any) -> None:
    """Take a run to rest on the running event loop."""
    drive, drive_in_turn = _async_driver or _load_async_driver()
    if run.owner is None and not run.nested:
        await drive(run, run_until_idle(run, given))
    else:
        await drive_in_turn(run, given)


_async_driver: tuple[Any, Any] | None = None


def _load_async_driver() -> tuple[Any, Any]:
    """The async driver; it loads asyncio, which a program of plain calls never needs."""
    global _async_driver
    from statewright.runtime.drivers.event_loop import drive_async, drive_in_turn

    _async_driver = (drive_async, drive_in_turn)
    return _async_driver


def _exhaust(parts: Iterator[Any]) -> None:
    for _ in parts:
        pass
