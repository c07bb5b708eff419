"""The types of values that several keys of workflow files share, with the rules about ids and expressions."""

from __future__ import annotations

from typing import Annotated, Final

from statewright.graph import END, START, STOP
from statewright.workflow.states.expressions.expression import LENGTH_LIMIT
from statewright.workflow.states.language.schema.keys import Key
from statewright.workflow.states.language.schema.kinds import Number, Text

END_STATE: Final = "end"
"""Target that ends the run or the branch, valid in place of the id of a state."""

RESERVED: Final = (START, END, STOP)
"""Node names that the engine reserves."""

# The rules that only JSON Schema reads from here stand in `rule`: other checks report them with better advice.
_QUOTED: Final = r"'(?:[^'\\]|\\[\s\S])*'" + "|" + r'"(?:[^"\\]|\\[\s\S])*"'
_OPERATORS: Final = r"&(?!&)|\|(?!\|)|={1,2}(?!=)|!=(?!=)"
EXPRESSION: Final = Text(
    empty=False,
    rule={
        "maxLength": LENGTH_LIMIT,
        # Closed quotes, and outside of them none of the operators of other languages: && || ! ===
        "pattern": rf"""^(?:{_QUOTED}|{_OPERATORS}|[^'"&|=!#])*(?:#[\s\S]*)?$""",
        # A comparison with a single equals sign: score = 5
        "not": {"pattern": r"^\s*[A-Za-z_][\w.]*\s*=(?!=)"},
    },
)
TARGET: Final = Text(empty=False, rule={"not": {"enum": list(RESERVED)}})

Name = Annotated[str, Text(empty=False)]
Target = Annotated[str, TARGET]
Id = Annotated[Name, Key("The name by which states refer to it.")]
DisplayName = Annotated[str | None, Key("A display name.")]
IntegrationAlias = Annotated[str | None, Key("The integration that holds its credentials.")]
Texts = tuple[str, ...]
Count = Annotated[int, Number(1)]
ResultLimit = Annotated[Count | None, Key("The maximum length of results, in tokens; longer ones are truncated.")]
