"""`statewright.toml`: what workflows refer to and do not hold themselves.

Assistants, models, integrations, data sources, tools, MCP servers, defaults, what is served, and how. Everything that
is wrong in the file is found in one go, with its line; what is merely odd becomes a warning. Paths are relative to the
file. Values of integrations stand in no message.
"""

from statewright.project.load import FILE_NAME, find_project, load_project, read_project
from statewright.project.schema import DataSource, Defaults, Kind, Project, ServedGraph, ServedWorkflow, Serving

__all__ = [
    "FILE_NAME",
    "DataSource",
    "Defaults",
    "Kind",
    "Project",
    "ServedGraph",
    "ServedWorkflow",
    "Serving",
    "find_project",
    "load_project",
    "read_project",
]
