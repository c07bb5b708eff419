"""Python functions as tools: described by their docstrings and annotations, or by a schema.

A handler gets all arguments as one value, which its schema describes.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Collection, Mapping
from functools import partial
from typing import Any, Final, NamedTuple, cast, overload

from pydantic import ValidationError

from statewright.agents.tools.answers import IteratorReader
from statewright.agents.tools.signature import Signature
from statewright.agents.tools.tool import Approval, ToolContext, ToolOptions, WrongCall, check_name, describe_problems
from statewright.data.json_schema import UnusableSchema, json_schema_validator
from statewright.errors import ToolError
from statewright.graph import is_coroutine_function
from statewright.runtime.concurrency.private_loop import run_privately
from statewright.runtime.concurrency.worker_threads import call_in_thread
from statewright.state import type_adapter


class ToolFunction:
    """A function as a tool, described by its name, docstring and annotations.

    A plain function is called, and a generator read, on a worker thread. Injected parameters, see `injected`, are not
    arguments of the tool. Calling the object calls the function. Raises ToolError for a function whose arguments cannot
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
        docstring = read_docstring(inspect.getdoc(function))
        self.description = docstring.description if description is None else description
        self.never_from_context = frozenset(never_from_context)
        """Arguments that a workflow does not fill from its context: they must be written explicitly."""
        self.options = options or ToolOptions()
        self._function = function
        self._signature = Signature(self.name, function, docstring.parameters)
        in_order = self.options.in_order
        self.in_order = self._signature.changes_state if in_order is None else in_order
        self.is_plain = not is_coroutine_function(function)
        self.parameters: Mapping[str, Any] = self._signature.schema

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return self._function(*args, **kwargs)

    def checked(self, arguments: Mapping[str, Any]) -> Mapping[str, Any]:
        """Return the arguments as the tool reads them, defaults included, as plain JSON. Raises ToolError."""
        return self._signature.normalize(arguments)

    async def call(self, arguments: Mapping[str, Any], *, context: ToolContext) -> Any:
        """Return the answer of the function. Raises ToolError for wrong arguments, and errors of the function."""
        kwargs = {**self._signature.read(arguments), **self._signature.injected_kwargs(context)}
        with IteratorReader(self.name) as reader:
            call = partial(reader.read_call, partial(self._function, **kwargs))
            return await call_function(call, self._function, in_place=context.in_place)

    def __repr__(self) -> str:
        return f"ToolFunction({self.name!r})"


