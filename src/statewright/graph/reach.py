"""Which nodes can still be reached from where: a bit set per node, worked out once.

Bit `i` stands for the i-th node in order of declaration. A node reaches what its declared ways lead to in one step
or more; so it reaches itself only in a cycle.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence


def reachability(order: Sequence[str], ways: Mapping[str, frozenset[str]]) -> dict[str, int]:
    """For each node, the bits of all nodes that its ways lead to.

    Warshall's closure over bit sets is cubic divided by the word; what follows walks the strongly connected
    components (Tarjan, 1972), which come out last first, so each needs one pass over its ways.
    """
    bits = {name: 1 << place for place, name in enumerate(order)}
    reach: dict[str, int] = {}
    for component in components(order, ways):
        members = set(component)
        seen = 0
        for name in component:
            for target in ways.get(name, ()):
                seen |= bits[target]
                if target not in members:
                    seen |= reach[target]
        for name in component:
            reach[name] = seen
    return reach


def components(order: Sequence[str], ways: Mapping[str, frozenset[str]]) -> list[list[str]]:
    """Strongly connected components, every component after those it leads to. Without recursion: chains are long."""
    index: dict[str, int] = {}
    low: dict[str, int] = {}
    stack: list[str] = []
    on_stack: set[str] = set()
    found: list[list[str]] = []
    for root in order:
        if root in index:
            continue
        work = [(root, iter(sorted(ways.get(root, ()))))]
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
                    work.append((target, iter(sorted(ways.get(target, ())))))
                    break
                if target in on_stack:
                    low[name] = min(low[name], index[target])
            else:
                work.pop()
                if work:
                    low[work[-1][0]] = min(low[work[-1][0]], low[name])
                if low[name] == index[name]:
                    found.append(_pop_component(stack, on_stack, name))
    return found


def _pop_component(stack: list[str], on_stack: set[str], root: str) -> list[str]:
    component: list[str] = []
    while not component or component[-1] != root:
        component.append(stack.pop())
        on_stack.discard(component[-1])
    return component
