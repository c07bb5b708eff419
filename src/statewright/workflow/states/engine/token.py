"""Tokens, which travel along transitions, and the paths that order branches.

A token carries no content. It names the visits that it follows, whose outputs are looked up there, so a thousand tokens
are small.

A path orders branches independently of which one ends first. It is a list of choices: `2/3` is the third of three
branches, and `0/2.5/9` lies within the first of two. Paths are text, as they are stored with every token. Branches are
merged in the order of their paths, so the last one wins.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from statewright.checkpoint import stored_as
from statewright.workflow.states.engine.visit import ItemRef, Visit

Choices = tuple[tuple[int, int], ...]


def child_path(path: str, index: int, count: int) -> str:
    """Return the path of one of `count` child branches."""
    return f"{path}.{index}/{count}" if path else f"{index}/{count}"


def parse_branch_path(path: str) -> Choices:
    """Parse a path to the form in which paths are compared."""
    if not path:
        return ()
    parts = (part.split("/") for part in path.split("."))
    return tuple((int(index), int(count)) for index, count in parts)


def join_paths(paths: Iterable[str]) -> str:
    """Return the path of a branch that merges several.

    A complete fork is replaced by the path of its parent; if several paths remain, the first one is returned.
    """
    remaining = {parse_branch_path(path) for path in paths}
    while len(remaining) > 1:
        fork = _find_complete_fork(remaining)
        if fork is None:
            break
        prefix, count = fork
        remaining -= {(*prefix, (index, count)) for index in range(count)}
        remaining.add(prefix)
    return ".".join(f"{index}/{count}" for index, count in min(remaining))


def _find_complete_fork(paths: set[Choices]) -> tuple[Choices, int] | None:
    """Return the prefix and size of a fork all of whose branches are among the paths; None if there is none."""
    for path in paths:
        if path:
            prefix, (_, count) = path[:-1], path[-1]
            if all((*prefix, (index, count)) in paths for index in range(count)):
                return prefix, count
    return None


# -- tokens


@dataclass(slots=True)
class Iteration:
    """The iteration to which a branch belongs."""

    id: str
    """The visit whose result was split by the outermost iteration."""
    base: str
    """The path to which its branches return."""
    item: ItemRef
    index: int
    total: int
    is_first: bool = False
    """True before the first state of the chain, which merges the item into its context."""
    visible_keys: tuple[str, ...] | None = None
    """The keys of the earlier context that its branches see; None for all."""


@dataclass(slots=True)
class Token:
    """A branch in transit to a state."""

    after: tuple[str, ...] = ()
    path: str = ""
    iteration: Iteration | None = None
    ended: str | None = None
    """The iteration that the branch leaves, if other branches of it may have taken another transition."""
    base: str = ""
    """With `ended`: the path of the branch if all branches took the same transition."""


def continue_branch(token: Token, visit: Visit, *, item: ItemRef | None = None) -> Token:
    """Return the token of the same branch for the next state of its chain."""
    assert token.iteration is not None
    iteration = replace(token.iteration, is_first=False, item=item or token.iteration.item)
    return Token((visit.id,), token.path, iteration)


def combine_tokens(tokens: Sequence[Token], path_of: Callable[[str], str]) -> Token:
    """Combine tokens that arrived together, ordered by their branches, then by the branches of their visits."""
    if len(tokens) == 1:
        return tokens[0]
    ordered = sorted(
        tokens, key=lambda token: (parse_branch_path(token.path), parse_branch_path(path_of(token.after[0])))
    )
    after = tuple(dict.fromkeys(visit_id for token in ordered for visit_id in token.after))
    return Token(after, join_paths(token.path for token in ordered))


def _encode_token(token: Token) -> list[Any]:
    parts: list[Any] = [list(token.after), token.path]
    inner = token.iteration
    if inner is not None or token.ended is not None:
        parts.append(_encode_iteration(inner) if inner is not None else None)
    if token.ended is not None:
        parts.extend([token.ended, token.base])
    return parts


def _encode_iteration(inner: Iteration) -> list[Any]:
    parts: list[Any] = [inner.id, inner.base, inner.item, inner.index, inner.total, inner.is_first]
    return parts if inner.visible_keys is None else [*parts, list(inner.visible_keys)]


def _decode_token(parts: Sequence[Any]) -> Token:
    token = Token(tuple(parts[0]), parts[1])
    if len(parts) > 2 and parts[2] is not None:
        token.iteration = inner = Iteration(*parts[2])
        inner.visible_keys = tuple(inner.visible_keys) if inner.visible_keys is not None else None
    if len(parts) > 3:
        token.ended, token.base = parts[3], parts[4]
    return token


stored_as(56, Token, _encode_token, _decode_token)
