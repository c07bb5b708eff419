"""The expressions of conditions, switches and scripts: parsed once, evaluated over plain JSON values.

Conditions come from files, and the values they read come from models and tools, so both must be harmless. Python's own
parser reads an expression, because authors know its syntax (`expression`). Each supported node of the tree is compiled
once to a closure (`compile`), which charges an `Evaluation` for its work before it does any (`evaluation`). Dots read
keys of maps, calls go to fixed tables of functions and methods (`operators`, `functions`), and nothing else of Python
can be reached.

Rejected: `eval` and libraries that restrict it, as they start from attribute access on Python objects and have to
remember every dangerous attribute; CEL and JMESPath, as existing files are written in another language; a time limit,
as the same file would pass on one machine and fail on another. See `docs/decisions/0024-expressions.md`.

`output`, `literal` and `paths` parse the output of a state and find parts of it.
"""

from statewright.workflow.states.expressions.expression import Expression, condition_scope, holds, parse_expression

__all__ = ["Expression", "condition_scope", "holds", "parse_expression"]
