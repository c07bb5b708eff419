"""`statewright draw`: draw a graph."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

import typer

from statewright.cli.console.printing import say

Format = Literal["ascii", "mermaid", "dot", "svg", "json"]


def draw(
    target: Annotated[str, typer.Argument(metavar="FILE", help="A workflow in YAML, or FILE.py[:GRAPH] with a graph.")],
    form: Annotated[Format, typer.Option("--format", "-f", help="The format of the drawing.")] = "ascii",
    output: Annotated[
        Path | None, typer.Option("--output", "-o", metavar="PATH", help="Write to a file instead of standard output.")
    ] = None,
    xray: Annotated[bool, typer.Option("--xray", help="Draw the nodes inside of subgraphs too.")] = False,
) -> None:
    """Draw a graph from its declared edges."""
    from statewright.cli.console.failure import UsageError
    from statewright.cli.console.values import to_json
    from statewright.cli.workflow.load import load_graph

    drawing = load_graph(target).get_graph(xray=xray)
    forms = {
        "ascii": drawing.draw_ascii,
        "mermaid": drawing.draw_mermaid,
        "dot": drawing.draw_dot,
        "svg": drawing.draw_svg,
        "json": lambda: to_json(drawing.to_json()),
    }
    drawn = forms[form]().rstrip("\n")
    if output is None:
        say(drawn)
        return
    try:
        output.write_text(drawn + "\n", encoding="utf-8")
    except OSError as error:
        raise UsageError(f"The drawing cannot be written to {str(output)!r}: {error.strerror}.") from error
