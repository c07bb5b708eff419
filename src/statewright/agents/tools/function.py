"""Functions as tools.

A ToolFunction is described by its docstring and its annotations. A HandlerTool is described by a schema, and its
handler gets all arguments as one value.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Collection, Mapping
from functools import partial
from typing import Any, Final, NamedTuple, overload

from statewright.agents.tools.answers import IteratorReader
from statewright.agents.tools.signature import Signature, ValueSchema
from statewright.agents.tools.tool import Approval, ToolContext, ToolOptions, WrongCall, check_name
from statewright.data.json_schema import UnusableSchema
from statewright.errors import ToolError
from statewright.graph import is_coroutine_function
from statewright.runtime.concurrency.private_loop import run_on_private_loop
from statewright.runtime.concurrency.thread_calls import call_in_thread


class _CallableTool:
    """A tool that calls a function. Plain functions are called on worker threads, where generators are read too."""

    def __init__(
        self, name: str, description: str, function: Callable[..., Any], options: ToolOptions, *, can_write: bool
    ) -> None:
        """`can_write` means that the function can write to the state; its calls are then made in order by default."""
        self.name = name
        self.description = description
        self.options = options
        self.in_order = can_write if options.in_order is None else options.in_order
        self.is_plain = not is_coroutine_function(function)
        self._function = function

    async def _call(self, context: ToolContext, /, *args: Any, **kwargs: Any) -> Any:
        """Call the function, and return its answer with iterators replaced by their values."""
        with IteratorReader(self.name) as reader:
            call = partial(reader.read_call, partial(self._function, *args, **kwargs))
            return await call_function(call, self._function, in_place=context.in_place)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.name!r})"


class ToolFunction(_CallableTool):
    """A function as a tool, described by its name, docstring and annotations.

    Injected parameters (see the module `injected`) are not arguments of the tool. Calling the object calls the
    function. Raises ToolError for a function whose arguments JSON cannot express.
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
        name = check_name(name or getattr(function, "__name__", type(function).__name__))
        docstring = read_docstring(inspect.getdoc(function))
        description = docstring.description if description is None else description
        self._signature = Signature(name, function, docstring.parameters)
        can_write = self._signature.changes_state
        super().__init__(name, description, function, options or ToolOptions(), can_write=can_write)
        self.parameters: Mapping[str, Any] = self._signature.schema
        self.never_from_context = frozenset(never_from_context)
        """The names of arguments that a workflow must set explicitly, and never fills from its context."""

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return self._function(*args, **kwargs)

    def checked(self, arguments: Mapping[str, Any]) -> Mapping[str, Any]:
        """Return the arguments as the function will get them, including defaults, as plain JSON.

        Raises ToolError for wrong arguments.
        """
        return self._signature.normalize(arguments)

    async def call(self, arguments: Mapping[str, Any], *, context: ToolContext) -> Any:
        """Call the function and return its answer. Raises ToolError for wrong arguments, and errors of the function."""
        return await self._call(context, **self._signature.read(arguments), **self._signature.injected_kwargs(context))


async def call_function(call: Callable[[], Any], function: Callable[..., Any], *, in_place: bool = False) -> Any:
    """Call `function` by calling `call`, which has its arguments, and return its answer.

    Plain functions are called on a worker thread. With `in_place` all functions are called on the current thread, on
    which no event loop is running; an awaitable answer is then awaited on a private event loop.
    """
    if in_place:
        answer = call()
        return run_on_private_loop(_await_answer, answer) if inspect.isawaitable(answer) else answer
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
    in_order: bool | None = None,
    return_direct: bool = False,
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
    in_order: bool | None = None,
    return_direct: bool = False,
) -> Any:
    """Decorate a function to make it a tool, as `@tool` or as `@tool(...)` with options; see ToolOptions.

    Raises ToolError for a function whose arguments JSON cannot express.
    """
    options = ToolOptions(
        approve=approve, timeout=timeout, strict=strict, in_order=in_order, return_direct=return_direct
    )
    decorate = partial(ToolFunction, name=name, description=description, options=options)
    return decorate if function is None else decorate(function)


# -- docstrings

