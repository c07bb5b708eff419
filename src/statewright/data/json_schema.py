"""Validators for JSON Schemas from sources that need not be trusted: workflow files, MCP servers, HTTP requests.

A schema is one document. A `$ref` or `$schema` that leads out of it is refused, because it would make the process read
a file or call a host of the author's choice, as soon as the schema is checked.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NoReturn

from statewright.extras import optional


class UnusableSchema(ValueError):
    """A value is not a valid JSON Schema, or has a reference that leads nowhere."""

    def __init__(self, message: str, *, has_bad_reference: bool = False) -> None:
        self.has_bad_reference = has_bad_reference
        """True if a reference cannot be resolved within the schema."""
        super().__init__(message)


def json_schema_validator(schema: Mapping[str, Any], *, extra: str) -> Any:
    """Return a validator of jsonschema-rs, which comes with `statewright[extra]`.

    Raises UnusableSchema, and MissingLibrary. Neither this function nor the validator reads anything but the schema.
    """
    with optional("Checking a JSON Schema needs", extra=extra):
        import jsonschema_rs
    try:
        return jsonschema_rs.validator_for(dict(schema), retriever=_refuse)
    except ValueError as error:  # jsonschema_rs.ValidationError is one
        reason = str(error).partition("\n")[0].rstrip(".")
        if isinstance(getattr(error, "kind", None), jsonschema_rs.ValidationErrorKind.Referencing):
            raise UnusableSchema(
                f"{reason}. Nothing outside the schema is read: put the definition under $defs.",
                has_bad_reference=True,
            ) from error
        raise UnusableSchema(f"{reason}.") from error


def _refuse(uri: str) -> NoReturn:
    raise ValueError(f"{uri} is outside the schema")
