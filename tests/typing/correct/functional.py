"""Workflows written as functions: entrypoints and tasks with their own types."""

from __future__ import annotations

from statewright import InMemorySaver, RetryPolicy, Runtime, entrypoint, task


@task
def length(text: str) -> int:
    return len(text)


@task(name="shout", retry_policy=RetryPolicy(max_attempts=2))
def shout(text: str, *, mark: str = "!") -> str:
    return text.upper() + mark


@entrypoint()
def measure(texts: list[str]) -> dict[str, int]:
    futures = {text: length(text) for text in texts}
    return {text: future.result() for text, future in futures.items()}


@entrypoint(InMemorySaver())
def count(number: int, *, previous: int | None = None) -> entrypoint.final[str, int]:
    total = (previous or 0) + number
    return entrypoint.final(value=shout(str(total)).result(), save=total)


@entrypoint(context_schema=dict[str, str])
def greet(name: str, runtime: Runtime[dict[str, str]]) -> str:
    return f"{runtime.context['word']} {name}"


def main() -> None:
    lengths = measure.invoke(["a", "bc"])
    assert lengths["bc"] + 1 == 3
    assert count.invoke(2, thread_id="1").strip("!") == "2"
    assert count.invoke(3, thread_id="1") == "5!"
    assert greet.invoke("Ada", context={"word": "Hello"}).split() == ["Hello", "Ada"]
    assert [part["measure"] for part in measure.stream(["a"], stream_mode="updates") if "measure" in part]