_HEADING: Final = re.compile(r"(Args|Arguments|Parameters|Returns|Yields|Raises|Examples?|Notes?):\s*$")
_ARGUMENTS: Final = ("Args", "Arguments", "Parameters")
_ARGUMENT: Final = re.compile(r"(\s*)\*{0,2}(\w+)\s*(?:\([^)]*\))?:\s*(.*)$")
_FIELD: Final = re.compile(r":param\s+(?:[^:]*\s)?(\w+):\s*(.*)$")


class Docstring(NamedTuple):
    """The parts of a docstring in Google's style (`Args:`) or in Sphinx's (`:param name:`)."""

    description: str
    """The text before the first section."""
    parameters: dict[str, str]
    """The descriptions of the parameters, by name."""


def read_docstring(text: str | None) -> Docstring:
    """Parse a docstring."""
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
            _add_argument_line(parameters, line)
        elif section is None:
            description.append(line)
    return Docstring("\n".join(description).strip(), parameters)


def _add_argument_line(parameters: dict[str, str], line: str) -> None:
    """Add a line of an `Args:` section, which begins a new argument or continues the last one."""
    match = _ARGUMENT.match(line)
    is_continuation = len(line) - len(line.lstrip()) > 4
    if match and not (is_continuation and parameters):
        parameters[match[2]] = match[3].strip()
    elif parameters and line.strip():
        last = next(reversed(parameters))
        parameters[last] = f"{parameters[last]} {line.strip()}".strip()


# -- handlers with a schema

Handler = Callable[..., Any]
"""`(arguments)` or `(arguments, context)`: a plain function or a coroutine function."""


_NO_ARGUMENTS: Final[Mapping[str, Any]] = {"type": "object", "properties": {}, "additionalProperties": False}


class HandlerTool(_CallableTool):
    """A tool that passes all validated arguments to a handler as one value.

    A handler that takes the context can write to the state, so its calls are made in order by default.
    """

    def __init__(
        self, name: str, description: str, parameters: Any, handler: Handler, options: ToolOptions | None = None
    ) -> None:
        takes_context = len(inspect.signature(handler).parameters) > 1
        super().__init__(check_name(name), description, handler, options or ToolOptions(), can_write=takes_context)
        self._takes_context = takes_context
        try:
            self._schema = ValueSchema(parameters) if parameters is not None else None
        except UnusableSchema as error:
            raise ToolError(f"The parameters of tool {name!r} cannot be used as a JSON Schema: {error}") from error
        self.parameters: Mapping[str, Any] = self._schema.schema if self._schema is not None else _NO_ARGUMENTS

    def checked(self, arguments: Mapping[str, Any]) -> Mapping[str, Any]:
        """Return the arguments as the handler will get them, including defaults, as plain JSON.

        Raises ToolError for wrong arguments.
        """
        value = self._read(arguments)
        return self._schema.to_json(value) if self._schema is not None else value

    async def call(self, arguments: Mapping[str, Any], *, context: ToolContext) -> Any:
        """Call the handler and return its answer. Raises ToolError for wrong arguments, and errors of the handler."""
        extra = (context,) if self._takes_context else ()
        return await self._call(context, self._read(arguments), *extra)

    def _read(self, arguments: Mapping[str, Any]) -> Any:
        try:
            if self._schema is not None:
                return self._schema.read(dict(arguments))
            if arguments:
                raise ValueError(f"it takes none, but got {', '.join(arguments)}")
            return {}
        except ValueError as error:
            raise WrongCall(f"Tool {self.name!r} was called with wrong arguments: {error}.") from None


def create_tool(
    *,
    name: str,
    description: str = "",
    parameters: Any = None,
    handler: Handler,
    approve: Approval = False,
    timeout: float | None = None,
    strict: bool | None = None,
    in_order: bool | None = None,
    return_direct: bool = False,
) -> HandlerTool:
    """Create a tool from a name, a schema and a handler.

    `parameters` is a pydantic model, a TypedDict or a dataclass, of which the handler gets an instance; or a JSON
    Schema of an object, for which the handler gets a dict; or None if there are no arguments. For the options see
    ToolOptions. Raises ToolError for an invalid name or schema.
    """
    options = ToolOptions(
        approve=approve, timeout=timeout, strict=strict, in_order=in_order, return_direct=return_direct
    )
    return HandlerTool(name, description, parameters, handler, options)
