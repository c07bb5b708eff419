"""`statewright check`: would the graph compile?"""

from __future__ import annotations

from typing import Annotated

import typer


def check(
    target: Annotated[
        str, typer.Argument(metavar="FILE.py[:GRAPH]", help="The file, and the name of the graph in it.")
    ],
) -> None:
    """Check a graph strictly, and list every problem. Exits with 2 if there is one."""
    from statewright.cli.load import load_graph

    graph = load_graph(target).graph
    edges = sum(len(ways) for ways in graph.ways.values())
    print(f"ok: {graph.name}, {len(graph.nodes)} nodes, {edges} ways between them")
