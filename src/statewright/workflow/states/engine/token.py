"""Places of branches: which one comes first, whatever ends first.

A path is a list of choices, `2/3` for the third of three branches; `0/2.5/9` lies in the first of two. Texts, because
they are stored with every token. Paths that come first are merged first, so the last one wins.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from statewright.checkpoint import stored_as
from statewright.workflow.states.engine.visit import ItemRef, Visit

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


# -- What travels along a transition: which visits it comes from, and which item its branch is about.
#
# A token carries no content. It names visits, and what they did is looked up there, so a thousand of them are small.


@dataclass(slots=True)
class Iteration:
    """The iteration that a branch is in."""

    id: str
    """The visit whose result was split first."""
    base: str
    """The path to which its branches come back."""
    item: ItemRef
    index: int
    total: int
    is_first: bool = False
    """Whether no state has worked on the item yet, so that it fills the context."""
    only: tuple[str, ...] | None = None
    """The keys of the context that its branches see of what was there before; None for all."""


@dataclass(slots=True)
class Token:
    """A branch on its way to a state."""

    after: tuple[str, ...] = ()
    path: str = ""
    iteration: Iteration | None = None
    ended: str | None = None
    """The iteration that the branch comes from, where some of its branches may have gone elsewhere."""
    base: str = ""
    """With `ended`: the path that the branch has if none of them did."""


def continued(token: Token, visit: Visit, *, item: ItemRef | None = None) -> Token:
    """The token of the same branch for the next state of its chain."""
    assert token.iteration is not None
    iteration = replace(token.iteration, is_first=False, item=item or token.iteration.item)
    return Token((visit.id,), token.path, iteration)


def combined(tokens: Sequence[Token], path_of: Callable[[str], str]) -> Token:
    """Tokens that came together, as one: in the order of their branches, and those of one branch by their visits'."""
    if len(tokens) == 1:
        return tokens[0]
    ordered = sorted(tokens, key=lambda token: (choices(token.path), choices(path_of(token.after[0]))))
    after = tuple(dict.fromkeys(one for token in ordered for one in token.after))
    return Token(after, joined(token.path for token in ordered))


def _plain(token: Token) -> list[Any]:
    plain: list[Any] = [list(token.after), token.path]
    inner = token.iteration
    if inner is not None or token.ended is not None:
        plain.append(_plain_iteration(inner) if inner is not None else None)
    if token.ended is not None:
        plain.extend([token.ended, token.base])
    return plain


def _plain_iteration(inner: Iteration) -> list[Any]:
    plain: list[Any] = [inner.id, inner.base, inner.item, inner.index, inner.total, inner.is_first]
    return plain if inner.only is None else [*plain, list(inner.only)]


def _made(parts: Sequence[Any]) -> Token:
    token = Token(tuple(parts[0]), parts[1])
    if len(parts) > 2 and parts[2] is not None:
        token.iteration = inner = Iteration(*parts[2])
        inner.only = tuple(inner.only) if inner.only is not None else None
    if len(parts) > 3:
        token.ended, token.base = parts[3], parts[4]
    return token


stored_as(56, Token, _plain, _made)
