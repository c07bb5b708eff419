"""The tables of a project file as pydantic models, which define their keys and the types of the values."""

from __future__ import annotations

import re
from math import inf
from typing import Annotated, Any, ClassVar, Final, Literal, cast

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field, Strict

from statewright.data.problems import checked, expects, unexpected
from statewright.runs import is_queue_name
from statewright.workflow.states.mcp import is_path
from statewright.workflow.states.tools import parse_allowed_host

# -- types of values

String = Annotated[str, Strict()]
Integer = Annotated[int, Strict()]
Number = Integer | Annotated[float, Strict()]
"""A number, which is not converted: 1 does not become 1.0."""
Count = Annotated[Integer, Field(ge=1), expects("a whole number of at least 1")]
QueueLimit = Annotated[Integer, Field(ge=1, le=1_000_000), expects("a whole number from 1 to 1000000")]
Concurrency = Annotated[Integer, Field(ge=1, le=100), expects("a whole number from 1 to 100")]
Port = Annotated[Integer, Field(ge=0, le=65535), expects("a whole number from 0 to 65535")]
Temperature = Annotated[Number, Field(ge=0, le=2), expects("a number from 0 to 2")]
Amount = Annotated[Number, Field(gt=0, lt=inf), expects("a number above 0")]
Duration = Annotated[Number, Field(gt=0), expects("a number of seconds above 0")]
Durability = Literal["sync", "async"]
MetricsAccess = Literal["open", "keys", "off"]
_VARIABLE: Final = re.compile(r"env:[A-Za-z_][A-Za-z0-9_]*", re.ASCII)


def _check_list(value: Any) -> tuple[Any, ...]:
    if not isinstance(value, list | tuple):
        raise unexpected("a list of strings")
    return tuple(cast("list[Any]", value))


def check_variable(value: Any) -> Any:
    """Return a value unchanged. Raises ValueError if the value begins with `env:`, but no valid name follows."""
    if isinstance(value, str) and value.startswith("env:") and not _VARIABLE.fullmatch(value):
        raise ValueError("The text after env: is not a valid variable name.", "Write env:NAME.")
    return value


def _check_setting(value: Any) -> Any:
    """Check a setting of an MCP server, unless it has placeholders, whose values are not known yet."""
    return value if "{{" in str(value) else check_variable(value)


def _check_program(command: str) -> str:
    if is_path(command):
        raise ValueError(
            f"{command!r} is not the name of a program.",
            "Write the name without a path, or define the server under [mcp.NAME].",
        )
    return command


def _check_module(module: str) -> str:
    if module.endswith(".py") or not all(part.isidentifier() for part in module.split(".")):
        advice = "Write it as in an import statement, such as 'outreach.handlers'."
        raise ValueError(f"{module!r} is not a valid module name.", advice)
    return module


def check_queue_name(name: str) -> str:
    """Return the name of a queue. Raises ValueError."""
    if not is_queue_name(name):
        advice = "Use 1 to 63 letters, digits, hyphens, dots and underscores."
        raise ValueError(f"{name!r} is not a valid name of a queue.", advice)
    return name


def _check_not_empty(names: tuple[str, ...]) -> tuple[str, ...]:
    if not names:
        raise ValueError("It is an empty list.", "List at least one queue, or remove the key to serve all queues.")
    return names


AsList = BeforeValidator(_check_list)
"""Accepts a list in place of a tuple, which strict validation would reject."""
Strings = Annotated[tuple[String, ...], AsList]
QueueName = Annotated[String, AfterValidator(check_queue_name)]
QueueNames = Annotated[tuple[QueueName, ...], AsList, AfterValidator(_check_not_empty)]
Secret = Annotated[String, AfterValidator(check_variable)]
Settings = dict[str, Annotated[Any, AfterValidator(_check_setting)]]


# -- tables


class Table(BaseModel):
    """Base class of all tables: values are not converted, and unknown keys are errors."""

    model_config: ClassVar[ConfigDict] = ConfigDict(strict=True, extra="forbid", frozen=True)


class Sections(Table):
    """The whole file. The contents of each section are validated separately."""

    assistants: dict[str, Any] = {}
    models: dict[str, Any] = {}
    integrations: dict[str, Any] = {}
    datasources: dict[str, Any] = {}
    tools: dict[str, Any] = {}
    mcp: dict[str, Any] = {}
    workflows: dict[str, Any] = {}
    defaults: dict[str, Any] = {}
    graphs: dict[str, Any] = {}
    handlers: dict[str, Any] = {}
    serve: dict[str, Any] = {}
    queues: dict[str, Any] = {}
    spending_limits: dict[str, Any] = {}


class AssistantTable(Table):
    """`[assistants.NAME]`."""

    system_prompt: str | None = None
    prompt_file: str | None = None
    model: str | None = None
    temperature: Temperature | None = None
    tools: list[Any] = []
    name: str | None = None


class AssistantToolTable(Table):
    """A tool of an assistant. A string stands for a table with only that `name`."""

    name: str = Field(examples=['name = "read_file"'])
    integration_alias: str | None = None


class ModelTable(Table):
    """`[models.NAME]`."""

    name: str = Field(examples=['name = "openai:gpt-5"'])
    base_url: str | None = None
    api_key: Secret | None = None
    timeout: Duration | None = None
    headers: dict[str, Secret] = {}
    settings: dict[str, Any] = {}
    temperature: Temperature | None = None
    max_tokens: Count | None = None


class McpServerTable(Table):
    """`[mcp.NAME]`. Unlike a server in a workflow, it is trusted, so any program and any host is allowed."""

    command: str | None = None
    args: Annotated[list[str], expects("a list of strings")] = []
    env: Settings = {}
    cwd: str | None = None
    url: str | None = None
    headers: Settings = {}
    type: str | None = None
    auth_token: Secret | None = None
    integration_alias: str | None = None
    single_usage: bool = False
    timeout: Duration | None = None
    connect_timeout: Duration | None = None


class ToolsTable(Table):
    """The settings in `[tools]`, without its functions."""

    allow_shell: bool = False
    allow_hosts: Annotated[tuple[Annotated[str, checked(parse_allowed_host)], ...], AsList] = ()
    mcp_commands: Annotated[tuple[Annotated[str, AfterValidator(_check_program)], ...], AsList] = ()
    root: str | None = None


class GraphTable(Table):
    """`[graphs.NAME]`. A string stands for a table with only that `path` or `file`."""

    path: str | None = None
    file: str | None = None
    description: str | None = None
    on_failure: str | None = None
    version: str | None = None
    queue: QueueName | None = None


class QueueTable(Table):
    """`[queues.NAME]`."""

    max_running: QueueLimit | None = None
    starts_per_minute: QueueLimit | None = None
    tags: Strings = ()


class DataSourceTable(Table):
    """`[datasources.NAME]`."""

    folder: str = Field(examples=['folder = "documents"'])
    glob: str = "**"


class WorkflowTable(Table):
    """`[workflows.NAME]`."""

    file: str = Field(examples=['file = "workflow.yaml"'])
    description: str | None = None


class HandlersTable(Table):
    """`[handlers]`."""

    modules: Annotated[tuple[Annotated[str, AfterValidator(_check_module)], ...], AsList] = ()


class LimitsTable(Table):
    """`[spending_limits]` or `[spending_limits.WORKSPACE]`."""

    tokens_per_day: Count | None = None
    cost_per_day: Amount | None = None
    requests_per_day: Count | None = None
