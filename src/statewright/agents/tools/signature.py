"""Validation of values that models write.

`Signature` validates arguments by the signature of a function; `ValueSchema` validates any value by a class or a JSON
Schema.
"""

from __future__ import annotations

import inspect
import json
from collections.abc import Callable, Mapping
from types import NoneType, UnionType
from typing import Annotated, Any, Final, Union, cast, get_args, get_origin

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, PydanticUserError, ValidationError, create_model
from pydantic.json_schema import GenerateJsonSchema

from statewright.agents.tools.answers import as_text
from statewright.agents.tools.injected import injected_sources
from statewright.agents.tools.tool import ToolContext, WrongCall, describe_problems
from statewright.channels import MISSING
from statewright.data.json_schema import json_schema_validator
from statewright.errors import ToolError, suggestion
from statewright.state import modern_typeddict, type_adapter

_MAX_QUOTED: Final = 100
"""Maximum characters of a value that an error quotes."""
_POSITIONAL: Final = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.VAR_POSITIONAL)


class Signature:
    """The parameters of a function: injected parameters; and arguments, with their JSON Schema."""

    def __init__(self, tool: str, function: Callable[..., Any], descriptions: Mapping[str, str]) -> None:
        """`tool` is the name of the tool, and `descriptions` has the descriptions of arguments by name."""
        self._tool = tool
        parameters = _parameters_of(tool, function)
        self._injected = injected_sources(tool, parameters)
        arguments = [parameter for parameter in parameters if parameter.name not in self._injected]
        self._names = [parameter.name for parameter in arguments if not _is_var_keyword(parameter)]
        self._model = _build_model(tool, arguments, descriptions)
        self.schema = _build_schema(self._model)

    @property
    def changes_state(self) -> bool:
        """True if the function can write to the state through a parameter."""
        return any(source.changes_state for source in self._injected.values())

    def injected_kwargs(self, context: ToolContext) -> dict[str, Any]:
        """Return the values of the injected parameters, without those that keep their defaults.

        Raises InvalidConfig for a parameter that has neither a value nor a default.
        """
        values = {name: source.resolve_value(self._tool, name, context) for name, source in self._injected.items()}
        return {name: value for name, value in values.items() if value is not MISSING}

    def normalize(self, arguments: Mapping[str, Any]) -> dict[str, Any]:
        """Return the arguments as the function will get them, including defaults, as plain JSON.

        Raises WrongCall for invalid arguments.
        """
        return self._validated(arguments).model_dump(mode="json", by_alias=True, serialize_as_any=True, fallback=str)

    def read(self, arguments: Mapping[str, Any]) -> dict[str, Any]:
        """Return the arguments converted to the types of the parameters. Raises WrongCall with all problems."""
        validated = self._validated(arguments)
        values = {
            name: getattr(validated, _field_name(index))
            for index, name in enumerate(self._names)
            if _field_name(index) in validated.model_fields_set
        }
        return {**values, **(validated.model_extra or {})}

    def _validated(self, arguments: Mapping[str, Any]) -> BaseModel:
        for name in self._injected:
            if name in arguments:  # even a function with **kwargs must not get an injected value from the model
                raise WrongCall(
                    self._refusal_message([{"type": "extra_forbidden", "loc": (name,), "input": arguments[name]}])
                )
        try:
            return self._model.model_validate(dict(arguments))
        except ValidationError as error:
            raise WrongCall(self._refusal_message(cast("list[Any]", error.errors(include_url=False)))) from None

    def _refusal_message(self, errors: list[Any]) -> str:
        problems = "; ".join(dict.fromkeys(map(self._describe_problem, errors)))
        expected = ", ".join(_describe_argument(name, self.schema) for name in self._names) or "nothing"
        return f"Tool {self._tool!r} was called with wrong arguments: {problems}. It takes {expected}."

    def _describe_problem(self, error: Any) -> str:
        name = ".".join(map(str, error["loc"]))
        if error["type"] == "missing":
            return f"{name!r} is missing"
        if error["type"] == "extra_forbidden" and len(error["loc"]) == 1:
            # The list of all arguments is removed from the hint, because the message ends with it anyway.
            hint = suggestion(name, self._names, noun="Arguments").split("Arguments:")[0].rstrip(" ?")
            return f"argument {name!r} does not exist{f' ({hint}?)' if hint else ''}"
        return f"{name!r} is {repr(error['input'])[:_MAX_QUOTED]}: {error['msg']}"


class _PlainSchema(GenerateJsonSchema):
    """Generates schemas without titles, which only repeat names, and without warnings about unserializable defaults."""

    ignored_warning_kinds = {"skipped-choice", "non-serializable-default"}  # noqa: RUF012  # pydantic's declaration

    def field_title_should_be_set(self, schema: Any) -> bool:
        return False


def _parameters_of(tool: str, function: Callable[..., Any]) -> list[inspect.Parameter]:
    try:
        parameters = list(inspect.signature(function, eval_str=True).parameters.values())
    except (NameError, TypeError, ValueError, SyntaxError, AttributeError) as error:
        raise ToolError(
            f"The signature of tool {tool!r} cannot be read: {error}. Annotate it with known types."
        ) from error
    positional = [parameter.name for parameter in parameters if parameter.kind in _POSITIONAL]
    if positional:
        raise ToolError(
            f"Tool {tool!r} takes {positional[0]!r} by position only, but arguments are passed by name. Make it a "
            f"named parameter."
        )
    return parameters


def _is_var_keyword(parameter: inspect.Parameter) -> bool:
    return parameter.kind is inspect.Parameter.VAR_KEYWORD


