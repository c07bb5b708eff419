"""`invoke` and `batch` of compiled graphs, and their counterparts for event loops."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal, Unpack, overload

from statewright.graph import Command, ContextT, InputT, OutputT, ResultT, StateT
from statewright.runtime.methods.batch import arun_concurrently, config_at, error_of, raise_signals, run_concurrently
from statewright.runtime.methods.driving import adrive_run, drive_run
from statewright.runtime.methods.stream_methods import StreamMethods
from statewright.runtime.methods.thread_methods import run_in_thread
from statewright.runtime.options import BaseCallOptions, CallOptions, Config, GraphOutput
from statewright.runtime.streaming.modes import StreamMode, StreamVersion
from statewright.runtime.tasks.interrupt import ChildCommand, Paused


class InvokeMethods(StreamMethods[StateT, ContextT, InputT, OutputT, ResultT]):
    """Runs a graph, once or for many inputs, and returns the results."""

    @overload
    def invoke(
        self,
        input: InputT | StateT | Command[Any] | None,
        config: Config = None,
        *,
        stream_mode: Literal["values"] = "values",
        version: StreamVersion = "v1",
        output_keys: str,
        **options: Unpack[BaseCallOptions[ContextT]],
    ) -> Any: ...
    @overload
    def invoke(
        self,
        input: InputT | StateT | Command[Any] | None,
        config: Config = None,
        *,
        stream_mode: Literal["values"] = "values",
        version: Literal["v1"] = "v1",
        **options: Unpack[CallOptions[ContextT]],
    ) -> ResultT: ...
    @overload
    def invoke(
        self,
        input: InputT | StateT | Command[Any] | None,
        config: Config = None,
        *,
        stream_mode: Literal["values"] = "values",
        version: Literal["v2"],
        **options: Unpack[CallOptions[ContextT]],
    ) -> GraphOutput[OutputT]: ...
    @overload
    def invoke(
        self,
        input: InputT | StateT | Command[Any] | None,
        config: Config = None,
        *,
        stream_mode: StreamMode,
        version: StreamVersion = "v1",
        **options: Unpack[CallOptions[ContextT]],
    ) -> list[Any]: ...
    def invoke(
        self,
        input: Any,  # noqa: A002
        config: Any = None,
        *,
        stream_mode: StreamMode = "values",
        version: StreamVersion = "v1",
        **options: Unpack[CallOptions[ContextT]],
    ) -> Any:
        """Run the graph until it completes or waits, and return the fields of the output schema.

        If the run waits for answers, its questions are in the result under `"__interrupt__"`. With `version="v2"` the
        result is a `GraphOutput`. With another `stream_mode` the result is a list of all parts of the stream.

        Raises the exception of a node, with a note that names the node. Raises a subclass of `RunError` for invalid
        input, settings or answers, and `CheckpointConflict` if another run has changed the thread.
        """
        if stream_mode != "values":
            return list(self.stream(input, config, stream_mode=stream_mode, version=version, **options))
        if input is None and config is not None:
            config = self._enter_subgraph(config)
        run = self._run(config, options, input)
        drive_run(run, input)
        return self._result(run, version, options.get("output_keys"))

    @overload
    async def ainvoke(
        self,
        input: InputT | StateT | Command[Any] | None,
        config: Config = None,
        *,
        stream_mode: Literal["values"] = "values",
        version: StreamVersion = "v1",
        output_keys: str,
        **options: Unpack[BaseCallOptions[ContextT]],
    ) -> Any: ...
    @overload
    async def ainvoke(
        self,
        input: InputT | StateT | Command[Any] | None,
        config: Config = None,
        *,
        stream_mode: Literal["values"] = "values",
        version: Literal["v1"] = "v1",
        **options: Unpack[CallOptions[ContextT]],
    ) -> ResultT: ...
    @overload
    async def ainvoke(
        self,
        input: InputT | StateT | Command[Any] | None,
        config: Config = None,
        *,
        stream_mode: Literal["values"] = "values",
        version: Literal["v2"],
        **options: Unpack[CallOptions[ContextT]],
    ) -> GraphOutput[OutputT]: ...
    @overload
    async def ainvoke(
        self,
        input: InputT | StateT | Command[Any] | None,
        config: Config = None,
        *,
        stream_mode: StreamMode,
        version: StreamVersion = "v1",
        **options: Unpack[CallOptions[ContextT]],
    ) -> list[Any]: ...
    async def ainvoke(
        self,
        input: Any,  # noqa: A002
        config: Any = None,
        *,
        stream_mode: StreamMode = "values",
        version: StreamVersion = "v1",
        **options: Unpack[CallOptions[ContextT]],
    ) -> Any:
        """Do the same as `invoke`, on the running event loop."""
        if stream_mode != "values":
            parts = self.astream(input, config, stream_mode=stream_mode, version=version, **options)
            return [part async for part in parts]
        if input is None and config is not None:
            config = await run_in_thread(self._enter_subgraph, config)
        run = self._run(config, options, input)
        await adrive_run(run, input)
        return self._result(run, version, options.get("output_keys"))

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
        """Run the graph for many inputs concurrently, on threads, and return the results in the order of the inputs.

        `config` may be a list with one config for each input. With `return_exceptions=True`, an exception takes the
        place of the result of a failed run: a `NodeFailed` if a node has raised it.
        """
        nested = self._nested_runs(config, inputs, options)

        def run_one(index: int) -> Any:
            try:
                run = nested[index] if nested else self._run(config_at(config, index, len(inputs)), options)
                drive_run(run, inputs[index])
                return (error_of(run) if return_exceptions else None) or self._result(run)
            except (Paused, ChildCommand) as signal:
                return signal
            except Exception as error:
                if return_exceptions:
                    return error
                raise

        return raise_signals(run_concurrently(run_one, len(inputs), options.get("max_concurrency")))

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
        """Do the same as `batch`, on the running event loop."""
        nested = self._nested_runs(config, inputs, options)

        async def run_one(index: int) -> Any:
            try:
                run = nested[index] if nested else self._run(config_at(config, index, len(inputs)), options)
                await adrive_run(run, inputs[index])
                return (error_of(run) if return_exceptions else None) or self._result(run)
            except (Paused, ChildCommand) as signal:
                return signal
            except Exception as error:
                if return_exceptions:
                    return error
                raise

        return raise_signals(await arun_concurrently(run_one, len(inputs), options.get("max_concurrency")))
