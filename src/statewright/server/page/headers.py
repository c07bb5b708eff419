"""The security headers of HTML pages.

The policy permits only files of this server: no inline script, no inline style, no other hosts. So even a text of a run
that gets into the page as HTML by a mistake runs no script, and sends nothing anywhere.
"""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Mapping
from hashlib import sha256
from typing import Final

_COMMON: Final[Mapping[str, str]] = {
    "referrer-policy": "no-referrer",
    "x-content-type-options": "nosniff",
    "x-frame-options": "DENY",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
    "permissions-policy": "camera=(), geolocation=(), microphone=(), payment=(), usb=()",
}
_NOTHING: Final = "default-src 'none'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
PAGE_HEADERS: Final[Mapping[str, str]] = {
    "content-security-policy": f"{_NOTHING}; script-src 'self'; style-src 'self'; img-src 'self' data:; "
    "font-src 'self'; connect-src 'self'; manifest-src 'self'",
    **_COMMON,
}
"""The headers of the page and its files."""


def static_headers(style: str) -> dict[str, str]:
    """Return the headers of a page without scripts, whose only resource is a style sheet in the page itself."""
    digest = b64encode(sha256(style.encode()).digest()).decode()
    return {"content-security-policy": f"{_NOTHING}; style-src 'sha256-{digest}'", **_COMMON}
