"""Custom nodes: states that are neither assistants nor tools. Their kinds are registered by name.

kinds = NodeKinds()
kinds.register("greeter", lambda definition, resources: Greeter(definition.config["name"]))
"""

from statewright.workflow.states.nodes.config import ConfigFault, ConfigReader
from statewright.workflow.states.nodes.registry import NodeCheck, NodeFactory, NodeKinds
from statewright.workflow.states.nodes.resources import DataSource, NodeLimits, NodeResources

__all__ = [
    "ConfigFault",
    "ConfigReader",
    "DataSource",
    "NodeCheck",
    "NodeFactory",
    "NodeKinds",
    "NodeLimits",
    "NodeResources",
]