async def call_function(call: Callable[[], Any], function: Callable[..., Any], *, in_place: bool = False) -> Any:
    """Call a function and return its answer: a coroutine function on the loop, another on a worker thread or in place.

    In place nothing is awaited: an awaitable answer is run on a private event loop.
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
    """Make a tool of a function: a decorator, with or without options.

    With `approve` a person must approve each call; `timeout` is in seconds; `return_direct` ends the agent with the
    answer of the tool; `in_order` makes its calls one after another, which is the default for tools that can write to
    the state of a network. Raises ToolError for a function whose arguments cannot be described.
    """
    options = ToolOptions(
        approve=approve, timeout=timeout, strict=strict, return_direct=return_direct, in_order=in_order
    )

    def decorate(decorated: Callable[..., Any]) -> ToolFunction:
        return ToolFunction(decorated, name=name, description=description, options=options)

    return decorate if function is None else decorate(function)


# -- docstrings

_HEADING: Final = re.compile(r"(Args|Arguments|Parameters|Returns|Yields|Raises|Examples?|Notes?):\s*$")
_ARGUMENTS: Final = ("Args", "Arguments", "Parameters")
_ARGUMENT: Final = re.compile(r"(\s*)\*{0,2}(\w+)\s*(?:\([^)]*\))?:\s*(.*)$")
_FIELD: Final = re.compile(r":param\s+(?:[^:]*\s)?(\w+):\s*(.*)$")


class Docstring(NamedTuple):
    """The parts of a docstring: Google's `Args:` and Sphinx's `:param name:` are supported."""

    description: str
    """The text before the first section."""
    parameters: dict[str, str]


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
    """Add a line of an `Args:` section: a new argument, or the continuation of the last one."""
    match = _ARGUMENT.match(line)
    is_continuation = len(line) - len(line.lstrip()) > 4
    if match and not (is_continuation and parameters):
        parameters[match[2]] = match[3].strip()
    elif parameters and line.strip():
        last = next(reversed(parameters))
        parameters[last] = f"{parameters[last]} {line.strip()}".strip()


# -- handlers with a schema

Handler = Callable[..., Any]
"""`(arguments)` or `(arguments, context)`; plain or a coroutine function."""


class HandlerTool:
    """A tool that passes all validated arguments to a handler as one value.

    Calls of a handler that takes the context are made in order by default, since it can write to the state.
    """

    def __init__(
        self, name: str, description: str, parameters: Any, handler: Handler, options: ToolOptions | None = None
    ) -> None:
        self.name = check_name(name)
        self.description = description
        self.options = options or ToolOptions()
        self._handler = handler
        self._takes_context = len(inspect.signature(handler).parameters) > 1
        in_order = self.options.in_order
        self.in_order = self._takes_context if in_order is None else in_order
        self.is_plain = not is_coroutine_function(handler)
        self.parameters, self._read, self._to_json = _argument_schema(name, parameters)

    def checked(self, arguments: Mapping[str, Any]) -> Mapping[str, Any]:
        """Return the arguments as the handler gets them, defaults included, as plain JSON. Raises ToolError."""
        return self._to_json(self._read(arguments))

    async def call(self, arguments: Mapping[str, Any], *, context: ToolContext) -> Any:
        """Return the answer of the handler. Raises ToolError for wrong arguments, and errors of the handler."""
        value = self._read(arguments)
        call = partial(self._handler, value, context) if self._takes_context else partial(self._handler, value)
        with IteratorReader(self.name) as reader:
            return await call_function(partial(reader.read_call, call), self._handler, in_place=context.in_place)

    def __repr__(self) -> str:
        return f"HandlerTool({self.name!r})"


def create_tool(
    *,
    name: str,
    description: str = "",
    parameters: Any = None,
    handler: Handler,
    approve: Approval = False,
    timeout: float | None = None,
    strict: bool | None = None,
    return_direct: bool = False,
    in_order: bool | None = None,
) -> HandlerTool:
    """Create a tool from a name, a schema and a handler.

    `parameters` is a pydantic model, a TypedDict or a dataclass, of which the handler gets an instance; or a JSON
    Schema of an object, for which it gets a dict; None for no arguments. Options are those of `tool`. Raises ToolError
    for an invalid name or schema.
    """
    options = ToolOptions(
        approve=approve, timeout=timeout, strict=strict, return_direct=return_direct, in_order=in_order
    )
    return HandlerTool(name, description, parameters, handler, options)


Read = Callable[[Mapping[str, Any]], Any]
_NO_ARGUMENTS: Final[Mapping[str, Any]] = {"type": "object", "properties": {}, "additionalProperties": False}


def _argument_schema(tool: str, parameters: Any) -> tuple[Mapping[str, Any], Read, Callable[[Any], Mapping[str, Any]]]:
    """Return the schema of the arguments, a reader, and a function that converts the read value back to plain JSON."""
    if parameters is None:
        return _NO_ARGUMENTS, partial(_no_arguments, tool), _identity
    if isinstance(parameters, Mapping):
        schema = dict(cast("Mapping[str, Any]", parameters))
        return schema, _reader_of_schema(tool, schema), _identity
    adapter = type_adapter(parameters)
    return adapter.json_schema(), _reader_of_class(tool, adapter), partial(adapter.dump_python, mode="json")


def _identity(arguments: Mapping[str, Any]) -> Mapping[str, Any]:
    return arguments


def _no_arguments(tool: str, arguments: Mapping[str, Any]) -> dict[str, Any]:
    if arguments:
        raise WrongCall(_refusal_message(tool, f"it takes none, but got {', '.join(arguments)}"))
    return {}


def _reader_of_class(tool: str, adapter: Any) -> Read:
    def read(arguments: Mapping[str, Any]) -> Any:
        try:
            return adapter.validate_python(dict(arguments))
        except ValidationError as error:
            raise WrongCall(_refusal_message(tool, describe_problems(error.errors()))) from None

    return read


def _reader_of_schema(tool: str, schema: dict[str, Any]) -> Read:
    try:
        validator = json_schema_validator(schema, extra="models")
    except UnusableSchema as error:
        raise ToolError(f"The parameters of tool {tool!r} cannot be used as a JSON Schema: {error}") from error

    def read(arguments: Mapping[str, Any]) -> Any:
        value = dict(arguments)
        problems = "; ".join(_error_path(error) + str(error.message) for error in validator.iter_errors(value))
        if problems:
            raise WrongCall(_refusal_message(tool, problems))
        return value

    return read


def _error_path(error: Any) -> str:
    path = ".".join(map(str, error.instance_path))
    return f"{path}: " if path else ""


def _refusal_message(tool: str, problems: str) -> str:
    return f"Tool {tool!r} was called with wrong arguments: {problems}."
