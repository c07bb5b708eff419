"""Type parameters of graphs, and the forms of the functions that they call: for type checkers, without effect on runs.

A graph has five parameters. `StateT` is the state, `ContextT` the caller's dependencies, `InputT` what a call takes,
`OutputT` what a call with `version="v2"` returns as its value, and `ResultT` what other calls return: a dict of fields,
or the value itself where the state has no fields. Those that are left out of an annotation are Any.

The input of a node is not compared with the state: a node may read a schema of its own, and a Send may give it
anything. What it returns is checked.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Hashable, Mapping, Sequence
from types import GenericAlias
from typing import TYPE_CHECKING, Any, ClassVar, Concatenate, Generic, Protocol, TypeAlias, TypedDict, TypeVar

from statewright.graph.command import Command, Send

if TYPE_CHECKING:
    # The defaults of type parameters (PEP 696) are news to Python 3.11, and typing_extensions is slow to import.
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
    # Those of functions and constructors, which may not be those of a class.
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
    """A schema with instances, for which a mapping may stand too."""
    SchemaT = TypeParameter("SchemaT", default=Any)
    BareT = TypeParameter("BareT", default=Any)
    """A state, or a schema of any kind."""
    TargetT = TypeParameter("TargetT", bound=Hashable, default=Any)
    """What a conditional edge answers: the name of a node, or what its `path_map` makes a name of."""

    OneAnswer: TypeAlias = Mapping[str, Any] | DataclassLike | BaseModel | Command[Any] | Send | tuple[str, Any] | BareT
    NodeAnswer: TypeAlias = OneAnswer[BareT] | Sequence[OneAnswer[BareT]] | None
    NodeFunction: TypeAlias = (
        Callable[Concatenate[BareT, ...], NodeAnswer[BareT] | Awaitable[NodeAnswer[BareT]]]
        | Callable[..., NodeAnswer[BareT] | Awaitable[NodeAnswer[BareT]]]
        | RunnableLike
    )
    """What may be a node of a graph with the state `BareT`. The first form is what lambdas are read by."""
    PathAnswer: TypeAlias = TargetT | Send | Sequence[TargetT | Send]
    PathFunction: TypeAlias = (
        Callable[Concatenate[BareT, ...], PathAnswer[TargetT] | Awaitable[PathAnswer[TargetT]]]
        | Callable[..., PathAnswer[TargetT] | Awaitable[PathAnswer[TargetT]]]
        | RunnableLike
    )
    """What may decide a conditional edge of a graph with the state `BareT`."""

    class MapOptions(TypedDict, total=False):
        """The keywords of `add_map` for what handles one item. See `Node` for their meaning."""

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
        resources: Mapping[str, float] | None
        memory: Memory
        description: str | None
        tags: Sequence[str]
        version: str | None
        metadata: Mapping[str, Any] | None

    class NodeOptions(MapOptions, total=False):
        """The keywords of `add_node`."""

        destinations: Sequence[str] | Mapping[str, str] | None

    class BuilderOptions(TypedDict, total=False):
        """The keywords of a builder that say nothing about types."""

        name: str | None
        version: str | None
        answers_to: str | None

    class GraphParameters(Generic[StateT, ContextT, InputT, OutputT, ResultT]):
        """Base of what has the five parameters of a graph."""

else:
    StateT, ContextT, InputT, OutputT, ResultT = map(TypeVar, ("StateT", "ContextT", "InputT", "OutputT", "ResultT"))

    class GraphParameters:
        """Base of what has the five parameters of a graph: `Class[...]` takes as many as are written."""

        __class_getitem__ = classmethod(GenericAlias)
