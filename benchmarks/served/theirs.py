"""The graph that `langgraph dev` serves."""

from benchmarks.engines import langgraph
from benchmarks.served.graph import three_steps

graph = three_steps(langgraph()).compile()
