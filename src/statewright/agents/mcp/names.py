"""The names under which models see the tools of servers: `<server>-<tool>`, made fit for every provider.

A name is kept where that is possible. Two that would become one each get a suffix, which depends on nothing but the
names of server and tool: the same tool has the same name tomorrow.
"""

from __future__ import annotations

import hashlib
import re
from collections import Counter
from collections.abc import Iterable
from typing import Final

LONGEST: Final = 64  # characters, with every provider
_SUFFIX: Final = 8  # characters of the suffix, without its dash

ToolKey = tuple[str, str]
"""A server and a tool, as they call themselves."""


def fit_names(keys: Iterable[ToolKey]) -> dict[ToolKey, str]:
    """A name for each tool, all of them different."""
    wanted = {key: _allowed("-".join(key)) for key in keys}
    counts = Counter(wanted.values())
    return {key: name if _fits(name, counts) else _marked(name, key) for key, name in wanted.items()}


def _fits(name: str, counts: Counter[str]) -> bool:
    return len(name) <= LONGEST and counts[name] == 1


def _allowed(name: str) -> str:
    name = re.sub(r"[^A-Za-z0-9_-]", "_", name)
    return name if re.match(r"[A-Za-z_]", name) else f"_{name}"


def _marked(name: str, key: ToolKey) -> str:
    mark = hashlib.sha256("\0".join(key).encode("utf-8", "surrogatepass")).hexdigest()[:_SUFFIX]
    return f"{name[: LONGEST - _SUFFIX - 1]}-{mark}"
