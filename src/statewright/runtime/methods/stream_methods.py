"""Streams of compiled graphs: `stream`, `astream` and `iter`, and the result of a run."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Generator, Mapping, Sequence
from typing import Any, Literal, Unpack, cast, overload
from weakref import finalize

from statewright.graph import Command, ContextT, InputT, OutputT, ResultT, StateT
from statewright.runtime.config import checked_choice, merge_configs, read_settings
from statewright.runtime.drivers.saver_calls import perform_all
from statewright.runtime.drivers.sync import iter_parts
from statewright.runtime.invocation.emitter import EventEmitter
from statewright.runtime.invocation.run import Run
from statewright.runtime.lifecycle.thread_lease import mark_closing
from statewright.runtime.lifecycle.thread_state import peek_head
from statewright.runtime.methods.driving import outcome_of
from statewright.runtime.methods.thread_methods import ThreadMethods, run_in_thread
from statewright.runtime.options import BaseCallOptions, CallOptions, Config, GraphOutput, Names, StreamPart
from statewright.runtime.streaming.iterate import Halt, StepIterator, StepRecorder
from statewright.runtime.streaming.modes import (
    INTERRUPT,
    StreamFormatter,
    StreamMode,
    StreamVersion,
    checked_modes,
    shown_values,
)
from statewright.runtime.tasks.interrupt import raise_to_caller


class StreamMethods(ThreadMethods[StateT, ContextT, InputT, OutputT, ResultT]):
    """Runs a graph while the caller reads parts of the run."""

    @overload
    def stream(
        self,
        input: InputT | StateT | Command[Any] | None,
        config: Config = None,
        *,
        stream_mode: Literal["values"],
        subgraphs: Literal[False] = False,
        version: Literal["v1"] = "v1",
        output_keys: str,
        **options: Unpack[BaseCallOptions[ContextT]],
    ) -> Generator[Any]: ...
    @overload
    def stream(
        self,
        input: InputT | StateT | Command[Any] | None,
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
        input: InputT | StateT | Command[Any] | None,
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
        input: InputT | StateT | Command[Any] | None,
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
        input: InputT | StateT | Command[Any] | None,
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
        input: InputT | StateT | Command[Any] | None,
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
        input: InputT | StateT | Command[Any] | None,
        config: Config = None,
        *,
        stream_mode: StreamMode | Sequence[StreamMode] = "updates",
        subgraphs: bool = False,
        version: StreamVersion = "v1",
        **options: Unpack[CallOptions[ContextT]],
    ) -> Generator[Any]: ...
    def stream(
        self,
        input: Any,  # noqa: A002
        config: Any = None,
        *,
        stream_mode: StreamMode | Sequence[StreamMode] = "updates",
        subgraphs: bool = False,
        version: StreamVersion = "v1",
        **options: Unpack[CallOptions[ContextT]],
    ) -> Generator[Any]:
        """Run the graph, and yield the parts of its stream; `runtime/streaming/modes.py` describes the stream modes.

        The run advances only when the next part is requested. Closing the iterator abandons the run.
        """
        if input is None and config is not None:
            config = self._enter_subgraph(config)
        run, formatter = self._stream_run(input, config, options, stream_mode, subgraphs, version)
        yield from iter_parts(run, input)
        self._result(run, version)
        formatter.warn_of_hidden()

    @overload
    def astream(
        self,
        input: InputT | StateT | Command[Any] | None,
        config: Config = None,
        *,
        stream_mode: Literal["values"],
        subgraphs: Literal[False] = False,
        version: Literal["v1"] = "v1",
        output_keys: str,
        **options: Unpack[BaseCallOptions[ContextT]],
    ) -> AsyncGenerator[Any]: ...
    @overload
    def astream(
        self,
        input: InputT | StateT | Command[Any] | None,
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
        input: InputT | StateT | Command[Any] | None,
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
        input: InputT | StateT | Command[Any] | None,
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
        input: InputT | StateT | Command[Any] | None,
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
        input: InputT | StateT | Command[Any] | None,
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
        input: InputT | StateT | Command[Any] | None,
        config: Config = None,
        *,
        stream_mode: StreamMode | Sequence[StreamMode] = "updates",
        subgraphs: bool = False,
        version: StreamVersion = "v1",
        **options: Unpack[CallOptions[ContextT]],
    ) -> AsyncGenerator[Any]: ...
    def astream(
        self,
        input: Any,  # noqa: A002
        config: Any = None,
        *,
        stream_mode: StreamMode | Sequence[StreamMode] = "updates",
        subgraphs: bool = False,
        version: StreamVersion = "v1",
        **options: Unpack[CallOptions[ContextT]],
    ) -> AsyncGenerator[Any]:
        """Do the same as `stream`, on the running event loop.

        While the reader is busy, the run continues until a buffer is full.
        """
        owners: list[str] = []
        parts = self._read_parts(input, config, options, stream_mode, subgraphs, version, owners)
        # If the generator is dropped, the event loop closes it some time later. Until then its run is marked as
        # closing, so that the next run on the thread waits for it instead of being refused.
        finalize(parts, mark_closing, owners).atexit = False
        return parts

    async def _read_parts(
        self,
        input: Any,  # noqa: A002
        config: Any,
        options: Mapping[str, Any],
        stream_mode: StreamMode | Sequence[StreamMode],
        subgraphs: bool,
        version: StreamVersion,
        owners: list[str],
    ) -> AsyncGenerator[Any]:
        """Yield the parts of a stream, on the running event loop. Adds the owner name of the run to `owners`."""
        from statewright.runtime.drivers.stream_reader import StreamReader  # loads asyncio

        if input is None and config is not None:
            config = await run_in_thread(self._enter_subgraph, config)
        run, formatter = self._stream_run(input, config, options, stream_mode, subgraphs, version)
        if run.owner is not None and not run.nested:
            owners.append(run.owner)
        reader = StreamReader(run, input, formatter.buffer)
        try:
            while (parts := await reader.read()) is not None:
                for part in parts:
                    yield part
        finally:
            mark_closing(owners)  # the clean-up may be interrupted, too
            await reader.close()
        self._result(run, version)
        formatter.warn_of_hidden()

    def iter(
        self,
        input: InputT | StateT | Command[Any] | None,  # noqa: A002
        config: Config = None,
        *,
        halt: Halt | None = None,
        **options: Unpack[CallOptions[ContextT]],
    ) -> StepIterator:
        """Iterate over a run superstep by superstep, until it stops, or `halt` returns True for a step."""
        emitter = EventEmitter(self._listeners)
        steps = StepRecorder(emitter)
        run = steps.run = self._run(config, options, input, emitter)
        return StepIterator(run, iter_parts(run, input), halt)

    def _stream_run(
        self,
        graph_input: Any,
        config: Any,
        options: Mapping[str, Any],
        stream_mode: Any,
        subgraphs: bool,
        version: str,
    ) -> tuple[Run, StreamFormatter]:
        """Create a run, and the formatter that converts its events to the parts of a stream."""
        checked_choice("version", version, ("v1", "v2"))
        formatter = StreamFormatter(
            self._program,
            checked_modes(stream_mode),
            shows_mode=not isinstance(stream_mode, str),
            subgraphs=subgraphs,
            version=cast(Any, version),
            output_keys=options.get("output_keys"),
        )
        emitter = EventEmitter([*self._listeners, *formatter.listeners()])
        emitter.buffer = formatter.buffer
        run = formatter.run = self._run(config, options, graph_input, emitter)
        return run, formatter

    def _enter_subgraph(self, config: Any) -> Any:
        """If a config names a checkpoint of a subgraph, make this checkpoint the head of the subgraph.

        Return the config without the keys that name the checkpoint, because the run begins at the root, and reaches the
        subgraph from there. Any other config is returned unchanged.
        """
        settings = read_settings(merge_configs(self._default_config, config))
        if settings.namespace is None or settings.checkpoint_id is None:
            return config
        run = self._thread_run(config, {})
        head = perform_all(run, peek_head(run))
        if head is None or head.id != settings.checkpoint_id:
            self.fork(config)
        removed = ("namespace", "checkpoint_id", "checkpoint_ns")
        new_config = {key: value for key, value in config.items() if key not in removed}
        if isinstance(configurable := new_config.get("configurable"), Mapping):
            items = cast(Mapping[str, Any], configurable).items()
            new_config["configurable"] = {key: value for key, value in items if key not in removed}
        return new_config

    def _result(self, run: Run, version: str = "v1", output_keys: Names = None) -> Any:
        """Return the result of a run that is idle, in the form that `version` and `output_keys` select."""
        outcome = outcome_of(run)
        raise_to_caller(run, outcome)
        values = outcome.checkpoint.values
        if output_keys is None and version == "v1":
            value = self._program.output(values)
        else:
            value = shown_values(self._program, values, keys=output_keys, typed=version == "v2")
        if version == "v2":
            return GraphOutput(value, outcome.interrupts)
        if outcome.interrupts:
            bare = {} if value is None else {"__root__": value}
            return {**(cast(dict[str, Any], value) if isinstance(value, dict) else bare), INTERRUPT: outcome.interrupts}
        return value
