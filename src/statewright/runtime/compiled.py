"""A graph that is ready to run: the public face of the runtime.

Every method builds a run and hands its core to a driver; the methods with an `a` in front use the other driver.
Compiled graphs are never changed by running, and may be shared between threads and event loops.
"""

from __future__ import annotations

import itertools
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Generator, Iterator, Mapping, Sequence
from contextlib import suppress
from copy import copy
from datetime import datetime
from typing import TYPE_CHECKING, Any, ClassVar, Final, Literal, Self, TypeVar, Unpack, cast, overload
from weakref import finalize

from statewright.cache import Cache
from statewright.checkpoint import (
    BranchKey,
    Checkpointer,
    InMemorySaver,
    LeaseRequest,
    Pruned,
    PrunePolicy,
    ThreadEntry,
    checked_lease,
    owner_name,
)
from statewright.clock import Clock, Duration, SystemClock, as_seconds
from statewright.errors import (
    Fenced,
    InternalError,
    InvalidConfig,
    InvalidResume,
    InvalidUpdateError,
    RunCancelled,
    suggestion,
)
from statewright.events import Event
from statewright.futures import resolve
from statewright.graph import (
    Budget,
    Command,
    ContextT,
    Graph,
    GraphParameters,
    InputT,
    Memory,
    OutputT,
    ResultT,
    RunStarter,
    StateT,
)
from statewright.ids import checked_name, draw_run_id
from statewright.runtime.batch import config_at, recorded, run_beside, run_beside_async, without_signals
from statewright.runtime.concurrency.control import LinkedControl, RunControl
from statewright.runtime.config import (
    DURABILITIES,
    ON_BUSY,
    ON_UNFINISHED,
    ChangedQuestions,
    OnBusy,
    Settings,
    checked_choice,
    checked_grace,
    joined_configs,
    read_settings,
    thread_name,
)
from statewright.runtime.core.effects import Effect, RunOutcome
from statewright.runtime.core.events import EventEmitter, Printed, instrument_listeners
from statewright.runtime.core.limits import Slots
from statewright.runtime.core.program import Program, Validate
from statewright.runtime.core.run import SIBLING_GRACE, Run
from statewright.runtime.core.saver_calls import perform_all
from statewright.runtime.core.subgraph import (
    Pairs,
    SubgraphCall,
    call_line,
    former_namespaces,
    shared,
    take_namespace,
)
from statewright.runtime.drivers.sync import drive_sync, parts_of
from statewright.runtime.instrument import Instrument
from statewright.runtime.lifecycle.claim import Claim
from statewright.runtime.lifecycle.snapshot import (
    StateSnapshot,
    empty_snapshot,
    graph_at,
    node_path,
    renew_questions_around,
    snapshot_of,
    subgraphs_of,
    with_subgraphs,
)
from statewright.runtime.lifecycle.start import TIMED_OUT
from statewright.runtime.lifecycle.thread_lease import Holding, note_closing
from statewright.runtime.lifecycle.thread_state import (
    Update,
    check_updates,
    diff,
    forked,
    load_branch_head,
    load_saved,
    rolled_back,
    saved_history,
    updated,
)
from statewright.runtime.lifecycle.turn import run_until_idle, take_turn
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
from statewright.runtime.tasks.retries import cached_name
from statewright.runtime.tasks.scope import Scope, current_scope
from statewright.state import UnknownKeys, check_value, context_json_schema, json_schema, known_keys
from statewright.store import Store

if TYPE_CHECKING:
    from statewright.graph.draw import Drawing

HISTORY_PAGE: Final = 100
"""How many checkpoints are read at once for those who walk the history of a thread."""
T = TypeVar("T")


