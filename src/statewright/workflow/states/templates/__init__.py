"""Templates of tasks and arguments: `{{ placeholders }}`, and blocks such as `{% if %}`.

Authors write Jinja, but their templates render the output of models and tools, and a template may itself be the output
of a tool. So a rendering must not reach Python objects, must stay within limits of time and memory, and must never read
a value as a template. Jinja's sandbox guards attributes only: one line with `range()` or `+` can take minutes and
gigabytes.

Therefore only the parser of Jinja is used. Each node of its tree is compiled to a closure (`compile`, `blocks`) over a
`Rendering`, which is an `Evaluation` with variables and output (`rendering`). Every operation pays for its work in
advance, by the rule in `expressions/evaluation.py`. The operators, functions and methods are those of expressions, and
this package adds `tests`, `filters` and `mutations`. Most templates contain only paths with filters. `placeholder`
parses these without Jinja, whose import takes longer than loading a workflow, and whose parser should never read text
from outside.

Rendering has no side effects: templates that modify lists work on copies of the scope. So it can begin on the event
loop with a small budget, and restart on a worker thread with the full one (`render_off_loop`).

Rejected: rendering in a process with limits of the operating system, because it costs milliseconds per prompt and
depends on the machine; Liquid and Mustache, because existing files are written in Jinja. See
`docs/decisions/0025-templates.md`, which also lists the differences from Jinja.
"""

from statewright.workflow.states.templates.template import Template, parse_template, render_off_loop, render_values

__all__ = ["Template", "parse_template", "render_off_loop", "render_values"]
