"""The network: a planner, an editor, and a router that uses only the state.

Without a plan it picks the planner, with a plan the editor, and None when the work is done. Tools write the state, and
so determine the next step. No prompt says "now hand over to your colleague".
"""

from __future__ import annotations

from typing import Any

from state import Code, Run
from tools import create_plan, done, list_files, read_file, run_tests, write_file

from statewright.agents import Agent, Network

MAX_CALLS = 30
"""Maximum number of agent calls in one run; the script needs seven."""


def planning(network: Run) -> str:
    return f"""\
You are an expert Python programmer. A user reports an issue in a project in {network.state.data.repo}.
Find out how to fix it: list the files, then read the code and its tests, several files at once. Then call create_plan.
Do not change anything yourself. An editor carries out your plan."""


def editing(network: Run) -> str:
    plan = network.state.data.plan
    assert plan is not None, "the router picks the editor only if there is a plan"
    edits = "\n".join(f"- {edit.filename}: {edit.idea} {edit.reasoning}" for edit in plan.edits)
    return f"""\
You are an expert Python programmer and carry out this plan: {plan.details}
{edits}
Run the tests before and after your edits, and read their output. When they pass, call done."""


planner = Agent(
    "Planner",
    description="Reads the project and plans the edits.",
    system=planning,
    tools=[list_files, read_file, create_plan],
)
editor = Agent(
    "Editor",
    description="Carries out the plan, until the tests pass.",
    system=editing,
    tools=[read_file, write_file, run_tests, done],
)


def router(network: Run) -> Agent | None:
    """Return the next agent. Called before each agent; needs no model."""
    code = network.state.data
    if code.done:
        return None
    return planner if code.plan is None else editor


def code_network(model: Any) -> Network[Code]:
    """Return the network, with a chat model or the name of one."""
    agents = [planner, editor]
    return Network("code writing", agents=agents, router=router, state=Code(), default_model=model, max_iter=MAX_CALLS)
