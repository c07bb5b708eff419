"""Reachability: for each node, the set of nodes that it can lead to in one or more steps, as a bit set.

Bit `i` of a set stands for the i-th node in order of declaration. A node is in its own set only if it is in a cycle.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence


def reachability(order: Sequence[str], successors: Mapping[str, frozenset[str]]) -> dict[str, int]:
    """Return the bit set of reachable nodes for each node in `order`.

    Tarjan's algorithm (1972) finds the strongly connected components in reverse topological order, so that a single
    pass over the edges is enough. Warshall's transitive closure would take cubic time, even if divided by the word
    size.
    """
    bits = {name: 1 << index for index, name in enumerate(order)}
    reach: dict[str, int] = {}
    for component in components(order, successors):
        members = set(component)
        reached = 0
        for name in component:
            for target in successors.get(name, ()):
                reached |= bits[target]
                if target not in members:
                    reached |= reach[target]
        for name in component:
            reach[name] = reached
    return reach


def components(order: Sequence[str], successors: Mapping[str, frozenset[str]]) -> list[list[str]]:
    """Return the strongly connected components. Each comes after all components that it can reach.

    The algorithm is iterative, because a recursion would be as deep as the longest path.
    """
    index: dict[str, int] = {}
    low: dict[str, int] = {}
    stack: list[str] = []
    on_stack: set[str] = set()
    components: list[list[str]] = []
    for root in order:
        if root in index:
            continue
        work = [(root, iter(sorted(successors.get(root, ()))))]
        index[root] = low[root] = len(index)
        stack.append(root)
        on_stack.add(root)
        while work:
            name, targets = work[-1]
            for target in targets:
                if target not in index:
                    index[target] = low[target] = len(index)
                    stack.append(target)
                    on_stack.add(target)
                    work.append((target, iter(sorted(successors.get(target, ())))))
                    break
                if target in on_stack:
                    low[name] = min(low[name], index[target])
            else:
                work.pop()
                if work:
                    low[work[-1][0]] = min(low[work[-1][0]], low[name])
                if low[name] == index[name]:
                    components.append(_pop_component(stack, on_stack, name))
    return components


def _pop_component(stack: list[str], on_stack: set[str], root: str) -> list[str]:
    component: list[str] = []
    while not component or component[-1] != root:
        component.append(stack.pop())
        on_stack.discard(component[-1])
    return component
