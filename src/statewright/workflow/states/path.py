"""Places of branches: which one comes first, whatever ends first.

A path is a list of choices, `2/3` for the third of three branches; `0/2.5/9` lies in the first of two. Texts, because
they are stored with every token. Paths that come first are merged first, so the last one wins.
"""

from __future__ import annotations

from collections.abc import Iterable

Choices = tuple[tuple[int, int], ...]


def below(path: str, index: int, count: int) -> str:
    """The path of one of `count` branches."""
    return f"{path}.{index}/{count}" if path else f"{index}/{count}"


def choices(path: str) -> Choices:
    """The path in the form in which paths compare."""
    if not path:
        return ()
    parts = (part.split("/") for part in path.split("."))
    return tuple((int(index), int(count)) for index, count in parts)


def joined(paths: Iterable[str]) -> str:
    """The path of a branch that continues several: theirs in common if all of a fork are there, else the first's."""
    found = {choices(path) for path in paths}
    while len(found) > 1:
        whole = _whole_fork(found)
        if whole is None:
            break
        prefix, count = whole
        found -= {(*prefix, (index, count)) for index in range(count)}
        found.add(prefix)
    return ".".join(f"{index}/{count}" for index, count in min(found))


def _whole_fork(found: set[Choices]) -> tuple[Choices, int] | None:
    """A fork all of whose branches are among the paths: where it is, and how many there are."""
    for path in found:
        if path:
            prefix, (_, count) = path[:-1], path[-1]
            if all((*prefix, (index, count)) in found for index in range(count)):
                return prefix, count
    return None
