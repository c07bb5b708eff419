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
    """Calls a handler with arguments that fit a schema, as one value.

    It is taken to write to the state if the handler takes the context: then its calls are made in order.
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
        """The arguments as they will be understood, defaults included, as plain JSON. Raises ToolError."""
        return self._plain(self._read(arguments))

    async def call(self, arguments: Mapping[str, Any], *, context: ToolContext) -> Any:
        """What the handler answers. Raises ToolError for arguments that do not fit, and what the handler raises."""
        given = self._read(arguments)
        call = partial(self._handler, given, context) if self._takes_context else partial(self._handler, given)
        with IteratorReader(self.name) as gathering:
            return await call_function(partial(gathering.read_call, call), self._handler, in_place=context.in_place)

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
    """A tool of a name, a schema and a handler.

    `parameters` are a pydantic model, a TypedDict or a dataclass, whose instance the handler gets; or a JSON Schema
    of an object, and it gets a dict; None takes nothing. Options are those of `tool`. Raises ToolError for a name or
    schema that cannot be.
    """
    options = ToolOptions(
        approve=approve, timeout=timeout, strict=strict, return_direct=return_direct, in_order=in_order
    )
    return HandlerTool(name, description, parameters, handler, options)


Read = Callable[[Mapping[str, Any]], Any]
_NOTHING: Final[Mapping[str, Any]] = {"type": "object", "properties": {}, "additionalProperties": False}


def _argument_schema(tool: str, parameters: Any) -> tuple[Mapping[str, Any], Read, Callable[[Any], Mapping[str, Any]]]:
    """The schema of the arguments, what reads them, and what makes plain JSON again of what was read."""
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
        raise WrongCall(_refusal_message(tool, f"it takes none, and was given {', '.join(arguments)}"))
    return {}


def _reader_of_class(tool: str, adapter: Any) -> Read:
    def read(arguments: Mapping[str, Any]) -> Any:
        try:
            return adapter.validate_python(dict(arguments))
        except ValidationError as error:
            wrong = "; ".join(f"{'.'.join(map(str, one['loc']))}: {one['msg']}" for one in error.errors())
            raise WrongCall(_refusal_message(tool, wrong)) from None

    return read


def _reader_of_schema(tool: str, schema: dict[str, Any]) -> Read:
    try:
        validator = json_schema_validator(schema, extra="models")
    except UnusableSchema as error:
        raise ToolError(f"The parameters of tool {tool!r} cannot be used as a JSON Schema: {error}") from error

    def read(arguments: Mapping[str, Any]) -> Any:
        given = dict(arguments)
        wrong = "; ".join(_error_path(one) + str(one.message) for one in validator.iter_errors(given))
        if wrong:
            raise WrongCall(_refusal_message(tool, wrong))
        return given

    return read


def _error_path(error: Any) -> str:
    path = ".".join(map(str, error.instance_path))
    return f"{path}: " if path else ""


def _refusal_message(tool: str, wrong: str) -> str:
    return f"Tool {tool!r} was called with other arguments than it takes: {wrong}."
