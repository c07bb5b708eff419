"""Command and Send, which nodes can return instead of updates, and the targets that are not nodes: START, END, STOP."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, ClassVar, Final, Generic, Literal, TypeVar

from statewright.checkpoint import register_codec
from statewright.errors import InvalidUpdateError
from statewright.graph.policy import Timeout, TimeoutPolicy, as_timeout

START: Final = "__start__"
"""The virtual node at which every run begins. Its successors are the entry nodes."""
END: Final = "__end__"
"""A target: this path ends. Other paths continue."""
STOP: Final = "__stop__"
"""A `goto`: the run ends after this superstep. Its updates are kept, but due and deferred tasks are discarded."""

RESERVED: Final = frozenset({START, END, STOP})
"""The names of sources and targets that are not nodes, which no node may have."""


class Send:
    """Starts a task of a node in the next superstep, with `arg` as its input in place of the state.

    With `gather=True` the task is deferred until no other due or deferred task can reach the node. Then all Sends to
    the node with `gather=True` become one task, whose input is the list of their arguments. `timeout` replaces the
    timeout of the node.
    """

    __slots__ = ("arg", "gather", "node", "timeout")

    def __init__(self, node: str, arg: Any, *, gather: bool = False, timeout: Timeout | None = None) -> None:
        self.node = node
        self.arg = arg
        self.gather = gather
        self.timeout: TimeoutPolicy | None = as_timeout(timeout) if timeout is not None else None
        if gather and timeout is not None:
            raise InvalidUpdateError(
                f"Send to {node!r} has a timeout and gather=True, but gathered Sends become one task. "
                f"Give the timeout to the node."
            )

    def __repr__(self) -> str:
        options = f"{', gather=True' if self.gather else ''}{f', timeout={self.timeout!r}' if self.timeout else ''}"
        return f"Send({self.node!r}, {self.arg!r}{options})"

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Send):
            return NotImplemented
        return all(getattr(self, name) == getattr(other, name) for name in self.__slots__)

    __hash__ = None  # pyright: ignore  # the argument may be unhashable


def _load_send(fields: list[Any]) -> Send:
    """Restore a Send. `gather` and `timeout` are saved only if they are set."""
    padded: tuple[Any, ...] = (*fields, None, None)
    node, arg, gather, timeout = padded[:4]
    policy = TimeoutPolicy(run_timeout=timeout[0], idle_timeout=timeout[1], refresh_on=timeout[2]) if timeout else None
    return Send(node, arg, gather=bool(gather), timeout=policy)


def _dump_send(send: Send) -> list[Any]:
    policy = send.timeout
    if policy is None:
        return [send.node, send.arg, True] if send.gather else [send.node, send.arg]
    return [send.node, send.arg, send.gather, [policy.run_timeout, policy.idle_timeout, policy.refresh_on]]


register_codec(50, Send, _dump_send, _load_send)

if TYPE_CHECKING:
    from typing_extensions import TypeVar as TypeParameter  # slow to import; see generics.py

    Target = TypeParameter("Target", bound=str, default=str, covariant=True)
else:
    Target = TypeVar("Target", bound=str, covariant=True)


class Command(Generic[Target]):
    """The result of a node that combines an update and a choice of the next nodes; or the input that resumes a run.

    `goto` replaces the edges of the node. The return hint `Command[Literal["a", "b"]]` declares the targets. As the
    input of a run, a Command with `resume` answers its open questions.
    """

    __slots__ = ("__orig_class__", "goto", "graph", "resume", "update")

    PARENT: ClassVar[Literal["__parent__"]] = "__parent__"
    """The value of `graph` that applies the update and the goto in the graph that called this one."""

    def __init__(
        self,
        *,
        update: Any = None,
        goto: Target | Send | Sequence[Target | Send] = (),
        graph: str | None = None,
        resume: Any = ...,
    ) -> None:
        self.update = update
        self.goto = goto
        self.graph = graph
        self.resume = resume
        """The answer to the only open question, or a dict of answers by question id; `...` if there is no answer."""

    @property
    def resumes(self) -> bool:
        """True if the command contains an answer, which may be None."""
        return self.resume is not ...

    @property
    def targets(self) -> Sequence[str | Send]:
        """`goto` as a sequence."""
        goto = self.goto
        return (goto,) if isinstance(goto, str | Send) else goto

    def __repr__(self) -> str:
        fields = {"update": self.update, "goto": self.goto or None, "graph": self.graph}
        # `is not None` rather than truth or equality, because an update may be an array, whose comparison is an array.
        arguments = [f"{name}={value!r}" for name, value in fields.items() if value is not None]
        return f"Command({', '.join(arguments + ([f'resume={self.resume!r}'] if self.resumes else []))})"


class ToParent:
    """A Command for the graph that called this one.

    It is saved as a target of its task until the other tasks of the superstep have ended.
    """

    __slots__ = ("command",)

    def __init__(self, command: Command[Any]) -> None:
        self.command = command

    def __repr__(self) -> str:
        return f"ToParent({self.command!r})"

    def __eq__(self, other: object) -> bool:
        return _dump_to_parent(self) == _dump_to_parent(other) if isinstance(other, ToParent) else NotImplemented

    __hash__ = None  # pyright: ignore  # an update may be unhashable


def _dump_to_parent(target: ToParent) -> list[Any]:
    command = target.command
    return [command.update, list(command.targets), command.graph]


def _load_to_parent(fields: list[Any]) -> ToParent:
    update, goto, graph = fields
    return ToParent(Command(update=update, goto=goto, graph=graph))


register_codec(58, ToParent, _dump_to_parent, _load_to_parent)
