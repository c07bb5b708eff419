"""`statewright schema`: JSON Schemas for editors."""

from __future__ import annotations

from typing import Annotated, Literal

import typer

from statewright.cli.printing import say


def schema(
    language: Annotated[Literal["states"], typer.Argument(metavar="LANGUAGE", help="`states`: workflows in YAML.")],
) -> None:
    """Print the JSON Schema of a language, for editors that complete and check files."""
    from statewright.cli.show import as_json
    from statewright.extras import optional

    with optional("The schema of workflows in YAML needs", extra="states"):
        from statewright.workflow.states.language.json_schema import language_schema

    say(as_json(language_schema()))
