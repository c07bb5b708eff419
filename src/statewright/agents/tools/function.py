"""Python functions as tools, described by their names, docstrings and annotations."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Collection, Mapping
from functools import partial
from typing import Any, Final, NamedTuple, overload

from statewright.agents.tools.answers import IteratorReader
from statewright.agents.tools.signature import Signature
from statewright.agents.tools.tool import Approval, ToolContext, ToolOptions, check_name
from statewright.graph import is_coroutine_function
from statewright.runtime.private_loop import run_privately
from statewright.runtime.thread_calls import call_in_thread


class ToolFunction:
    """A function as a tool: its name, docstring and annotations say what it is and what it takes.

    A plain function is called on a worker thread, and a generator is read there. Parameters that `injected` knows are
    no arguments of the tool. Called as a function it is the function. Raises ToolError for one whose arguments cannot
    be described.
    """

    def __init__(
        self,
        function: Callable[..., Any],
        *,
        name: str | None = None,
        description: str | None = None,
        never_from_context: Collection[str] = (),
        options: ToolOptions | None = None,
    ) -> None:
        self.name = check_name(name or getattr(function, "__name__", type(function).__name__))
        told = read_docstring(inspect.getdoc(function))
        self.description = told.description if description is None else description
        self.never_from_context = frozenset(never_from_context)
        """Arguments that a workflow never takes from its context: only what was written for them counts."""
        self.options = options or ToolOptions()
        self._function = function
        self._signature = Signature(self.name, function, told.parameters)
        in_order = self.options.in_order
        self.in_order = self._signature.changes_state if in_order is None else in_order
        self.is_plain = not is_coroutine_function(function)
        self.parameters: Mapping[str, Any] = self._signature.schema

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return self._function(*args, **kwargs)

    def checked(self, arguments: Mapping[str, Any]) -> Mapping[str, Any]:
        """The arguments as they will be understood, defaults included, as plain JSON. Raises ToolError."""
        return self._signature.normalize(arguments)

    async def call(self, arguments: Mapping[str, Any], *, context: ToolContext) -> Any:
        """What the function answers. Raises ToolError for arguments that it does not take, and what it raises."""
        given = {**self._signature.read(arguments), **self._signature.injected_kwargs(context)}
        with IteratorReader(self.name) as gathering:
            call = partial(gathering.read_call, partial(self._function, **given))
            return await call_function(call, self._function, in_place=context.in_place)

    def __repr__(self) -> str:
        return f"ToolFunction({self.name!r})"


async def call_function(call: Callable[[], Any], function: Callable[..., Any], *, in_place: bool = False) -> Any:
    """What a call of a function gives: on the loop if it is a coroutine's, else on a worker thread, or in place.

    In place nothing is awaited: what has to be gets a loop of its own.
    """
    if in_place:
        answer = call()
        return run_privately(_await_answer, answer) if inspect.isawaitable(answer) else answer
    if is_coroutine_function(function):
        return await call()
    answer = await call_in_thread(call)
    return await answer if inspect.isawaitable(answer) else answer


async def _await_answer(answer: Any) -> Any:
    return await answer


@overload
def tool(function: Callable[..., Any], /) -> ToolFunction: ...
@overload
def tool(
    *,
    name: str | None = None,
    description: str | None = None,
    approve: Approval = False,
    timeout: float | None = None,
    strict: bool | None = None,
    return_direct: bool = False,
    in_order: bool | None = None,
) -> Callable[[Callable[..., Any]], ToolFunction]: ...
def tool(
    function: Callable[..., Any] | None = None,
    /,
    *,
    name: str | None = None,
    description: str | None = None,
    approve: Approval = False,
    timeout: float | None = None,
    strict: bool | None = None,
    return_direct: bool = False,
    in_order: bool | None = None,
) -> Any:
    """A function as a tool that models may ask for: as a decorator, with or without options.

    With `approve` somebody is asked before a call is made; `timeout` is in seconds; `return_direct` ends the agent
    with what the tool answers; `in_order` lets its calls be made one after another, as those are that can write to the
    state of a network. Raises ToolError for a function whose arguments cannot be described.
    """
    options = ToolOptions(
        approve=approve, timeout=timeout, strict=strict, return_direct=return_direct, in_order=in_order
    )

    def made(one: Callable[..., Any]) -> ToolFunction:
        return ToolFunction(one, name=name, description=description, options=options)

    return made if function is None else made(function)


# -- docstrings

_HEADING: Final = re.compile(r"(Args|Arguments|Parameters|Returns|Yields|Raises|Examples?|Notes?):\s*$")
_ARGUMENTS: Final = ("Args", "Arguments", "Parameters")
_NAMED: Final = re.compile(r"(\s*)\*{0,2}(\w+)\s*(?:\([^)]*\))?:\s*(.*)$")
_FIELD: Final = re.compile(r":param\s+(?:[^:]*\s)?(\w+):\s*(.*)$")


class Docstring(NamedTuple):
    """What was said."""

    description: str
    """What it does, without the sections after."""
    parameters: dict[str, str]


def read_docstring(text: str | None) -> Docstring:
    """The parts of a docstring."""
    description: list[str] = []
    parameters: dict[str, str] = {}
    section: str | None = None
    for line in inspect.cleandoc(text or "").splitlines():
        heading = _HEADING.match(line)
        field = _FIELD.match(line)
        if heading or line.startswith(":"):
            section = heading[1] if heading else ":"
        if field:
            parameters[field[1]] = field[2].strip()
        elif section in _ARGUMENTS and not heading:
            _add(parameters, line)
        elif section is None:
            description.append(line)
    return Docstring("\n".join(description).strip(), parameters)


def _add(parameters: dict[str, str], line: str) -> None:
    """A line of a section of arguments: the next one, or more about the last."""
    named = _NAMED.match(line)
    deep = len(line) - len(line.lstrip()) > 4
    if named and not (deep and parameters):
        parameters[named[2]] = named[3].strip()
    elif parameters and line.strip():
        last = next(reversed(parameters))
        parameters[last] = f"{parameters[last]} {line.strip()}".strip()
