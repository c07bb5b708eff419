"""Tokens, which travel along transitions, and the paths that order branches.

A token contains the ids of the visits that its branch follows instead of their content, so even thousands of tokens are
small.

Paths order branches, independently of which branch ends first. A path lists one choice per fork: `2/3` is the third of
three branches, and `0/2.5/9` is the sixth of nine within the first of two. Paths are stored with every token, as text.
Branches are merged in the order of their paths; if several branches wrote the same key, the last one wins.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from statewright.checkpoint import register_codec
from statewright.workflow.states.engine.visit import ItemRef, Visit

Choices = tuple[tuple[int, int], ...]
"""A parsed path: for each fork, outermost first, the index of the chosen branch and the number of branches."""


def child_path(path: str, index: int, count: int) -> str:
    """Return the path of one of `count` child branches."""
    return f"{path}.{index}/{count}" if path else f"{index}/{count}"


def parse_branch_path(path: str) -> Choices:
    """Parse a path to a tuple by which branches are sorted."""
    if not path:
        return ()
    parts = (part.split("/") for part in path.split("."))
    return tuple((int(index), int(count)) for index, count in parts)


def join_paths(paths: Iterable[str]) -> str:
    """Return the path of a branch that continues several merged branches.

    If all branches of a fork are merged, the path of the branch before the fork replaces theirs. If several paths
    remain, the first one in their order is returned.
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
    """Find a fork all of whose branches are among the paths. Return the path before it, and its number of branches.

    Returns None if there is no such fork.
    """
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
    """The id of the visit whose result the outermost iteration splits."""
    base: str
    """The path of the branch before the split, and again after the merge."""
    item: ItemRef
    index: int
    """The index of the item among the items into which a result was split."""
    total: int
    """The number of these items."""
    is_first: bool = False
    """True on the way to the first state of the chain, which merges the item into its context."""
    visible_keys: tuple[str, ...] | None = None
    """The keys of the earlier context that branches of the iteration see; None for all."""


@dataclass(slots=True)
class Token:
    """A branch in transit to a state."""

    after: tuple[str, ...] = ()
    """The ids of the visits that the branch follows."""
    path: str = ""
    iteration: Iteration | None = None
    ended_iteration: str | None = None
    """The id of the iteration that the branch leaves, if other branches of the iteration may take other transitions."""
    base: str = ""
    """With `ended_iteration`: the path to use if all branches of the iteration took the same transition."""


def continue_branch(token: Token, visit: Visit, *, item: ItemRef | None = None) -> Token:
    """Return the token of the same branch for the next state of its chain.

    Unless it is None, `item` replaces the item of the branch.
    """
    assert token.iteration is not None
    iteration = replace(token.iteration, is_first=False, item=item or token.iteration.item)
    return Token((visit.id,), token.path, iteration)


def combine_tokens(tokens: Sequence[Token], path_of: Callable[[str], str]) -> Token:
    """Combine tokens that arrived together, ordered by their paths, then by the paths of the visits that they follow.

    `path_of` returns the path of the visit with an id.
    """
    if len(tokens) == 1:
        return tokens[0]
    ordered = sorted(
        tokens, key=lambda token: (parse_branch_path(token.path), parse_branch_path(path_of(token.after[0])))
    )
    after = tuple(dict.fromkeys(visit_id for token in ordered for visit_id in token.after))
    return Token(after, join_paths(token.path for token in ordered))


def _encode_token(token: Token) -> list[Any]:
    parts: list[Any] = [list(token.after), token.path]
    iteration = token.iteration
    if iteration is not None or token.ended_iteration is not None:
        parts.append(_encode_iteration(iteration) if iteration is not None else None)
    if token.ended_iteration is not None:
        parts.extend([token.ended_iteration, token.base])
    return parts


def _encode_iteration(iteration: Iteration) -> list[Any]:
    parts = (iteration.id, iteration.base, iteration.item, iteration.index, iteration.total, iteration.is_first)
    return list(parts) if iteration.visible_keys is None else [*parts, list(iteration.visible_keys)]


def _decode_token(parts: Sequence[Any]) -> Token:
    token = Token(tuple(parts[0]), parts[1])
    if len(parts) > 2 and parts[2] is not None:
        token.iteration = iteration = Iteration(*parts[2])
        iteration.visible_keys = tuple(iteration.visible_keys) if iteration.visible_keys is not None else None
    if len(parts) > 3:
        token.ended_iteration, token.base = parts[3], parts[4]
    return token


register_codec(56, Token, _encode_token, _decode_token)
