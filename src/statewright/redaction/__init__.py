"""Masking of secrets, which are recognised by name, by shape, or as known values.

- `is_secret_name` and `SecretNames` recognise the names of fields, headers and variables that contain secrets.
- `find_secret` and `Redactor` recognise the shapes of secrets in text; `looks_secret` checks both a name and a shape.
- `KnownSecrets` finds known values in all common spellings.
- `without_secrets` returns an exception that is safe to show.

`HIDDEN` replaces a known value; `MARK` replaces a value that has the name or the shape of a secret.
"""

from statewright.redaction.exceptions import RedactedError, full_text, iter_chain, without_secrets
from statewright.redaction.names import SECRET_NAMES, SecretNames, is_secret_name
from statewright.redaction.patterns import MARK, find_secret
from statewright.redaction.redactor import Redactor, looks_secret
from statewright.redaction.values import (
    HIDDEN,
    KnownSecrets,
    Mask,
    make_mask,
    secrets_in_environment,
    secrets_in_header,
    secrets_in_settings,
    secrets_in_url,
)

__all__ = [
    "HIDDEN",
    "MARK",
    "SECRET_NAMES",
    "KnownSecrets",
    "Mask",
    "RedactedError",
    "Redactor",
    "SecretNames",
    "find_secret",
    "full_text",
    "is_secret_name",
    "iter_chain",
    "looks_secret",
    "make_mask",
    "secrets_in_environment",
    "secrets_in_header",
    "secrets_in_settings",
    "secrets_in_url",
    "without_secrets",
]
