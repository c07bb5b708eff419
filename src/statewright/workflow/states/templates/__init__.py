"""Templates of tasks and arguments: `{{ placeholders }}`, and blocks such as `{% if %}`.

Authors write Jinja, but their templates render output of models and tools, and a template may come from a tool itself.
So a rendering must reach no Python object, stay within limits of time and memory, and never read a value as a template.
Jinja's sandbox guards attributes only: one line with `range()` or `+` takes minutes and gigabytes.

Jinja is therefore the parser, and nothing else. Each node of its tree is compiled to a closure (`compile`, `blocks`)
over one `Rendering`, which is an `Evaluation` with variables and output (`rendering`). Every operation pays for its
work before it begins, by the rule in `expressions/evaluation.py`; the operators, functions and methods are those of
expressions (`tests`, `filters` and `mutations` are added here). Most templates contain only paths with filters.
`placeholder` parses these itself, because importing Jinja takes longer than loading a workflow, and because text from
outside should never reach Jinja's parser.

A rendering has no side effects: templates that modify lists work on copies of the scope. So it can begin on the event
loop with a small budget, and be restarted on a worker thread with the full one (`render_off_loop`).

Rejected: rendering in a process with limits of the operating system, as it costs milliseconds per prompt and depends on
the machine; Liquid and Mustache, as existing files are Jinja. See `docs/decisions/0025-templates.md`, which also lists
the differences from Jinja.
"""

from statewright.workflow.states.templates.template import Template, parse_template, render_off_loop, render_values

__all__ = ["Template", "parse_template", "render_off_loop", "render_values"]
