"""The project file `statewright.toml`: resources that workflows refer to, and what is served.

It defines assistants, models, integrations, data sources, tools, MCP servers, defaults, served graphs, queues and the
server.
All problems of the file are reported together, with their lines; probable mistakes are only warnings. Paths are
relative to the file. Messages never quote the settings of integrations, MCP servers and models, which may be secrets.
"""

from statewright.project.load import FILE_NAME, find_project, load_project, read_project
from statewright.project.schema import (
    DataSource,
    Defaults,
    Kind,
    Project,
    QueueSettings,
    ServedGraph,
    ServedWorkflow,
    Serving,
)

__all__ = [
    "FILE_NAME",
    "DataSource",
    "Defaults",
    "Kind",
    "Project",
    "QueueSettings",
    "ServedGraph",
    "ServedWorkflow",
    "Serving",
    "find_project",
    "load_project",
    "read_project",
]
