"""Create the runs of a compiled graph from its services, its options and the settings of a call.

A call outside any node starts a root run. A call inside a node starts a nested run, the run of a subgraph. It belongs
to the calling task: it shares the saver, the answers, the control, the budget and the limits of the calling run, and
saves in a namespace below the task. A call inside a node for another thread starts a root run too.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from copy import copy
from functools import partial
from typing import TYPE_CHECKING, Any, ClassVar, Self, cast

from statewright.cache import Cache
from statewright.checkpoint import BranchKey, Checkpointer, InMemorySaver, as_lease_duration, owner_name
from statewright.clock import Clock, Duration, as_seconds, clock_of
from statewright.errors import InvalidConfig
from statewright.events import EventKind
from statewright.graph import (
    Budget,
    ContextT,
    Graph,
    GraphParameters,
    InputT,
    Memory,
    Node,
    OutputT,
    Parameters,
    ResultT,
    RunStarter,
    StateT,
)
from statewright.ids import new_run_id
from statewright.runtime.config import (
    ON_BUSY,
    ChangedQuestions,
    OnBusy,
    Settings,
    checked_choice,
    merge_configs,
    read_settings,
)
from statewright.runtime.core.program import Program, Validate
from statewright.runtime.instrument import Instrument
from statewright.runtime.invocation.claim import Claim
from statewright.runtime.invocation.emitter import EventEmitter, Listener, PrintingBuffer, instrument_listeners
from statewright.runtime.invocation.limits import Slots
from statewright.runtime.invocation.run import SIBLING_GRACE, Run
from statewright.runtime.invocation.run_config import RunConfig, RunPorts
from statewright.runtime.lifecycle.snapshot import graph_at
from statewright.runtime.lifecycle.subgraph_call import begin_call, call_branch_key, former_namespaces, take_namespace
from statewright.runtime.methods.batch import config_at
from statewright.runtime.methods.call_options import call_settings, check_output_keys, config_changes, name_set
from statewright.runtime.options import Config, Names
from statewright.runtime.streaming.modes import StreamFormatter, checked_modes
from statewright.runtime.tasks.scope import Scope, current_scope
from statewright.state import UnknownKeys

if TYPE_CHECKING:
    from statewright.executors.port import Executor
    from statewright.runtime.tasks.remote_node import RemoteNode
    from statewright.store import Store


class RunFactory(GraphParameters[StateT, ContextT, InputT, OutputT, ResultT]):
    """A compiled graph with its services; creates runs of it."""

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
        executors: Mapping[str, Executor] | None = None,
    ) -> None:
        self.graph = graph
        self._lease = as_lease_duration(lease)
        if debug and isinstance(checkpointer, InMemorySaver):
            checkpointer = checkpointer.checked()
        self.checkpointer = checkpointer
        self._given_clock = clock
        """The clock of the caller; None if runs use that of the saver."""
        self._ports = RunPorts(clock=clock or clock_of(checkpointer), store=store, cache=cache)
        self._config = RunConfig(
            budget=budget,
            breaks_before=name_set(interrupt_before),
            breaks_after=name_set(interrupt_after),
            sibling_grace=None if sibling_grace is None else as_seconds(sibling_grace),
            keeps_calls=keep_calls,
            refuses_changed_questions=changed_questions == "error",
        )
        # The default grace period lets running functions save their results. If nothing is saved, waiting has no use,
        # so it is 0.
        self._config_without_saver = (
            self._config._replace(sibling_grace=0.0) if sibling_grace is SIBLING_GRACE else self._config
        )
        self._program = self.program_class(
            graph,
            unknown_keys=unknown_keys,
            validate=validate,
            debug=debug,
            connect_remote=partial(_connect_remote, executors or {}),
        )
        if checkpointer is not None:
            checkpointer.allow(self._program.stored_types)
        self._listeners = tuple(instrument_listeners(instruments))
        self._default_config: Mapping[str, Any] | None = None
        self._allowed_by: Checkpointer | None = checkpointer
        """The saver whose `allow` was called last with the types of the state, so that it is not called each time."""

    @property
    def program(self) -> Program:
        """The graph in the form that runs use."""
        return self._program

    @property
    def store(self) -> Store | None:
        """The store that nodes access as `runtime.store`."""
        return self._ports.store

    @property
    def cache(self) -> Cache | None:
        """The cache for the results of nodes with a cache policy."""
        return self._ports.cache

    @property
    def _clock(self) -> Clock:
        return self._ports.clock

    @property
    def name(self) -> str:
        return self.graph.name

    def with_config(self, config: Config = None, **settings: Any) -> Self:
        """Return the same graph with default settings, which a call may override.

        They are passed as a config, or as its keys. Raises InvalidConfig for unknown keys and invalid values.
        """
        graph = copy(self)
        graph._default_config = merge_configs(self._default_config, merge_configs(config, settings))
        read_settings(graph._default_config)
        return graph

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
        """Return the same graph with other services and additional instruments. None keeps the current service.

        Unless a clock is given, here or to `compile`, it is that of the saver. `starter` starts the runs that nodes
        request with `runtime.start_run`.
        """
        graph = self._with_listeners(instrument_listeners(instruments))
        graph.checkpointer = checkpointer or self.checkpointer
        graph._given_clock = clock or self._given_clock
        graph._ports = RunPorts(
            clock=graph._given_clock or (clock_of(checkpointer) if checkpointer is not None else self._clock),
            store=store or self.store,
            cache=cache or self.cache,
            starter=starter or self._ports.starter,
        )
        if checkpointer is not None:
            checkpointer.allow(self._program.stored_types)
            graph._allowed_by = checkpointer
        return graph

    def _with_listeners(self, listeners: Sequence[tuple[EventKind, Listener]]) -> Self:
        """Return the same graph with additional listeners for the events of its runs."""
        graph = copy(self)
        graph._listeners = (*self._listeners, *listeners)
        return graph

    # -- creating runs

    def _run(
        self, config: Any, options: Mapping[str, Any], graph_input: Any = None, emitter: EventEmitter | None = None
    ) -> Run:
        """Create the run for a call: a nested run if a node makes the call, otherwise a root run.

        `graph_input` is needed only for a nested run, to recognise the retry of a failed call.
        """
        if self._default_config is not None:
            config = merge_configs(self._default_config, config)
        if emitter is None and self._listeners:
            emitter = EventEmitter(self._listeners)
        formatter: StreamFormatter | None = None
        if options:
            check_output_keys(self.graph, self._program.channels, options.get("output_keys"))
            if options.get("print_mode") is not None:
                formatter = self._print_formatter(options["print_mode"])
                emitter = (emitter or EventEmitter()).with_listeners(formatter.listeners())
        scope = current_scope()
        if scope is not None and scope.task is not None and not _is_for_other_thread(scope, config, options):
            run = self._nested_run(scope, options, options.get("memory") or "call", config, graph_input, emitter)
        else:
            run = self._root_run(config, options, emitter)
        if formatter is not None:
            formatter.run = run
        return run

    def _root_run(self, config: Any, options: Mapping[str, Any], emitter: EventEmitter | None) -> Run:
        """Create a root run."""
        settings = call_settings(config, options)
        if settings.namespace is not None:
            raise InvalidConfig(
                f"The config names the subgraph {settings.namespace!r}, but a run begins at the root. "
                "Omit the namespace."
            )
        branch_key = self._branch_key(settings)
        run_id, owner = _id_and_owner(settings) if branch_key is not None else (None, None)
        run_config = self._config if branch_key is not None else self._config_without_saver
        if options:
            run_config = run_config._replace(**config_changes(self.graph, self._config, options))
        return Run(
            self._program,
            settings,
            run_config,
            self._ports,
            run_id=run_id if run_id is not None else settings.run_id or new_run_id(),
            saver=self.checkpointer if branch_key is not None else None,
            branch_key=branch_key,
            owner=owner,
            claim=self._claim() if branch_key is not None else None,
            emitter=emitter,
            control=options.get("control"),
            slots=(Slots(settings.max_concurrency),) if settings.max_concurrency is not None else (),
        )

    def _nested_runs(self, config: Any, inputs: Sequence[Any], options: Mapping[str, Any]) -> list[Run]:
        """Create the runs of a batch inside a node. Return an empty list outside a node.

        All runs are created before any of them starts, in the order of the inputs, because a call inside a node is
        identified by its number.
        """
        scope = current_scope()
        if scope is None or scope.task is None:
            return []
        count = len(inputs)
        return [self._run(config_at(config, i, count), options, value) for i, value in enumerate(inputs)]

    def _nested_run(
        self,
        scope: Scope,
        options: Mapping[str, Any],
        memory: Memory,
        config: Any = None,
        graph_input: Any = None,
        own_emitter: EventEmitter | None = None,
        *,
        argument_is_state: bool = False,
    ) -> Run:
        """Create a nested run, which belongs to the task of `scope`.

        `graph_input` serves to recognise the retry of a failed call. If `own_emitter` is passed, it emits to the reader
        of the nested run's own stream, and to the instruments of this graph. `argument_is_state` is True if this graph
        is a node of the calling graph.
        """
        caller, task = scope.run, scope.task
        settings = call_settings(config, options)
        settings.thread_id = caller.settings.thread_id
        settings.branch = caller.settings.branch
        own_slots = (Slots(settings.max_concurrency),) if settings.max_concurrency is not None else ()
        settings.max_concurrency = settings.max_concurrency or caller.settings.max_concurrency
        scope.reset_idle_timeout()
        if caller.saver is not None and caller.saver is not self._allowed_by:
            caller.saver.allow(self._program.stored_types)
            self._allowed_by = caller.saver
        call = begin_call(scope, self._program, memory, graph_input=graph_input, config=config, options=options)
        branch_key = call_branch_key(scope, call.namespace, memory, keep=caller.config.keeps_calls)
        call.argument_is_state = argument_is_state
        if memory == "thread":
            take_namespace(call.scope, call.namespace)
        if caller.program.former_names and branch_key is not None:
            call.former_namespaces = former_namespaces(scope, call.namespace)
        emitter = caller.emitter
        own_listeners = self._listeners if own_emitter is None else own_emitter.listeners()
        if own_listeners:
            emitter = (emitter or EventEmitter()).with_listeners(own_listeners)
        run = Run(
            self._program,
            settings,
            self._nested_config(caller.config, options),
            self._nested_ports(caller.ports),
            run_id=caller.run_id,
            saver=caller.saver if branch_key is not None else None,
            branch_key=branch_key,
            owner=caller.owner if branch_key is not None else None,
            claim=caller.claim if branch_key is not None else None,
            emitter=emitter,
            control=options.get("control") or caller.control,
            answers=caller.answers,
            call=call,
            thread_memory_callers=caller.thread_memory_callers,
            # With a budget, counting starts here, so that the caller and this call share one count.
            spending=caller.spending if caller.config.budget is not None else caller.spending_if_counted,
            slots=(*caller.slots, *own_slots),
        )
        if task is not None and caller.questions.by_id:
            run.inherit_questions(caller, task)
        if run.shares_journal:
            run.journal = caller.journal
        if own_emitter is not None:
            run.stream_buffer = own_emitter.buffer
        return run

    def _nested_config(self, outer: RunConfig, options: Mapping[str, Any]) -> RunConfig:
        """Return the options of a nested run: from the call, from `compile`, or else from the calling run (`outer`)."""
        compiled = self._config
        if compiled.is_neutral and outer.on_unfinished is None and outer.on_busy == "reject" and not outer.has_breaks:
            inherited = outer  # the usual case: not copied, because that would cost more than the rest of this method
        else:
            inherited = outer._replace(
                on_unfinished=None,
                on_busy="reject",
                budget=compiled.budget or outer.budget,
                breaks_before=compiled.breaks_before,
                breaks_after=compiled.breaks_after,
                keeps_calls=outer.keeps_calls or compiled.keeps_calls,
                refuses_changed_questions=outer.refuses_changed_questions or compiled.refuses_changed_questions,
            )
        if not options:
            return inherited
        own = config_changes(self.graph, self._config, options)
        if own.get("durability") != "exit":
            own.pop("durability", None)  # a subgraph cannot save more often than its caller
        return inherited._replace(**own)

    def _nested_ports(self, outer: RunPorts) -> RunPorts:
        """Return the services of a nested run. A store or cache of this graph has precedence over the calling run's."""
        own = self._ports
        if own.store is None and own.cache is None:
            return outer
        return outer._replace(store=own.store or outer.store, cache=own.cache or outer.cache)

    def _branch_key(self, settings: Settings) -> BranchKey | None:
        """Return the key of the branch on which a root run saves; None without a checkpointer."""
        if self.checkpointer is None:
            if settings.thread_id is not None and settings.checkpoint_id is not None:
                raise InvalidConfig("A checkpoint_id needs a checkpointer: compile(checkpointer=...).")
            return None
        if settings.thread_id is None:
            raise InvalidConfig("The graph has a checkpointer, so the call needs a thread_id, e.g. thread_id='1'.")
        return BranchKey(settings.thread_id, "", settings.branch)

    def _require_saver(self) -> Checkpointer:
        if self.checkpointer is None:
            raise InvalidConfig("Threads need a checkpointer: compile(checkpointer=...).")
        return self.checkpointer

    def _thread_run(self, config: Any, options: Mapping[str, Any]) -> Run:
        """Create a run that executes no nodes, for inspecting or changing a thread."""
        saver = self._require_saver()
        if self._default_config is not None:
            config = merge_configs(self._default_config, config)
        settings = call_settings(config, options)
        branch_key = cast(BranchKey, self._branch_key(settings))
        namespace = settings.namespace or ""
        graph = self if not namespace else cast(RunFactory, graph_at(self.graph, namespace))
        run_id, owner = _id_and_owner(settings)
        return Run(
            graph._program,
            settings,
            RunConfig(
                durability="sync",
                on_busy=cast(OnBusy, checked_choice("on_busy", options.get("on_busy"), ON_BUSY) or "reject"),
                keeps_calls=self._config.keeps_calls,
            ),
            self._ports,
            run_id=run_id,
            saver=saver,
            branch_key=branch_key._replace(namespace=namespace),
            owner=owner,
            claim=self._claim(),
            control=options.get("control"),
            namespace=namespace,
        )

    def _claim(self) -> Claim:
        """Return the claim of a root run on its thread. The first write of the run makes the claim."""
        lease = self._lease if self._lease is not None else getattr(self.checkpointer, "lease_duration", None)
        return Claim(lease)

    def _print_formatter(self, modes: Any) -> StreamFormatter:
        """Return a formatter that prints the parts of these stream modes."""
        return StreamFormatter(
            self._program, checked_modes(modes), shows_mode=True, subgraphs=False, version="v1", buffer=PrintingBuffer()
        )


def _connect_remote(executors: Mapping[str, Executor], node: Node, parameters: Parameters) -> RemoteNode:
    """Return the calls of a node by its executor."""
    from statewright.runtime.tasks.remote_node import RemoteNode  # loads the executors

    return RemoteNode(node, parameters, executors[cast(str, node.executor)])


def _id_and_owner(settings: Settings) -> tuple[str, str]:
    """Return the id of a run, and the owner name for its lease. The owner name is unique even if the id is reused."""
    new_id = new_run_id()
    run_id = new_id if settings.run_id is None else settings.run_id
    return run_id, owner_name(run_id, new_id)


def _is_for_other_thread(scope: Scope, config: Any, options: Mapping[str, Any]) -> bool:
    """Return whether a call inside a node is for a thread other than the node's own.

    A call with a thread id may still be for the node's own thread, because many calls pass on the config of the node.
    """
    thread_id = options.get("thread_id")
    if thread_id is None and isinstance(config, Mapping):
        thread_id = read_settings(config).thread_id
    return thread_id is not None and str(thread_id) != scope.run.settings.thread_id