class CompiledGraph(GraphParameters[StateT, ContextT, InputT, OutputT, ResultT]):
    """A graph that is ready to run. Made by `StateGraph.compile`. For its parameters see `graph/generics.py`."""

    program_class: ClassVar[type[Program]] = Program

    def __init__(
        self,
        graph: Graph,
        *,
        checkpointer: Checkpointer | None = None,
        cache: Cache | None = None,
        store: Store | None = None,
        interrupt_before: Names = None,
        interrupt_after: Names = None,
        debug: bool = False,
        unknown_keys: UnknownKeys = "warn",
        validate: Validate = "input",
        budget: Budget | None = None,
        keep_calls: bool = False,
        changed_questions: ChangedQuestions = "warn",
        sibling_grace: Duration | None = SIBLING_GRACE,
        instruments: Sequence[Instrument] = (),
        clock: Clock | None = None,
        lease: Duration | None = None,
    ) -> None:
        self.graph = graph
        self._lease = checked_lease(lease)
        self._sibling_grace = None if sibling_grace is None else as_seconds(sibling_grace)
        self._waits_only_to_save = sibling_grace is SIBLING_GRACE  # nobody has asked for it
        self._keep_calls = keep_calls
        self._refuses_changed = changed_questions == "error"
        if debug and isinstance(checkpointer, InMemorySaver):
            checkpointer = checkpointer.checked()
        self.checkpointer = checkpointer
        self.cache = cache
        self.store = store
        self._clock = clock or SystemClock()
        self._budget = budget
        self._program = self.program_class(graph, unknown_keys=unknown_keys, validate=validate, debug=debug)
        if checkpointer is not None:
            checkpointer.allow(self._program.stored_types)
        self._breaks = (_names(interrupt_before), _names(interrupt_after))
        self._listeners = tuple(instrument_listeners(instruments))
        self._bound: Mapping[str, Any] | None = None
        self._starter: RunStarter | None = None
        self._allowed_by: Checkpointer | None = checkpointer
        """The saver that was told last which types the state holds."""

    @property
    def program(self) -> Program:
        """The graph with every question answered that can be answered before it runs."""
        return self._program

    @property
    def name(self) -> str:
        return self.graph.name

    def __repr__(self) -> str:
        return f"CompiledGraph({self.name!r}, {len(self.graph.nodes)} nodes)"

    def with_config(self, config: Config = None, **settings: Any) -> Self:
        """The same graph with settings that hold where a call names no other: a config, or its keys as keywords.

        Raises InvalidConfig for what is unknown or wrong.
        """
        bound = joined_configs(self._bound, joined_configs(config, settings))
        read_settings(bound)
        same = copy(self)
        same._bound = bound
        return same

    def with_services(
        self,
        *,
        checkpointer: Checkpointer | None = None,
        store: Store | None = None,
        cache: Cache | None = None,
        clock: Clock | None = None,
        instruments: Sequence[Instrument] = (),
        starter: RunStarter | None = None,
    ) -> Self:
        """The same graph with another saver, store, cache or clock, and more instruments; what is None stays.

        `starter` is what starts other runs for its nodes.
        """
        same = copy(self)
        same.checkpointer = checkpointer or self.checkpointer
        same.store, same.cache, same._clock = store or self.store, cache or self.cache, clock or self._clock
        if checkpointer is not None:
            checkpointer.allow(self._program.stored_types)
            same._allowed_by = checkpointer
        same._listeners = (*self._listeners, *instrument_listeners(instruments))
        same._starter = starter or self._starter
        return same

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
            config = await _in_thread(self._from_inside, config)
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
        yield from parts_of(run, input)
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
        from statewright.runtime.drivers.event_loop import StreamReader  # loads asyncio

        if input is None and config is not None:
            config = await _in_thread(self._from_inside, config)
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
        return StepIterator(run, parts_of(run, input), halt)

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
        while due := await _in_thread(self._due, config, options, now):
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
        answers = await _in_thread(self._waiting, name, payload, config, options)
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

    # -- threads

    def get_state(
        self, config: Config = None, *, subgraphs: bool = False, **options: Unpack[CallOptions[ContextT]]
    ) -> StateSnapshot[ResultT]:
        """The thread at its head, or at the checkpoint that the config names.

        With `subgraphs` the tasks of subgraphs that have begun hold the state of those in `state`, at any depth. A
        config with a `namespace`, like those in there, is the state of a subgraph.
        """
        run = self._thread_run(config, options)
        saved = perform_all(run, load_saved(run))
        if saved is None:
            return empty_snapshot(run.program, run.node_config())
        snapshot = snapshot_of(run.program, saved)
        return with_subgraphs(run, snapshot) if subgraphs else snapshot

    def get_state_history(
        self,
        config: Config = None,
        *,
        filter: Mapping[str, Any] | None = None,  # noqa: A002  # the field's word
        before: Any = None,
        limit: int | None = None,
        **options: Unpack[CallOptions[ContextT]],
    ) -> Iterator[StateSnapshot[ResultT]]:
        """The checkpoints of the thread's branch and their ancestors, the newest first.

        A config that names a checkpoint begins with that one; `before`, a config too, with the one before it.
        `filter` keeps those whose metadata holds its entries.
        """
        run = self._thread_run(config, options)
        start = read_settings(before).checkpoint_id if before is not None else run.settings.checkpoint_id
        wanted = (filter or {}).items()
        page = limit if limit is not None and not wanted else HISTORY_PAGE
        saved = saved_history(run, start, page, includes_it=before is None)
        found = (snapshot_of(run.program, one) for one in saved)
        kept = (one for one in found if all(one.metadata.get(key) == value for key, value in wanted))
        return itertools.islice(kept, limit)

    def update_state(
        self,
        config: Config,
        values: Any,
        as_node: str | None = None,
        *,
        cancel_pending: bool = False,
        **options: Unpack[CallOptions[ContextT]],
    ) -> dict[str, Any]:
        """Change the state as if a node had answered `values`; the config of the new checkpoint.

        What follows the node is due then. Other tasks that were due stay so, unless `cancel_pending`. Without
        `as_node` it is the node that ran last, if that is clear. With END nothing is due any more. Raises
        InvalidUpdateError if several tasks of the node are due: it would be the answer of one.
        """
        return self.bulk_update_state(config, [(values, as_node)], cancel_pending=cancel_pending, **options)

    def bulk_update_state(
        self,
        config: Config,
        updates: Sequence[Update],
        *,
        cancel_pending: bool = False,
        **options: Unpack[CallOptions[ContextT]],
    ) -> dict[str, Any]:
        """Several updates `(values, as_node)` as one superstep, in their order."""
        if not updates:
            raise InvalidUpdateError("There are no updates. Give at least one pair of values and a node.")
        run = self._thread_run(config, options)
        before = perform_all(run, load_branch_head(run)) if run.namespace else None
        line, head = _change_thread(
            run,
            lambda: updated(run, updates, cancel_pending=cancel_pending),
            check=lambda: check_updates(run, updates),
        )
        if line.namespace:
            renew_questions_around(run, before)
        return checkpoint_config(line, head)

    def get_events(
        self,
        config: Config = None,
        *,
        after: int = 0,
        limit: int | None = None,
        **options: Unpack[CallOptions[ContextT]],
    ) -> Sequence[Event]:
        """The log of the thread's runs, in order; of the one run that is named by `run_id`, after the entry `after`."""
        run = self._thread_run(config, options)
        thread_id, run_id = cast(BranchKey, run.line).thread_id, run.settings.run_id
        return resolve(cast(Checkpointer, run.saver).events(thread_id, run_id=run_id, after=after, limit=limit))

    def fork(
        self,
        config: Config,
        *,
        branch: str | None = None,
        thread_id: str | None = None,
        on_busy: OnBusy | None = None,
    ) -> dict[str, Any]:
        """Make a checkpoint the head of a new branch, or of its own branch again; the config of that head.

        Tasks that were due there are due again with their ids, what had landed is kept, answers are not.
        """
        run = self._thread_run(config, {"thread_id": thread_id, "on_busy": on_busy})
        line, head = _change_thread(run, lambda: forked(run, branch), may_reload=True)
        return checkpoint_config(line, head)

    def roll_back(self, config: Config = None, **options: Unpack[CallOptions[ContextT]]) -> None:
        """Put the thread back to before its last input, as a new head. History keeps what was undone.

        With a `checkpoint_id`, from that head only: raises CheckpointConflict if the thread has another one by now.
        """
        run = self._thread_run(config, options)
        _change_thread(run, lambda: rolled_back(run, expected=run.settings.checkpoint_id, releases=True))

    def release(self, thread_id: str) -> None:
        """Take a thread from the run that holds it, whether or not that run still exists; nothing if it is free.

        For a holder that is gone for good on another machine, or hangs: others need not wait for its lease. If it
        still runs, its next write is refused with `Fenced`.
        """
        saver = self._needed_saver()
        thread_id = checked_name("thread_id", str(thread_id))
        lease = resolve(saver.lease(thread_id))
        if lease is not None:
            with suppress(Fenced):  # it has let go by itself, or another run has the thread by now
                resolve(saver.renew(thread_id, LeaseRequest(lease.owner, self._clock.now(), None)))

    async def arelease(self, thread_id: str) -> None:
        """`release`, without blocking the running event loop."""
        await _in_thread(self.release, thread_id)

    def diff(
        self, before: Config, after: Config, **options: Unpack[CallOptions[ContextT]]
    ) -> dict[str, tuple[Any, Any]]:
        """For each field that differs between two checkpoints, which two configs name, its value in both."""
        first, second = (cast(Any, self.get_state(config, **options).values) for config in (before, after))
        return diff(first, second)

    def threads(self, *, prefix: str = "", limit: int | None = None) -> Sequence[ThreadEntry]:
        """The threads that the checkpointer keeps, those of other graphs included; the last changed first."""
        return resolve(self._needed_saver().threads(prefix=prefix, limit=limit))

    def copy_thread(self, thread_id: str, to: str) -> None:
        """Give a new thread all that a thread has. Raises CheckpointConflict if there is a thread `to`."""
        resolve(self._needed_saver().copy_thread(thread_name(thread_id), checked_name("to", thread_name(to))))

    def delete_thread(self, thread_id: str) -> None:
        """Forget a thread, with its history and its logs."""
        resolve(self._needed_saver().delete_thread(thread_name(thread_id)))

    def prune(self, policy: PrunePolicy, *, thread_id: str | None = None, dry_run: bool = False) -> Pruned:
        """Forget old checkpoints of a thread, or of all threads; what that was, or would be with `dry_run`."""
        return resolve(self._needed_saver().prune(policy, thread_id=thread_name(thread_id), dry_run=dry_run))

    def _needed_saver(self) -> Checkpointer:
        if self.checkpointer is None:
            raise InvalidConfig("Threads need a checkpointer: compile(checkpointer=...).")
        return self.checkpointer

    async def aget_state(
        self, config: Config = None, *, subgraphs: bool = False, **options: Unpack[CallOptions[ContextT]]
    ) -> StateSnapshot[ResultT]:
        """`get_state`, without blocking the running event loop."""
        return await _in_thread(self.get_state, config, subgraphs=subgraphs, **options)

    async def aget_state_history(self, config: Config = None, **options: Any) -> AsyncIterator[StateSnapshot[ResultT]]:
        """`get_state_history`, without blocking the running event loop."""
        for snapshot in await _in_thread(lambda: list(self.get_state_history(config, **options))):
            yield snapshot

    async def aupdate_state(
        self,
        config: Config,
        values: Any,
        as_node: str | None = None,
        *,
        cancel_pending: bool = False,
        **options: Unpack[CallOptions[ContextT]],
    ) -> dict[str, Any]:
        """`update_state`, without blocking the running event loop. Cancelled while it waits its turn, it changes
        nothing."""
        # A thread cannot be cancelled: a control of this call alone tells it to leave the line.
        control = LinkedControl(options.get("control") or RunControl())
        others: dict[str, Any] = {**options, "cancel_pending": cancel_pending, "control": control}
        with control.linked():
            try:
                return await _in_thread(self.update_state, config, values, as_node, **others)
            except BaseException:
                control.request_cancel("the call that waited for it was cancelled")
                raise

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
        await _in_thread(self.clear_cache, nodes)

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
        """Whether its result is the state that it was given, with changes; else all of it is an answer of its own."""
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
        run = self._nested_run(cast(Scope, current_scope()), {}, memory)
        run.given_state = True
        return run

    def _answer(self, run: Run) -> tuple[Any, Pairs]:
        rest = _rest_of(run)
        raise_to_caller(run, rest)
        return self._program.output(rest.checkpoint.values, plain=True), rest.checkpoint.reported

    def _own_input(self, state: Any) -> Any:
        """What a caller's state means here: the fields that both have."""
        schema = self.graph.input_schema
        return shared(state, frozenset(schema.fields) if schema.closed else None)

    # -- making runs

    def _run(
        self, config: Any, options: Mapping[str, Any], given: Any = None, watch: EventEmitter | None = None
    ) -> Run:
        """A run of an input with the settings of a call. Inside a node of another graph it belongs to that run."""
        if self._bound is not None:
            config = joined_configs(self._bound, config)
        scope = current_scope()
        if scope is not None and scope.task is not None and not _names_other(scope, config, options):
            return self._nested_run(scope, options, options.get("memory") or "call", config, given, watch)
        settings = self._settings(config, options)
        if settings.namespace is not None:
            raise InvalidConfig(
                f"The config names the subgraph {settings.namespace!r}, which goes on with its thread: leave it out."
            )
        line = self._line(settings)
        run_id, owner = _identity(settings) if line is not None else (None, None)
        if watch is None and self._listeners:
            watch = EventEmitter(self._listeners)
        if options:
            self._known_fields(options.get("output_keys"))
            watch = self._printed(options.get("print_mode"), watch)
        return Run(
            self._program,
            settings,
            clock=self._clock,
            saver=self.checkpointer if line is not None else None,
            line=line,
            store=self.store,
            cache=self.cache,
            watch=watch,
            slots=(Slots(settings.max_concurrency),) if settings.max_concurrency is not None else (),
            owner=owner,
            claim=self._claim() if line is not None else None,
            run_id=run_id,
            keeps_calls=self._keep_calls,
            refuses_changed=self._refuses_changed,
            starter=self._starter,
            sibling_grace=self._grace(options, line),
            **self._call_options(options),
        )

    def _grace(self, options: Mapping[str, Any], line: BranchKey | None) -> float | None:
        """For how many seconds plain functions are waited for when a task beside them fails."""
        if "sibling_grace" in options:
            return checked_grace(options["sibling_grace"])
        return 0.0 if line is None and self._waits_only_to_save else self._sibling_grace

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

    def _nested_runs(self, config: Any, inputs: Sequence[Any], options: Mapping[str, Any]) -> list[Run]:
        """The runs of a batch inside a node, made in order: a call is known by its ordinal. Empty outside a node."""
        scope = current_scope()
        if scope is None or scope.task is None:
            return []
        count = len(inputs)
        return [self._run(config_at(config, place, count), options, given) for place, given in enumerate(inputs)]

    def _nested_run(
        self,
        scope: Scope,
        options: Mapping[str, Any],
        memory: Memory,
        config: Any = None,
        given: Any = None,
        reading: EventEmitter | None = None,
    ) -> Run:
        """A run that is part of the task of another one: it shares its saver, answers, watch and context.

        `given` is the input, part of the key that identifies a retry of a failed call. `reading` is the watch of a
        stream reader; it includes the instruments of this graph.
        """
        caller, task = scope.run, scope.task
        settings = self._settings(config, options)
        settings.thread_id = caller.settings.thread_id
        settings.branch = caller.settings.branch
        own_slots = (Slots(settings.max_concurrency),) if settings.max_concurrency is not None else ()
        settings.max_concurrency = settings.max_concurrency or caller.max_concurrency
        scope.sign_of_life()
        if caller.saver is not None and caller.saver is not self._allowed_by:
            caller.saver.allow(self._program.stored_types)
            self._allowed_by = caller.saver
        call = SubgraphCall(scope, self._program, memory, graph_input=given, config=config, options=options)
        namespace = call.namespace
        line = call_line(scope, namespace, memory, keep=caller.keeps_calls)
        parent = scope.copy()
        if memory == "thread":
            take_namespace(parent, namespace)
        watch = caller.watch
        own_listeners = self._listeners if reading is None else reading.listeners()
        if own_listeners:
            watch = (watch or EventEmitter()).joined(own_listeners)
        inherited: dict[str, Any] = {
            "context": caller.context,
            "control": caller.control,
            "budget": caller.budget,
            "spent": caller.spending if caller.budget is not None else caller.spent,
            "overlaps": caller.overlaps,
            "saves_at_rest": caller.saves_at_rest,
        }
        own = {name: value for name, value in self._call_options(options).items() if value and name != "overlaps"}
        inherited.update(own)
        run = Run(
            self._program,
            settings,
            clock=caller.clock,
            saver=caller.saver if line is not None else None,
            line=line,
            store=self.store or caller.store,
            cache=self.cache or caller.cache,
            watch=watch,
            slots=(*caller.slots, *own_slots),
            owner=caller.owner if line is not None else None,
            claim=caller.claim if line is not None else None,
            answers=caller.answers,
            run_id=caller.run_id,
            namespace=namespace,
            nested=True,
            caller=parent if line is not None else None,
            parent=parent,
            sibling_grace=checked_grace(options["sibling_grace"])
            if "sibling_grace" in options
            else caller.sibling_grace,
            live=caller.live,
            keeps_calls=caller.keeps_calls or self._keep_calls,
            refuses_changed=caller.refuses_changed or self._refuses_changed,
            starter=caller.starter,
            metadata={"parent_task": task.id if task is not None else ""},
            **inherited,
        )
        if task is not None and caller.questions.by_id:
            run.inherit_questions(caller, task)
        if run.shares_journal:
            run.journal = caller.journal
        run.call = call
        if memory == "thread" and line is not None:
            run.remembers = True
            run.metadata = {**run.metadata, "remembers": True}
        if reading is not None:
            run.reader = reading.buffer
        if caller.program.former_names and line is not None:
            run.former_namespaces = former_namespaces(scope, namespace)
        return run

    def _settings(self, config: Any, options: Mapping[str, Any]) -> Settings:
        if not options:
            return read_settings(config) if config is not None else Settings()
        unknown = next((name for name in options if name not in _OPTIONS), None)
        if unknown is not None:
            raise InvalidConfig(f"Unknown keyword {unknown!r}. " + suggestion(unknown, _OPTIONS, noun="Keywords"))
        return read_settings(config, **{name: options.get(name) for name in _SETTINGS})

    def _call_options(self, options: Mapping[str, Any]) -> dict[str, Any]:
        """What a run takes from the keywords of a call besides its settings."""
        before, after = self._breaks
        if not options:
            if not (before or after or self._budget):
                return _NO_OPTIONS
            return {**_NO_OPTIONS, "breaks_before": before, "breaks_after": after, "budget": self._budget}
        checked_choice("durability", options.get("durability"), DURABILITIES)
        checked_choice("on_unfinished", options.get("on_unfinished"), ON_UNFINISHED)
        checked_choice("on_busy", options.get("on_busy"), ON_BUSY)
        return {
            "context": self._context(options.get("context")),
            "control": options.get("control"),
            "budget": self._checked_budget(options.get("budget") or self._budget),
            "on_unfinished": options.get("on_unfinished"),
            "on_busy": options.get("on_busy") or "reject",
            "saves_at_rest": options.get("durability") == "exit",
            "overlaps": options.get("durability") in (None, "async"),
            "breaks_before": before | self._known(options.get("interrupt_before"), "interrupt_before"),
            "breaks_after": after | self._known(options.get("interrupt_after"), "interrupt_after"),
        }

    def _checked_budget(self, budget: Budget | None) -> Budget | None:
        node = budget.on_budget if budget is not None else None
        if node is not None and node not in self.graph.nodes:
            raise InvalidConfig(
                f"The budget names {node!r}, which is no node. " + suggestion(node, self.graph.nodes, noun="Nodes")
            )
        return budget

    def _context(self, context: Any) -> Any:
        """Return the context as an instance of its schema, if it was given as a mapping.

        Raises InvalidConfig for a key that the schema does not have.
        """
        schema = self.graph.context_schema
        if context is None or schema is None or not isinstance(context, Mapping):
            return context
        known = known_keys(schema)
        unknown = next(
            (key for key in cast(Mapping[Any, Any], context) if known is not None and key not in known), None
        )
        if unknown is not None:
            raise InvalidConfig(
                f"The context holds {unknown!r}, which is no field of {schema.__name__}. "
                + suggestion(str(unknown), cast(frozenset[str], known), noun="Fields")
            )
        return check_value("context", schema, context)

    def _known(self, names: Names, option: str) -> frozenset[str]:
        checked = _names(names)
        unknown = next((name for name in checked if name != "*" and name not in self.graph.nodes), None)
        if unknown is not None:
            raise InvalidConfig(
                f"{option} names {unknown!r}, which is no node. " + suggestion(unknown, self.graph.nodes, noun="Nodes")
            )
        return checked

    def _line(self, settings: Settings) -> BranchKey | None:
        """The line to save on; None without a checkpointer."""
        if self.checkpointer is None:
            if settings.thread_id is not None and settings.checkpoint_id is not None:
                raise InvalidConfig("A checkpoint_id needs a checkpointer: compile(checkpointer=...).")
            return None
        if settings.thread_id is None:
            raise InvalidConfig("The graph has a checkpointer, so the call needs a thread_id, e.g. thread_id='1'.")
        return BranchKey(settings.thread_id, "", settings.branch)

    def _thread_run(self, config: Any, options: Mapping[str, Any]) -> Run:
        """A run that only looks at a thread or changes it from outside."""
        if self.checkpointer is None:
            raise InvalidConfig("Threads need a checkpointer: compile(checkpointer=...).")
        if self._bound is not None:
            config = joined_configs(self._bound, config)
        settings = self._settings(config, options)
        line = cast(BranchKey, self._line(settings))
        namespace = settings.namespace or ""
        inside = self if not namespace else cast(CompiledGraph, graph_at(self.graph, namespace))
        run_id, owner = _identity(settings)
        return Run(
            inside._program,
            settings,
            clock=self._clock,
            saver=self.checkpointer,
            line=line._replace(namespace=namespace),
            owner=owner,
            claim=self._claim(),
            control=options.get("control"),
            run_id=run_id,
            on_busy=cast(Any, checked_choice("on_busy", options.get("on_busy"), ON_BUSY) or "reject"),
            namespace=namespace,
            keeps_calls=self._keep_calls,
        )

    def _claim(self) -> Claim:
        """Return a claim on a thread that is not made yet."""
        lease = self._lease if self._lease is not None else getattr(self.checkpointer, "lease_duration", None)
        return Claim(lease)

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

    def _printed(self, modes: Any, watch: EventEmitter | None) -> EventEmitter | None:
        """The watch, printing the parts of some stream modes too."""
        if modes is None:
            return watch
        view = StreamView(
            self._program, checked_modes(modes), several=True, subgraphs=False, version="v1", buffer=Printed()
        )
        return (watch or EventEmitter()).joined(view.listeners())

    def _known_fields(self, keys: Names) -> None:
        """Raises InvalidConfig for an output key that is no field of the state."""
        fields = self._program.channels
        for key in () if keys is None or not self.graph.schema.closed else _names(keys):
            if key not in fields:
                raise InvalidConfig(
                    f"output_keys names {key!r}, which is no field. " + suggestion(key, fields, noun="Fields")
                )

    def _result(self, run: Run, version: str = "v1", output_keys: Names = None) -> Any:
        """What the caller gets of a run at rest."""
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


