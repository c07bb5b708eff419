"""What should run, in which order: graphs as data, and the words that nodes answer with."""

from statewright.graph.answer import Answer, ParentCommand, Reported, read_answer
from statewright.graph.builder import GraphBuilder, GraphWarning
from statewright.graph.command import END, START, STOP, Command, Send
from statewright.graph.context import ExecutionInfo, NodeError, Runtime, StreamWriter, SubgraphLike
from statewright.graph.graph import Graph
from statewright.graph.node import Branch, Join, JoinEdge, Memory, Node
from statewright.graph.parameters import Parameters, is_coroutine_function, read_parameters

__all__ = [
    "END",
    "START",
    "STOP",
    "Answer",
    "Branch",
    "Command",
    "ExecutionInfo",
    "Graph",
    "GraphBuilder",
    "GraphWarning",
    "Join",
    "JoinEdge",
    "Memory",
    "Node",
    "NodeError",
    "Parameters",
    "ParentCommand",
    "Reported",
    "Runtime",
    "Send",
    "StreamWriter",
    "SubgraphLike",
    "is_coroutine_function",
    "read_answer",
    "read_parameters",
]
