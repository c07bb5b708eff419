"""Templates of tasks and arguments: `{{ placeholders }}`, and blocks such as `{% if %}`.

Inserted values are data and are never parsed as templates. See `docs/decisions/0025-templates.md`.
"""

from statewright.workflow.states.templates.template import Template, parse_template, render_off_loop, render_values

__all__ = ["Template", "parse_template", "render_off_loop", "render_values"]
