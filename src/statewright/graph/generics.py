"""Type parameters of graphs and types of user functions. They are for type checkers and have no effect at run time.

A graph has five type parameters: `StateT` is the state, `ContextT` the caller's dependencies, `InputT` the input of a
call, `OutputT` the value that a call with `version="v2"` returns, and `ResultT` the result of other calls, which is a
dict of fields, or the value itself if the state has no fields. Parameters that an annotation omits are Any.

Type checkers check the return values of nodes. They do not compare the input of a node with the state, because a node
may have a schema of its own, and the argument of a Send may have any type.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Hashable, Mapping, Sequence
from types import GenericAlias
from typing import TYPE_CHECKING, Any, ClassVar, Concatenate, Generic, Protocol, TypeAlias, TypedDict, TypeVar

from statewright.graph.command import Command, Send

if TYPE_CHECKING:
    # Python 3.11 lacks defaults of type parameters (PEP 696), and typing_extensions is slow to import.
    from dataclasses import Field

    from pydantic import BaseModel
    from typing_extensions import TypeVar as TypeParameter

    from statewright.clock import Duration
    from statewright.graph.node import Join, Memory
    from statewright.graph.policy import CachePolicy, CircuitBreaker, RateLimit, RetryPolicy, TimeoutPolicy

    StateT = TypeParameter("StateT", default=Any)
    ContextT = TypeParameter("ContextT", default=Any)
    InputT = TypeParameter("InputT", default=Any)
    OutputT = TypeParameter("OutputT", default=StateT)
    ResultT = TypeParameter("ResultT", default=Any)
    # Type parameters of functions and constructors, which may not reuse the type parameters of their class.
    CallerT = TypeParameter("CallerT", default=Any)

    class DataclassLike(Protocol):
        """An instance of a dataclass."""

        __dataclass_fields__: ClassVar[dict[str, Field[Any]]]

    class RunnableLike(Protocol):
        """A compiled graph, a Runnable of LangChain, or another object with `invoke`."""

        @property
        def invoke(self) -> Callable[..., Any]: ...

    FieldsT = TypeParameter("FieldsT", bound=Mapping[str, object] | DataclassLike | BaseModel)
    """A state with fields: a TypedDict, a dataclass or a pydantic model."""
    InstanceT = TypeParameter("InstanceT", bound=DataclassLike | BaseModel, default=Any)
    """A dataclass or pydantic model as a schema; callers may pass a mapping instead of an instance."""
    SchemaT = TypeParameter("SchemaT", default=Any)
    BareT = TypeParameter("BareT", default=Any)
    """A state, or a schema of any kind."""
    TargetT = TypeParameter("TargetT", bound=Hashable, default=Any)
    """The result of a conditional edge: the name of a node, or a key of its `path_map`."""

    SingleResult: TypeAlias = (
        Mapping[str, Any] | DataclassLike | BaseModel | Command[Any] | Send | tuple[str, Any] | BareT
    )
    NodeResult: TypeAlias = SingleResult[BareT] | Sequence[SingleResult[BareT]] | None
    NodeFunction: TypeAlias = (
        Callable[Concatenate[BareT, ...], NodeResult[BareT] | Awaitable[NodeResult[BareT]]]
        | Callable[..., NodeResult[BareT] | Awaitable[NodeResult[BareT]]]
        | RunnableLike
    )
    """A node of a graph with the state `BareT`. The first form lets type checkers infer the types of lambdas."""
    PathResult: TypeAlias = TargetT | Send | Sequence[TargetT | Send]
    PathFunction: TypeAlias = (
        Callable[Concatenate[BareT, ...], PathResult[TargetT] | Awaitable[PathResult[TargetT]]]
        | Callable[..., PathResult[TargetT] | Awaitable[PathResult[TargetT]]]
        | RunnableLike
    )
    """The function of a conditional edge of a graph with the state `BareT`."""

    class MapOptions(TypedDict, total=False):
        """The options of `add_map` for the node that handles an item; see `Node`."""

        defer: bool
        join: Join | None
        input_schema: Any
        on: Sequence[str]
        inline: bool
        error_handler: Callable[..., Any] | None
        retry_policy: RetryPolicy | Sequence[RetryPolicy] | None
        timeout: TimeoutPolicy | Duration | None
        cache_policy: CachePolicy | None
        max_concurrency: int | None
        rate_limit: RateLimit | None
        circuit_breaker: CircuitBreaker | None
        reads: Sequence[str] | None
        writes: Sequence[str] | None
        aliases: Sequence[str]
        executor: str | None
        resources: Mapping[str, float] | None
        memory: Memory
        description: str | None
        tags: Sequence[str]
        version: str | None
        metadata: Mapping[str, Any] | None

    class NodeOptions(MapOptions, total=False):
        """The options of `add_node`."""

        destinations: Sequence[str] | Mapping[str, str] | None

    class BuilderOptions(TypedDict, total=False):
        """The options of a graph builder that are not schemas."""

        name: str | None
        version: str | None
        answers_to: str | None

    class GraphParameters(Generic[StateT, ContextT, InputT, OutputT, ResultT]):
        """Base of classes with the five type parameters of a graph."""

else:
    StateT, ContextT, InputT, OutputT, ResultT = map(TypeVar, ("StateT", "ContextT", "InputT", "OutputT", "ResultT"))

    class GraphParameters:
        """Base of classes with the five type parameters of a graph. At run time, subscripts are not checked."""

        __class_getitem__ = classmethod(GenericAlias)
