"""Validators for JSON Schemas from untrusted sources: workflow files, MCP servers, HTTP requests.

A `$ref` or `$schema` that points outside the schema is refused. Otherwise, merely building the validator would make the
process read a file or contact a host that the author of the schema has chosen.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NoReturn

from statewright.extras import optional


class UnusableSchema(ValueError):
    """A value is not a valid JSON Schema, or has a reference that cannot be resolved."""

    def __init__(self, message: str, *, has_bad_reference: bool = False) -> None:
        self.has_bad_reference = has_bad_reference
        """True if a reference cannot be resolved within the schema."""
        super().__init__(message)


def json_schema_validator(schema: Mapping[str, Any], *, extra: str) -> Any:
    """Return a jsonschema-rs validator. `extra` is the extra of this package that installs the library.

    Raises UnusableSchema and MissingLibrary. Neither this function nor the validator reads files or opens connections.
    """
    with optional("Checking a JSON Schema needs", extra=extra):
        import jsonschema_rs
    try:
        return jsonschema_rs.validator_for(dict(schema), retriever=_refuse)
    except ValueError as error:  # jsonschema_rs.ValidationError is one
        reason = str(error).partition("\n")[0].rstrip(".")
        if isinstance(getattr(error, "kind", None), jsonschema_rs.ValidationErrorKind.Referencing):
            raise UnusableSchema(
                f"{reason}. References to anything outside the schema are refused: put the definition under $defs.",
                has_bad_reference=True,
            ) from error
        raise UnusableSchema(f"{reason}.") from error


def _refuse(uri: str) -> NoReturn:
    raise ValueError(f"{uri} is outside the schema")
