"""Values in the configuration of servers: those of an integration and of the environment.

Values are filled in once. Answers of models and tools are filled into program arguments only, and only if the workflow
enables it: a URL or header chosen by a model could send the secrets anywhere.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final, cast

from statewright.agents import Credentials
from statewright.errors import MissingApiKey, ToolError
from statewright.workflow.states.tools import FROM_ENVIRONMENT

if TYPE_CHECKING:
    from statewright.workflow.states.templates.template import Template

_WITH_ENVIRONMENT: Final = ("env", "headers")


class ServerValues:
    """Fills in the configuration of one server, and collects its secrets."""

    def __init__(self, server: str, credentials: Credentials) -> None:
        self._server = server
        self._credentials = credentials
        self._values: dict[str, Any] = dict(credentials)
        self.secrets: set[str] = set()
        """The values from the environment."""

    def fill(self, config: Mapping[str, Any], context: Mapping[str, Any] | None) -> dict[str, Any]:
        """Fill in a configuration. Arguments may also refer to names of `context`, if it is given."""
        filled = dict(config)
        for name in _WITH_ENVIRONMENT:
            if isinstance(values := config.get(name), Mapping):
                filled[name] = {key: self._value(f"{name}.{key}", value) for key, value in _items(values)}
        # The keys below may also refer to the variables of the program.
        self._values = {**(filled.get("env") or {}), **self._values}
        for name in ("command", "url", "auth_token"):
            if name in config:
                filled[name] = self._value(name, config[name], from_environment=name == "auth_token")
        if isinstance(args := config.get("args"), list):
            scope = {**(context or {}), **self._values}
            filled["args"] = [_argument(value, scope) for value in cast("list[Any]", args)]
        return filled

    def _value(self, where: str, value: Any, *, from_environment: bool = True) -> Any:
        if not isinstance(value, str):
            return value
        if from_environment and value.startswith(FROM_ENVIRONMENT):
            return self._from_environment(where, value[len(FROM_ENVIRONMENT) :])
        template = _parse(value)
        for name in sorted(template.names - self._values.keys()):
            raise ToolError(
                f"MCP server {self._server!r}: {where} refers to {{{{{name}}}}}, which has no value. It may refer to "
                f"{', '.join(sorted(self._values)) or 'nothing'}: set an integration_alias that defines it. "
                f"Only args may refer to values of a run."
            )
        return template.render(self._values)

    def _from_environment(self, where: str, variable: str) -> str:
        value = os.environ.get(variable)
        if not value:
            raise MissingApiKey(
                f"MCP server {self._server!r} takes {where} from the environment variable {variable}, which is not "
                f"set. Set it where Statewright runs."
            )
        self.secrets.add(value)
        return value


def names_context(args: Any, context: Mapping[str, Any], credentials: Mapping[str, Any]) -> bool:
    """Return whether arguments refer to names that only the context defines."""
    texts = [text for text in cast("list[Any]", args) if isinstance(text, str)] if isinstance(args, list) else []
    named = {name for text in texts for name in _parse(text).names}
    return bool((named & context.keys()) - credentials.keys())


def _parse(text: str) -> Template:
    # Imported here, because projects without the extra `states` use this module too.
    from statewright.workflow.states.templates import parse_template

    return parse_template(text, simple=True)


def _argument(value: Any, scope: Mapping[str, Any]) -> Any:
    """Fill in one argument, which stays a single argument."""
    return _parse(value).render(scope) if isinstance(value, str) else value


def _items(mapping: Any) -> Any:
    return cast("Mapping[str, Any]", mapping).items()
