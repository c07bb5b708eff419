"""`StateGraph`, the graph builder that most programs import, with its method `compile`."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar, Unpack, cast, overload

from statewright.cache import Cache
from statewright.checkpoint import Checkpointer
from statewright.clock import Clock, Duration
from statewright.errors import InvalidConfig, suggestion
from statewright.graph import Budget, ContextT, GraphBuilder, InputT, OutputT, ResultT, StateT
from statewright.runtime.compiled import CompiledGraph
from statewright.runtime.config import ChangedQuestions, checked_grace
from statewright.runtime.core.program import Validate
from statewright.runtime.instrument import Instrument
from statewright.runtime.invocation.run import SIBLING_GRACE
from statewright.runtime.options import Names
from statewright.state import UnknownKeys

if TYPE_CHECKING:
    from statewright.executors.port import Executor
    from statewright.graph import Node
    from statewright.graph.generics import BareT, BuilderOptions, CallerT, FieldsT, InstanceT, SchemaT
    from statewright.state import StateSchema
    from statewright.state.prebuilt import MessagesState
    from statewright.store import Store


class StateGraph(GraphBuilder[StateT, ContextT, InputT, OutputT, ResultT]):
    """A graph of functions over a shared, typed state.

    `state_schema` is a TypedDict, a dataclass, a pydantic model, or a dict from field names to reducers, channels or
    types. Any other type means that the state is a single value of this type. Add nodes and edges, then `compile()`.
    """

    _compiled_class: ClassVar[type[CompiledGraph[Any, Any, Any, Any, Any]]] = CompiledGraph
    """The class of the compiled graph."""

    if TYPE_CHECKING:
        # Without an input schema, a call may omit any field. No type can express that, so the input type is a Mapping.
        @overload
        def __init__(
            self: StateGraph[FieldsT, CallerT, Mapping[str, Any], FieldsT, dict[str, Any]],
            state_schema: type[FieldsT],
            context_schema: type[CallerT] | None = None,
            *,
            input_schema: Mapping[str, Any] | None = None,
            output_schema: None = None,
            **options: Unpack[BuilderOptions],
        ) -> None: ...
        @overload
        def __init__(
            self: StateGraph[FieldsT, CallerT, Mapping[str, Any], SchemaT, dict[str, Any]],
            state_schema: type[FieldsT],
            context_schema: type[CallerT] | None = None,
            *,
            input_schema: Mapping[str, Any] | None = None,
            output_schema: type[SchemaT],
            **options: Unpack[BuilderOptions],
        ) -> None: ...
        @overload
        def __init__(
            self: StateGraph[FieldsT, CallerT, InstanceT | Mapping[str, Any], FieldsT, dict[str, Any]],
            state_schema: type[FieldsT],
            context_schema: type[CallerT] | None = None,
            *,
            input_schema: type[InstanceT],
            output_schema: None = None,
            **options: Unpack[BuilderOptions],
        ) -> None: ...
        @overload
        def __init__(
            self: StateGraph[FieldsT, CallerT, InstanceT | Mapping[str, Any], SchemaT, dict[str, Any]],
            state_schema: type[FieldsT],
            context_schema: type[CallerT] | None = None,
            *,
            input_schema: type[InstanceT],
            output_schema: type[SchemaT],
            **options: Unpack[BuilderOptions],
        ) -> None: ...
        @overload
        def __init__(
            self: StateGraph[FieldsT, CallerT, BareT, FieldsT, dict[str, Any]],
            state_schema: type[FieldsT],
            context_schema: type[CallerT] | None = None,
            *,
            input_schema: type[BareT],
            output_schema: None = None,
            **options: Unpack[BuilderOptions],
        ) -> None: ...
        @overload
        def __init__(
            self: StateGraph[FieldsT, CallerT, BareT, SchemaT, dict[str, Any]],
            state_schema: type[FieldsT],
            context_schema: type[CallerT] | None = None,
            *,
            input_schema: type[BareT],
            output_schema: type[SchemaT],
            **options: Unpack[BuilderOptions],
        ) -> None: ...
        @overload
        def __init__(
            self: StateGraph[dict[str, Any], CallerT, Mapping[str, Any], Any, dict[str, Any]],
            state_schema: Mapping[str, Any] | StateSchema | None = None,
            context_schema: type[CallerT] | None = None,
            *,
            input_schema: Any = None,
            output_schema: Any = None,
            **options: Unpack[BuilderOptions],
        ) -> None: ...
        @overload
        def __init__(
            self: StateGraph[BareT, CallerT, BareT, BareT, BareT],
            state_schema: type[BareT],
            context_schema: type[CallerT] | None = None,
            *,
            input_schema: Any = None,
            output_schema: Any = None,
            **options: Unpack[BuilderOptions],
        ) -> None: ...
        def __init__(self, state_schema: Any = None, context_schema: Any = None, **options: Any) -> None: ...

    def compile(
        self,
        checkpointer: Checkpointer | None = None,
        *,
        cache: Cache | None = None,
        store: Store | None = None,
        interrupt_before: Names = None,
        interrupt_after: Names = None,
        debug: bool = False,
        name: str | None = None,
        strict: bool = True,
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
    ) -> CompiledGraph[StateT, ContextT, InputT, OutputT, ResultT]:
        """Check the graph and return it ready to run. The builder does not change, and may be compiled again.

        - `checkpointer`: stores threads. `cache`: stores results of nodes with a cache policy. `store`: memory across
          threads.
        - `interrupt_before`, `interrupt_after`: breakpoints, i.e. nodes before or after which each run pauses; "*" for
          all nodes.
        - `budget`: the limits on the spending of each call.
        - `keep_calls`: True to keep the checkpoints of subgraph calls after the calling tasks have ended.
        - `changed_questions`: whether to `warn` or to raise an `error` if a node is executed again, and asks a question
          whose wording has changed since it was answered.
        - `sibling_grace`: how long to wait for running plain functions after a concurrent task has failed, in seconds
          or as a timedelta: 30 seconds by default, 0 not to wait, None to wait without limit.
        - `debug`: True to report nodes that change the state in place, and with an `InMemorySaver` to report values
          that a database could not store.
        - `unknown_keys`: what to do with keys of updates that are not in the schema: `warn`, `error` or `drop`.
        - `validate`: which updates to check against the types of fields: the `input`, `all`, or none (`off`).
        - `clock`: the clock of runs and waits; by default that of the checkpointer, if it has one, as a saver on
          Postgres has that of the server; otherwise the system clock.
        - `lease`: how long a run holds its thread after each write; by default the lease duration of the checkpointer,
          or 60 seconds. After that time, other runs may take over the thread of a run that hangs.
        - `executors`: what the nodes mean by `executor=`, by name. `process` and `ray` need not be given: they mean a
          pool of processes, and Ray, that all graphs share.

        Raises InvalidGraph with all problems. With `strict=False`, problems of the graph's shape become warnings.
        """
        interrupts = [*_as_sequence(interrupt_before), *_as_sequence(interrupt_after)]
        is_distributed = any(node.executor is not None for node in self.nodes.values())
        executors, executor_problems = _executors_of(self.nodes.values(), executors) if is_distributed else ({}, [])
        graph = self.freeze(
            strict=strict,
            name=name,
            has_store=store is not None,
            entered=[budget.on_budget] if budget is not None and budget.on_budget else (),
            interrupts=interrupts,
            other_problems=[
                *_port_problems("checkpointer", checkpointer, Checkpointer, "InMemorySaver()"),
                *_store_problems(store),
                *_port_problems("cache", cache, Cache, "InMemoryCache()"),
                *_choice_problems("unknown_keys", unknown_keys, ("warn", "error", "drop")),
                *_grace_problems(sibling_grace),
                *_choice_problems("validate", validate, ("input", "all", "off")),
                *_choice_problems("changed_questions", changed_questions, ("warn", "error")),
                *executor_problems,
            ],
        )
        return self._compiled_class(
            graph,
            checkpointer=checkpointer,
            cache=cache,
            store=store,
            interrupt_before=interrupt_before,
            interrupt_after=interrupt_after,
            debug=debug,
            unknown_keys=unknown_keys,
            validate=validate,
            budget=budget,
            keep_calls=keep_calls,
            changed_questions=changed_questions,
            sibling_grace=sibling_grace,
            instruments=instruments,
            clock=clock,
            lease=lease,
            executors=executors,
        )


class MessagesStateGraph(StateGraph[StateT, ContextT, InputT, OutputT, ResultT]):
    """A graph whose state is a conversation: a node may return a message or a list of messages instead of a mapping."""

    bare_messages = "messages"

    @overload
    def __init__(
        self: MessagesStateGraph[MessagesState, CallerT, Mapping[str, Any], MessagesState, dict[str, Any]],
        *,
        context_schema: type[CallerT] | None = None,
        **options: Unpack[BuilderOptions],
    ) -> None: ...
    @overload
    def __init__(
        self: MessagesStateGraph[FieldsT, CallerT, Mapping[str, Any], Any, dict[str, Any]],
        state_schema: type[FieldsT],
        context_schema: type[CallerT] | None = None,
        *,
        input_schema: Any = None,
        output_schema: Any = None,
        **options: Unpack[BuilderOptions],
    ) -> None: ...
    def __init__(self, state_schema: Any = None, context_schema: Any = None, **options: Any) -> None:
        if state_schema is None:
            from statewright.state.prebuilt import MessagesState  # slow to import

            state_schema = MessagesState
        cast(Any, super()).__init__(state_schema, context_schema, **options)


def _as_sequence(names: Names) -> Sequence[str]:
    return (names,) if isinstance(names, str) else names or ()


def _executors_of(
    nodes: Iterable[Node], executors: Mapping[str, Executor] | None
) -> tuple[dict[str, Executor], list[str]]:
    """Return the executors that nodes name, and the problems of nodes whose executor does not exist or suffice."""
    from statewright.executors.defaults import DEFAULT_NAMES, default_executor  # loads the executors
    from statewright.executors.port import find_resource_problems

    resolved, problems = dict(executors or {}), list[str]()
    for node in nodes:
        if (name := node.executor) is None:
            continue
        executor = resolved.get(name) or (default_executor(name) if isinstance(name, str) else None)  # pyright: ignore[reportUnnecessaryIsInstance]
        if executor is None:
            hint = suggestion(str(name), [*DEFAULT_NAMES, *resolved], noun="Executors")
            problems.append(f"Node {node.name!r}: there is no executor {name!r}. {hint} Pass compile(executors=...).")
        elif not hasattr(executor, "find_problems"):
            problems.append(f"executors= has {executor!r} for {name!r}. Pass an object such as ProcessExecutor().")
        else:
            resolved[name] = executor
            reasons = find_resource_problems(executor, node.resources)
            problems += [f"Node {node.name!r} cannot run on executor {name!r}: {reason}." for reason in reasons]
    return resolved, problems


def _store_problems(store: object) -> list[str]:
    if store is None:
        return []
    from statewright.store import Store  # few graphs need it

    return _port_problems("store", store, Store, "InMemoryStore()")


def _port_problems(name: str, value: object, port: type, example: str) -> list[str]:
    if value is None or (isinstance(value, port) and not isinstance(value, type)):
        return []
    return [
        f"{name}= is {value!r} of type {type(value).__name__}, which does not have the methods of a {port.__name__}. "
        f"Pass an object such as {example}."
    ]


def _choice_problems(name: str, value: object, choices: Sequence[str]) -> list[str]:
    return [] if value in choices else [f"{name}= is {value!r}. Choices: {', '.join(choices)}."]


def _grace_problems(value: object) -> list[str]:
    try:
        checked_grace(value)
    except InvalidConfig as error:
        return [str(error)]
    return []