def _build_model(tool: str, parameters: list[inspect.Parameter], descriptions: Mapping[str, str]) -> type[BaseModel]:
    """Build a pydantic model of the arguments.

    Its fields are numbered, and the names of the arguments are their aliases, because an argument may have the name of
    an attribute of pydantic models, such as `schema`.
    """
    var_keyword = next(filter(_is_var_keyword, parameters), None)
    named = [parameter for parameter in parameters if not _is_var_keyword(parameter)]
    fields: dict[str, Any] = {
        _field_name(index): _field_definition(parameter, descriptions) for index, parameter in enumerate(named)
    }
    # Numbers are accepted for strings, because language models sometimes write numbers in place of strings; and strings
    # for numbers, because templates render numbers as strings.
    config = ConfigDict(extra="forbid" if var_keyword is None else "allow", coerce_numbers_to_str=True)
    try:
        return create_model("Arguments", __base__=_base_model(var_keyword, config), **fields)
    except (PydanticUserError, TypeError) as error:
        raise ToolError(f"The arguments of tool {tool!r} have types that JSON cannot express: {error}") from error


def _base_model(var_keyword: inspect.Parameter | None, config: ConfigDict) -> type[BaseModel]:
    """Return the base class of the model, which validates extra arguments by the annotation of `**kwargs`, if any."""
    if var_keyword is None or var_keyword.annotation in (inspect.Parameter.empty, Any):
        return type("Arguments", (BaseModel,), {"model_config": config})
    hints = {"__pydantic_extra__": dict[str, modern_typeddict(var_keyword.annotation)]}
    return type("Arguments", (BaseModel,), {"model_config": config, "__annotations__": hints, "__module__": __name__})


def _field_name(index: int) -> str:
    return f"argument_{index}"


def _field_definition(parameter: inspect.Parameter, descriptions: Mapping[str, str]) -> tuple[Any, Any]:
    """Return the annotation and the FieldInfo of the model's field for a parameter."""
    is_unannotated = parameter.annotation is inspect.Parameter.empty
    hint: Any = Any if is_unannotated else modern_typeddict(parameter.annotation)
    if _is_text(hint):
        hint = Annotated[hint, BeforeValidator(_to_text)]
    default: Any = ... if parameter.default is inspect.Parameter.empty else parameter.default
    options: dict[str, Any] = {"description": descriptions[parameter.name]} if parameter.name in descriptions else {}
    return hint, Field(default, alias=parameter.name, **options)


def _is_text(hint: Any) -> bool:
    """Return True for the annotation of a parameter that takes only strings, or strings and None."""
    if get_origin(hint) is Annotated:
        return _is_text(get_args(hint)[0])
    return hint is str or (get_origin(hint) in (Union, UnionType) and set(get_args(hint)) == {str, NoneType})


def _to_text(value: Any) -> Any:
    """Convert a mapping, list or bool to text: a template that is a single placeholder yields the value itself."""
    return as_text(value) if isinstance(value, dict | list | bool) else value


def _build_schema(model: type[BaseModel]) -> dict[str, Any]:
    schema = model.model_json_schema(schema_generator=_PlainSchema)
    schema.pop("title", None)
    schema.setdefault("properties", {})
    return schema


def _describe_argument(name: str, schema: Mapping[str, Any]) -> str:
    type_name = _type_name(schema["properties"][name])
    is_optional = name not in schema.get("required", ())
    return f"{name} ({type_name}{', optional' if is_optional else ''})"


def _type_name(schema: Mapping[str, Any]) -> str:
    if "anyOf" in schema:
        return " or ".join(dict.fromkeys(_type_name(option) for option in schema["anyOf"]))
    if "enum" in schema:
        return ", ".join(map(str, schema["enum"]))
    return str(schema.get("type", "anything" if "$ref" not in schema else "object"))


# -- values of any kind


class ValueSchema:
    """Validates values by a JSON Schema, a pydantic model, a dataclass or a TypedDict.

    Raises UnusableSchema for an invalid JSON Schema, and pydantic's errors for a class that pydantic does not support.
    """

    def __init__(self, source: Any) -> None:
        self._adapter: Any = None
        if isinstance(source, Mapping):
            self.schema = dict(cast("Mapping[str, Any]", source))
            self._validator = json_schema_validator(self.schema, extra="models")
        else:
            self._adapter = type_adapter(source)
            self.schema = cast("dict[str, Any]", self._adapter.json_schema())

    def read(self, value: Any) -> Any:
        """Return a value converted to an instance of the class; with a JSON Schema, return it unchanged.

        Raises ValueError with all problems of an invalid value.
        """
        if self._adapter is not None:
            return _validate(self._adapter.validate_python, value)
        problems = "; ".join(_error_path(error) + str(error.message) for error in self._validator.iter_errors(value))
        if problems:
            raise ValueError(problems)
        return value

    def read_json(self, text: str) -> Any:
        """Like `read`, for a value that is written as JSON text."""
        return self.read(json.loads(text)) if self._adapter is None else _validate(self._adapter.validate_json, text)

    def to_json(self, value: Any) -> Any:
        """Convert a value that `read` returned to plain JSON."""
        return value if self._adapter is None else self._adapter.dump_python(value, mode="json")


def _validate(validate: Callable[[Any], Any], value: Any) -> Any:
    """Validate a value with a function of pydantic. Raises ValueError with all problems of an invalid value."""
    try:
        return validate(value)
    except ValidationError as error:
        raise ValueError(describe_problems(error.errors(), "the value")) from None


def _error_path(error: Any) -> str:
    """Return the path of the invalid part of a value, with a colon; an empty string for the whole value."""
    path = ".".join(map(str, error.instance_path))
    return f"{path}: " if path else ""
