"""`statewright schema`: JSON Schemas for editors."""

from __future__ import annotations

from typing import Annotated, Literal

import typer


def schema(
    language: Annotated[Literal["states"], typer.Argument(metavar="LANGUAGE", help="`states`: workflows in YAML.")],
) -> None:
    """Print the JSON Schema of a language, for editors that complete and check files."""
    from statewright.cli.show import as_json
    from statewright.workflow.states.language import language_schema

    print(as_json(language_schema()))
