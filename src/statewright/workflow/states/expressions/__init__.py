"""The expressions of conditions, switches and scripts: parsed once, evaluated over plain JSON values.

No expression reaches an attribute of a Python object: dots read keys of maps, calls go to fixed tables of functions and
methods, and the size of results is bounded. See `docs/decisions/0024-expressions.md`.
"""

from statewright.workflow.states.expressions.expression import Expression, condition_scope, holds, parse_expression

__all__ = ["Expression", "condition_scope", "holds", "parse_expression"]
