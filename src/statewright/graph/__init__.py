"""Graphs as data: nodes, edges, policies, and the objects that nodes can return, such as Command and Send."""

from statewright.graph.builder import GraphBuilder, GraphWarning
from statewright.graph.command import END, START, STOP, Command, Send, ToParent
from statewright.graph.context import ExecutionInfo, Host, NodeError, RunStarter, Runtime, StreamWriter, SubgraphLike
from statewright.graph.functions.parameters import Parameters, is_coroutine_function, read_parameters
from statewright.graph.generics import ContextT, GraphParameters, InputT, OutputT, ResultT, StateT
from statewright.graph.graph import Graph
from statewright.graph.mapping import ItemForm, item_form, plain_item
from statewright.graph.node import Branch, Join, JoinEdge, Memory, Node, TagLimits
from statewright.graph.node_output import NodeOutput, ParentCommand, SubgraphResult, read_node_output
from statewright.graph.policy import (
    Budget,
    CachePolicy,
    CircuitBreaker,
    RateLimit,
    RetryPolicy,
    TimeoutPolicy,
    default_retry_on,
)

__all__ = [
    "END",
    "START",
    "STOP",
    "Branch",
    "Budget",
    "CachePolicy",
    "CircuitBreaker",
    "Command",
    "ContextT",
    "ExecutionInfo",
    "Graph",
    "GraphBuilder",
    "GraphParameters",
    "GraphWarning",
    "Host",
    "InputT",
    "ItemForm",
    "Join",
    "JoinEdge",
    "Memory",
    "Node",
    "NodeError",
    "NodeOutput",
    "OutputT",
    "Parameters",
    "ParentCommand",
    "RateLimit",
    "ResultT",
    "RetryPolicy",
    "RunStarter",
    "Runtime",
    "Send",
    "StateT",
    "StreamWriter",
    "SubgraphLike",
    "SubgraphResult",
    "TagLimits",
    "TimeoutPolicy",
    "ToParent",
    "default_retry_on",
    "is_coroutine_function",
    "item_form",
    "plain_item",
    "read_node_output",
    "read_parameters",
]
