"""Templates of tasks and arguments: `{{ placeholders }}`, and blocks such as `{% if %}`.

A value that is put into a text is data, and is never read as a template. See `docs/decisions/0025-templates.md`.
"""

from statewright.workflow.states.templates.template import Template, parse_template, render_values, rendered_off_loop

__all__ = ["Template", "parse_template", "render_values", "rendered_off_loop"]
