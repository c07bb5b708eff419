"""A missing store, and a value that is not a mapping."""

from __future__ import annotations

from typing import Any

from statewright import InMemoryStore, Runtime


def remember(state: dict[str, Any], runtime: Runtime) -> None:
    runtime.store.get(("a",), "b")  # pyright=reportOptionalMemberAccess mypy=union-attr


store = InMemoryStore()
store.put(("a",), "b", 5)  # pyright=reportArgumentType mypy=arg-type
store.get("a", "b")  # pyright=reportArgumentType mypy=arg-type
print(store.get(("a",), "b").value)  # pyright=reportOptionalMemberAccess mypy=union-attr