_NO_OPTIONS: Final[dict[str, Any]] = {"overlaps": True}
_OPTIONS = tuple(CallOptions.__annotations__)
_SETTINGS = ("namespace", "thread_id", "checkpoint_id", "branch", "recursion_limit", "max_concurrency", "run_id")


def checkpoint_config(line: BranchKey, checkpoint_id: str) -> dict[str, Any]:
    """The config that names a checkpoint."""
    named = {"thread_id": line.thread_id, "checkpoint_id": checkpoint_id, "branch": line.branch}
    if line.namespace:
        named["namespace"] = line.namespace
    return {"configurable": named}


def _naming(options: Mapping[str, Any]) -> Any:
    """Of the keywords of a call, those that name a checkpoint."""
    return {name: options[name] for name in ("thread_id", "checkpoint_id", "branch") if name in options}


def _identity(settings: Settings) -> tuple[str, str]:
    """The id of a run, and the name under which it holds its thread: no other run has that, even of the same id."""
    drawn = draw_run_id()
    run_id = drawn if settings.run_id is None else settings.run_id
    return run_id, owner_name(run_id, drawn)


def _rest_of(run: Run) -> RunOutcome:
    if run.rest is None:
        raise InternalError("A driver ended before its run came to rest. Please report this.")
    return run.rest


