"""Templates of tasks and arguments: `{{name}}` placeholders, and blocks in the few that need them.

A value that is put into a text is data and never read as a template. See `docs/decisions/0025-templates.md`.
"""

from statewright.workflow.states.templates.template import Template, parse_template, render_values

__all__ = ["Template", "parse_template", "render_values"]
