"""The cost of importing an engine, each time in a new interpreter: milliseconds, and loaded modules.

From an engine that imports lazily, the name that builds a graph is imported.
"""

import subprocess
import sys

from benchmarks.figure import Figure, Rival, Take
from benchmarks.requirement import AtMost, Shown

_SCRIPT = """
import sys, time
started_at = time.perf_counter()
{statement}
print((time.perf_counter() - started_at) * 1000, len(sys.modules))
"""
PEERS = {
    "LangGraph": "from langgraph.graph import StateGraph",
    "Burr": "from burr.core import ApplicationBuilder",
    "pydantic-graph": "from pydantic_graph import GraphBuilder",
    "agent-framework": "from agent_framework import WorkflowBuilder",
}


def milliseconds(statement: str) -> Take:
    return lambda: _run(statement)[0]


def modules(statement: str) -> Take:
    """Return a pass that counts the loaded modules; Python alone has about thirty."""
    return lambda: _run(statement)[1]


def _run(statement: str) -> tuple[float, float]:
    script = _SCRIPT.format(statement=statement)
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False)
    if done.returncode:
        raise ImportError(f"{statement}: {done.stderr.strip().splitlines()[-1]}")
    spent, count = done.stdout.split()
    return float(spent), float(count)


FIGURES = (
    Figure(name="import statewright", unit="ms", ours=milliseconds("import statewright"), limit=AtMost(50)),
    Figure(
        name="import statewright",
        unit="modules",
        ours=modules("import statewright"),
        limit=AtMost(120),
        is_repeated=False,
    ),
    Figure(
        name="import StateGraph",
        unit="ms",
        ours=milliseconds("from statewright import StateGraph"),
        rivals=tuple(
            Rival(name=name, take=milliseconds(statement), requirement=Shown()) for name, statement in PEERS.items()
        ),
    ),
    Figure(
        name="import StateGraph",
        unit="modules",
        ours=modules("from statewright import StateGraph"),
        rivals=tuple(
            Rival(name=name, take=modules(statement), requirement=Shown()) for name, statement in PEERS.items()
        ),
        is_repeated=False,
    ),
)
