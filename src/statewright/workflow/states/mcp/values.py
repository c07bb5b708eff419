"""The values that descriptions of servers may name: those of an integration, and of the environment.

They are put in once. What a model or a tool has answered is put into arguments of programs only, and only where the
workflow says so: an address or a header that a model chooses would lead anywhere, with everything that is secret.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final, cast

from statewright.agents import Credentials
from statewright.errors import MissingKey, ToolError
from statewright.workflow.states.tools import FROM_ENVIRONMENT

if TYPE_CHECKING:
    from statewright.workflow.states.templates.template import Template

_WITH_ENVIRONMENT: Final = ("env", "headers")


class Values:
    """Fills in what one server's description names, and remembers what is secret."""

    def __init__(self, server: str, credentials: Credentials) -> None:
        self._server = server
        self._credentials = credentials
        self._known: dict[str, Any] = dict(credentials)
        self.secrets: set[str] = set()
        """What came from the environment."""

    def fill(self, written: Mapping[str, Any], context: Mapping[str, Any] | None) -> dict[str, Any]:
        """A description with values for what it names; `context` is what arguments may name besides, if they may."""
        filled = dict(written)
        for name in _WITH_ENVIRONMENT:
            if isinstance(given := written.get(name), Mapping):
                filled[name] = {key: self._value(f"{name}.{key}", one) for key, one in _pairs(given)}
        # The program's own variables may be named too, in what comes after.
        self._known = {**(filled.get("env") or {}), **self._known}
        for name in ("command", "url", "auth_token"):
            if name in written:
                filled[name] = self._value(name, written[name], from_environment=name == "auth_token")
        if isinstance(args := written.get("args"), list):
            scope = {**(context or {}), **self._known}
            filled["args"] = [_argument(one, scope) for one in cast("list[Any]", args)]
        return filled

    def _value(self, where: str, written: Any, *, from_environment: bool = True) -> Any:
        if not isinstance(written, str):
            return written
        if from_environment and written.startswith(FROM_ENVIRONMENT):
            return self._from_environment(where, written[len(FROM_ENVIRONMENT) :])
        template = _parse(written)
        for name in sorted(template.names - self._known.keys()):
            raise ToolError(
                f"MCP server {self._server!r}: {where} names {{{{{name}}}}}, which has no value. It may name "
                f"{', '.join(sorted(self._known)) or 'nothing'}: give the server an integration_alias that has it. "
                f"Values of a run are for args only."
            )
        return template.render(self._known)

    def _from_environment(self, where: str, variable: str) -> str:
        found = os.environ.get(variable)
        if not found:
            raise MissingKey(
                f"MCP server {self._server!r} takes {where} from the environment variable {variable}, which is not "
                f"set. Set it where Statewright runs."
            )
        self.secrets.add(found)
        return found


def names_context(args: Any, context: Mapping[str, Any], known: Mapping[str, Any]) -> bool:
    """Whether arguments name something that only the context has."""
    texts = [one for one in cast("list[Any]", args) if isinstance(one, str)] if isinstance(args, list) else []
    named = {name for text in texts for name in _parse(text).names}
    return bool((named & context.keys()) - known.keys())


def _parse(text: str) -> Template:
    from statewright.workflow.states.templates import parse_template  # not above: projects without YAML get this far

    return parse_template(text, simple=True)


def _argument(written: Any, scope: Mapping[str, Any]) -> Any:
    """One argument stays one, whatever is put into it."""
    return _parse(written).render(scope) if isinstance(written, str) else written


def _pairs(given: Any) -> Any:
    return cast("Mapping[str, Any]", given).items()
