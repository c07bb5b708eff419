"""Make runs of a compiled graph: its services, its settings, and the run of each call.

A call outside any node starts a run of its own, on its own thread. A call inside a node is part of the run of that
node: it shares the saver, the answers, the control, the budget and the limits, and saves under the task that calls.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from copy import copy
from typing import TYPE_CHECKING, Any, ClassVar, Final, Self, cast

from statewright.cache import Cache
from statewright.checkpoint import (
    BranchKey,
    Checkpointer,
    InMemorySaver,
    checked_lease,
    owner_name,
)
from statewright.clock import Clock, Duration, SystemClock, as_seconds
from statewright.errors import (
    InvalidConfig,
    suggestion,
)
from statewright.graph import (
    Budget,
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
from statewright.ids import draw_run_id
from statewright.runtime.batch import config_at
from statewright.runtime.config import (
    DURABILITIES,
    ON_BUSY,
    ON_UNFINISHED,
    ChangedQuestions,
    Settings,
    checked_choice,
    checked_grace,
    joined_configs,
    read_settings,
)
from statewright.runtime.core.events import EventEmitter, Printed, instrument_listeners
from statewright.runtime.core.limits import Slots
from statewright.runtime.core.program import Program, Validate
from statewright.runtime.core.run import SIBLING_GRACE, Run
from statewright.runtime.core.subgraph import (
    SubgraphCall,
    call_line,
    former_namespaces,
    take_namespace,
)
from statewright.runtime.instrument import Instrument
from statewright.runtime.lifecycle.claim import Claim
from statewright.runtime.lifecycle.snapshot import (
    graph_at,
)
from statewright.runtime.options import CallOptions, Config, Names
from statewright.runtime.streaming.modes import (
    StreamView,
    checked_modes,
)
from statewright.runtime.tasks.scope import Scope, current_scope
from statewright.state import UnknownKeys, check_value, known_keys
from statewright.store import Store

if TYPE_CHECKING:
    pass


class RunFactory(GraphParameters[StateT, ContextT, InputT, OutputT, ResultT]):
    """A compiled graph with its services, from which runs are made."""

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
        inside = self if not namespace else cast(RunFactory, graph_at(self.graph, namespace))
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


_NO_OPTIONS: Final[dict[str, Any]] = {"overlaps": True}

_OPTIONS = tuple(CallOptions.__annotations__)

_SETTINGS = ("namespace", "thread_id", "checkpoint_id", "branch", "recursion_limit", "max_concurrency", "run_id")


def _identity(settings: Settings) -> tuple[str, str]:
    """The id of a run, and the name under which it holds its thread: no other run has that, even of the same id."""
    drawn = draw_run_id()
    run_id = drawn if settings.run_id is None else settings.run_id
    return run_id, owner_name(run_id, drawn)


def _names(names: Names) -> frozenset[str]:
    return frozenset((names,) if isinstance(names, str) else names or ())


def _names_other(scope: Scope, config: Any, options: Mapping[str, Any]) -> bool:
    """Whether a call inside a node names another thread than that of the node: users pass their config on."""
    named = options.get("thread_id")
    if named is None and isinstance(config, Mapping):
        named = read_settings(config).thread_id
    return named is not None and str(named) != scope.run.settings.thread_id
