"""What a node may ask for beside the state. The types are here; `runtime/` fills them."""

from __future__ import annotations

from collections.abc import Callable
from types import FunctionType
from typing import Any, Generic, Protocol, TypeGuard, TypeVar, runtime_checkable

from statewright.store import Store

Ctx = TypeVar("Ctx")
StreamWriter = Callable[[Any], None]
"""Sends one value to readers of the stream mode `custom`; does nothing where there are none."""


class ExecutionInfo:
    """Which execution this is: useful in logs, and as a key for what must not be done twice."""

    __slots__ = ("attempt", "checkpoint_id", "namespace", "node", "run_id", "step", "task_id", "thread_id")

    def __init__(
        self,
        *,
        thread_id: str | None,
        run_id: str,
        namespace: str,
        checkpoint_id: str | None,
        step: int,
        node: str,
        task_id: str,
        attempt: int = 1,
    ) -> None:
        self.thread_id = thread_id
        self.run_id = run_id
        self.namespace = namespace
        self.checkpoint_id = checkpoint_id
        self.step = step
        self.node = node
        self.task_id = task_id
        self.attempt = attempt

    def __repr__(self) -> str:
        return f"ExecutionInfo({', '.join(f'{name}={getattr(self, name)!r}' for name in self.__slots__)})"


class Runtime(Generic[Ctx]):
    """What the runtime offers to one execution of a node.

    Ask for it with a parameter named `runtime`, or annotated `Runtime[YourContext]`.
    """

    __slots__ = ("__orig_class__", "_info", "context", "store", "stream_writer")

    def __init__(
        self,
        *,
        context: Ctx,
        store: Store | None,
        stream_writer: StreamWriter,
        info: Callable[[], ExecutionInfo],
    ) -> None:
        self.context = context
        """The caller's dependencies, as given to `invoke(context=...)`; never saved."""
        self.store = store
        self.stream_writer = stream_writer
        self._info = info

    @property
    def execution_info(self) -> ExecutionInfo:
        """Which execution this is; worked out when it is asked for."""
        return self._info()


class NodeError:
    """What an error handler is told: which node failed, on what input, and how."""

    __slots__ = ("error", "input", "node")

    def __init__(self, node: str, error: BaseException, input: Any) -> None:  # noqa: A002  # the field's word
        self.node = node
        self.error = error
        self.input = input

    def __repr__(self) -> str:
        return f"NodeError(node={self.node!r}, error={self.error!r})"


def is_subgraph(action: object) -> TypeGuard[SubgraphLike]:
    """Whether a node's action is a compiled graph. Functions are told first: looking for methods is 30 times dearer."""
    return type(action) is not FunctionType and isinstance(action, SubgraphLike)


@runtime_checkable
class SubgraphLike(Protocol):
    """A compiled graph, as far as a graph that holds it as a node needs to know."""

    @property
    def graph(self) -> Any:
        """The frozen graph, for drawing."""
        ...

    def invoke(self, input: Any, config: Any = None) -> Any: ...  # noqa: A002  # the field's word
