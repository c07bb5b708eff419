"""Arguments and results of tasks and entrypoints with wrong types."""

from __future__ import annotations

from statewright import entrypoint, task


@task
def length(text: str) -> int:
    return len(text)


@entrypoint()
def measure(text: str) -> int:
    return length(text)  # pyright=reportReturnType mypy=return-value


@entrypoint()
def count(number: int, previous: int | None = None) -> entrypoint.final[str, int]:
    length(5)  # pyright=reportArgumentType mypy=arg-type
    return entrypoint.final(value=number, save=number)  # pyright=reportReturnType mypy=arg-type


measure.invoke(5)  # pyright=reportArgumentType mypy=call-overload
total: int = count.invoke(5)  # pyright=reportAssignmentType mypy=assignment