def _has_begun(run: Run) -> bool:
    """Return whether a run got as far as taking its thread: otherwise an answer came before it, and it did nothing."""
    return run.claim is None or run.claim.is_made


def _change_thread(
    run: Run,
    change: Callable[[], Generator[Effect, Any, T]],
    *,
    may_reload: bool | None = None,
    check: Callable[[], object] | None = None,
) -> T:
    """Perform a change of a thread from outside a run, when its turn comes (`on_busy`); what the change returns."""
    if may_reload is None:
        may_reload = run.settings.checkpoint_id is None
    with Holding(run):
        result = perform_all(run, take_turn(run, change, may_reload=may_reload, check=check))
    if type(result) is RunOutcome:  # it was stopped by its control, while it waited
        raise result.error or RunCancelled("it was stopped while it waited for the thread")
    return cast(T, result)


def _drive(run: Run, given: Any) -> None:
    """Take a run to rest on this thread."""
    if run.owner is None and not run.nested:
        _exhaust(drive_sync(run, run_until_idle(run, given)))
    else:
        _exhaust(parts_of(run, given))


async def _drive_async(run: Run, given: Any) -> None:
    """Take a run to rest on the running event loop."""
    drive, drive_held = _async_driver or _load_async_driver()
    if run.owner is None and not run.nested:
        await drive(run, run_until_idle(run, given))
    else:
        await drive_held(run, given)


_async_driver: tuple[Any, Any] | None = None


def _load_async_driver() -> tuple[Any, Any]:
    """The async driver; it loads asyncio, which a program of plain calls never needs."""
    global _async_driver
    from statewright.runtime.drivers.event_loop import drive_async, drive_held

    _async_driver = (drive_async, drive_held)
    return _async_driver


def _exhaust(parts: Iterator[Any]) -> None:
    for _ in parts:
        pass


def _names(names: Names) -> frozenset[str]:
    return frozenset((names,) if isinstance(names, str) else names or ())


def _names_other(scope: Scope, config: Any, options: Mapping[str, Any]) -> bool:
    """Whether a call inside a node names another thread than that of the node: users pass their config on."""
    named = options.get("thread_id")
    if named is None and isinstance(config, Mapping):
        named = read_settings(config).thread_id
    return named is not None and str(named) != scope.run.settings.thread_id


async def _in_thread(function: Callable[..., T], *args: Any, **kwargs: Any) -> T:
    from statewright.runtime.concurrency.worker_threads import call_in_thread  # loads asyncio

    return await call_in_thread(function, *args, **kwargs)
