"""`StateGraph`, the builder that most programs import, and its `compile`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Unpack, cast, overload

from statewright.cache import Cache
from statewright.checkpoint import Checkpointer
from statewright.clock import Clock, Duration
from statewright.errors import InvalidConfig
from statewright.graph import Budget, ContextT, GraphBuilder, InputT, OutputT, ResultT, StateT
from statewright.runtime.compiled import CompiledGraph
from statewright.runtime.config import ChangedQuestions, checked_grace
from statewright.runtime.core.program import Validate
from statewright.runtime.instrument import Instrument
from statewright.runtime.invocation.run import SIBLING_GRACE
from statewright.runtime.options import Names
from statewright.state import MessagesState, UnknownKeys
from statewright.store import Store

if TYPE_CHECKING:
    from statewright.graph.generics import BareT, BuilderOptions, CallerT, FieldsT, InstanceT, SchemaT
    from statewright.state import StateSchema


class StateGraph(GraphBuilder[StateT, ContextT, InputT, OutputT, ResultT]):
    """A graph of functions over a shared, typed state.

    `state_schema` is a TypedDict, a dataclass, a pydantic model, a dict of name -> reducer, channel or type, or any
    other type for a state that is one bare value. Add nodes and edges, then `compile()`.
    """

    if TYPE_CHECKING:
        # Without an input schema a call may leave fields out, which no type can say; one that is given is checked.
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
    ) -> CompiledGraph[StateT, ContextT, InputT, OutputT, ResultT]:
        """Check the graph and return it ready to run. The builder does not change, and may be compiled again.

        - `checkpointer`: stores threads. `cache`: stores results of nodes with a cache policy. `store`: memory across
          threads.
        - `budget`: the limits on the spending of each call.
        - `keep_calls`: keep the checkpoints of subgraph calls after their task has ended.
        - `changed_questions`: whether it is a warning or an error if a node that is executed again asks a question that
          was answered in other words.
        - `sibling_grace`: how long plain functions in progress are waited for if a concurrent task fails, in seconds or
          as a timedelta; 0 does not wait, None waits without limit. 30 seconds by default.
        - `debug`: report nodes that change state in place, and values in an `InMemorySaver` that no database can store.
        - `unknown_keys`: `warn`, `error` or `drop` for keys of updates that are in no schema.
        - `validate`: what is checked against the types: the `input`, `all` updates, or nothing (`off`).
        - `lease`: how long a run holds its thread after each write, by default as the checkpointer says (60 seconds).
          After that, other runs may take the thread of a run that has hung.

        Raises InvalidGraph with all problems. With `strict=False`, problems of the graph's shape are warnings.
        """
        interrupts = [*_listed(interrupt_before), *_listed(interrupt_after)]
        graph = self.freeze(
            strict=strict,
            name=name,
            has_store=store is not None,
            entered=[budget.on_budget] if budget is not None and budget.on_budget else (),
            interrupts=interrupts,
            other_problems=[
                *_wrong_port("checkpointer", checkpointer, Checkpointer),
                *_wrong_port("store", store, Store),
                *_wrong_port("cache", cache, Cache),
                *_wrong_choice("unknown_keys", unknown_keys, ("warn", "error", "drop")),
                *_wrong_grace(sibling_grace),
                *_wrong_choice("validate", validate, ("input", "all", "off")),
                *_wrong_choice("changed_questions", changed_questions, ("warn", "error")),
            ],
        )
        return CompiledGraph(
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
        )


class MessagesStateGraph(StateGraph[StateT, ContextT, InputT, OutputT, ResultT]):
    """A graph whose state is a conversation: a node may answer a bare message, or a list of them."""

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
    def __init__(self, state_schema: Any = MessagesState, context_schema: Any = None, **options: Any) -> None:
        cast(Any, super()).__init__(state_schema, context_schema, **options)


def _listed(names: Names) -> Sequence[str]:
    return (names,) if isinstance(names, str) else names or ()


_EXAMPLES: dict[type, str] = {Checkpointer: "InMemorySaver()", Store: "InMemoryStore()", Cache: "InMemoryCache()"}


def _wrong_port(name: str, value: object, port: type) -> list[str]:
    if value is None or (isinstance(value, port) and not isinstance(value, type)):
        return []
    return [
        f"{name}= is {value!r} of type {type(value).__name__}, which does not have the methods of a {port.__name__}. "
        f"Pass an object such as {_EXAMPLES[port]}."
    ]


def _wrong_choice(name: str, value: object, choices: Sequence[str]) -> list[str]:
    return [] if value in choices else [f"{name}= is {value!r}. Choices: {', '.join(choices)}."]


def _wrong_grace(value: object) -> list[str]:
    try:
        checked_grace(value)
    except InvalidConfig as error:
        return [str(error)]
    return []
