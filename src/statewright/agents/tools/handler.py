"""Tools made of a schema and a handler that takes all arguments as one value."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, Final, cast

from pydantic import ValidationError

from statewright.agents.tools.answers import IteratorReader
from statewright.agents.tools.function import call_function
from statewright.agents.tools.tool import Approval, ToolContext, ToolOptions, WrongCall, check_name
from statewright.errors import ToolError
from statewright.graph import is_coroutine_function
from statewright.json_schema import UnusableSchema, json_schema_validator
from statewright.state import type_adapter

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
        self.parameters, self._read, self._plain = _argument_schema(name, parameters)

    def checked(self, arguments: Mapping[str, Any]) -> Mapping[str, Any]:
        """Return the arguments as the handler gets them, defaults included, as plain JSON. Raises ToolError."""
        return self._plain(self._read(arguments))

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
_NOTHING: Final[Mapping[str, Any]] = {"type": "object", "properties": {}, "additionalProperties": False}


def _argument_schema(tool: str, parameters: Any) -> tuple[Mapping[str, Any], Read, Callable[[Any], Mapping[str, Any]]]:
    """Return the schema of the arguments, a reader, and a function that converts the read value back to plain JSON."""
    if parameters is None:
        return _NOTHING, partial(_no_arguments, tool), _identity
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
            problems = "; ".join(f"{'.'.join(map(str, one['loc']))}: {one['msg']}" for one in error.errors())
            raise WrongCall(_refusal_message(tool, problems)) from None

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
