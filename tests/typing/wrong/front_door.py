"""A name that does not exist."""

from __future__ import annotations

import statewright
from statewright import interrupt

statewright.StateGraf(dict)  # pyright=reportAttributeAccessIssue mypy=attr-defined
interrupt.ask("?")  # pyright=reportFunctionMemberAccess mypy=attr-defined
