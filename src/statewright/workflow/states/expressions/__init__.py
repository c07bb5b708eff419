"""The expressions of conditions, switches and scripts: parsed once, evaluated over plain JSON values.

Expressions come from files, and the values they read come from models and tools, so neither can be trusted. Python's
own parser reads an expression, because authors know its syntax (`expression`). Each supported node of the tree is
compiled once to a closure (`compile`), which charges an `Evaluation` for its work in advance (`evaluation`). Dots read
keys of maps, and calls use fixed tables of functions and methods (`operators`, `functions`), so nothing else of Python
can be reached.

Rejected: `eval` and libraries that restrict it, because they start from attribute access on Python objects and have to
exclude every dangerous attribute; CEL and JMESPath, because existing files use the syntax of Python; a time limit,
because the same file would pass on one machine and fail on another. See `docs/decisions/0024-expressions.md`.

`output`, `literal` and `paths` parse the output of a state and find parts of it.
"""

from statewright.workflow.states.expressions.expression import Expression, holds, make_condition_scope, parse_expression

__all__ = ["Expression", "holds", "make_condition_scope", "parse_expression"]
