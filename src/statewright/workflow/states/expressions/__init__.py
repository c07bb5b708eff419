"""The expressions of conditions, switches and scripts: parsed once, worked out over plain JSON values.

Nothing here reaches an attribute of a Python object: dots are keys of maps, calls are functions and methods of fixed
tables, and what an expression may make is bounded. See `docs/decisions/0024-expressions.md`.
"""

from statewright.workflow.states.expressions.expression import Expression, condition_scope, holds, parse_expression

__all__ = ["Expression", "condition_scope", "holds", "parse_expression"]
