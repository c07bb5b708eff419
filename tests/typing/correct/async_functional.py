"""Async entrypoints and tasks: an awaited result has the declared type."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass

from statewright import InMemorySaver, entrypoint, task


@dataclass
class Page:
    title: str
    words: int


@task
async def read(title: str) -> Page:
    return Page(title, len(title.split()))


@task(name="sum up")
async def total(pages: list[Page]) -> int:
    return sum(page.words for page in pages)


@entrypoint()
async def survey(titles: list[str]) -> int:
    pages = await asyncio.gather(*(read(title) for title in titles))
    first: Page = await read("one more")
    return await total([*pages, first])


@entrypoint(InMemorySaver())
async def remember(text: str, previous: str | None = None) -> entrypoint.final[int, str]:
    return entrypoint.final(value=len(previous or ""), save=text)


async def run() -> None:
    assert await survey.ainvoke(["a b", "c"]) + 1 == 6
    first: int = await remember.ainvoke("four", thread_id="1")
    assert (first, await remember.ainvoke("x", thread_id="1")) == (0, 4)


def main() -> None:
    asyncio.run(run())
