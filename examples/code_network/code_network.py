"""Two agents fix a bug in a small project: one plans, one edits, and the state says whose turn it is.

    python examples/code_network/code_network.py [--model openai:gpt-5]

Without a model it plays a session that was written beforehand, on files and tests that are real. Every step is saved: a
run that was killed goes on with `--resume`.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from uuid import uuid4

from network import code_network
from session import scripted_model
from show import Steps, difference, plan_lines
from state import Code
from workspace import PROJECT, copy_project, run_suite

from statewright import StatewrightError
from statewright.agents import Network
from statewright.models import as_chat_model
from statewright.storage.sqlite import SqliteSaver


def main() -> int:
    args = arguments()
    try:
        network = code_network(as_chat_model(args.model) if args.model else scripted_model(args.pace))
        if args.draw:
            print(network.compile().get_graph().draw_mermaid())
            return 0
        args.db.parent.mkdir(parents=True, exist_ok=True)
        with SqliteSaver(args.db) as saver:
            return fix(network, saver, args)
    except StatewrightError as error:
        print(error, file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        return 130


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="Fix a bug with a planner and an editor.")
    parser.add_argument("--model", help="a real model, such as openai:gpt-5; its key stands in the environment")
    parser.add_argument("--db", type=Path, default=Path("out/code_network.db"), help="where the run is saved")
    parser.add_argument("--thread", help="the name under which it is saved; a new one by default")
    parser.add_argument("--resume", action="store_true", help="go on with a thread whose run was killed")
    parser.add_argument("--pace", type=float, default=0.02, help="seconds for each word of the script")
    parser.add_argument("--draw", action="store_true", help="print the drawing of the network, and end")
    args = parser.parse_args()
    if args.resume and not args.thread:
        parser.error("--resume needs the --thread to go on with; the run that was killed has printed it")
    return args


def fix(network: Network[Code], saver: SqliteSaver, args: argparse.Namespace) -> int:
    """Run the network, and show what it does and what came of it."""
    thread = args.thread or uuid4().hex[:8]
    print(f"To go on if this is killed: --resume --db {args.db} --thread {thread}")
    steps = Steps()
    for message, _ in resumed(network, saver, thread) if args.resume else begun(network, saver, thread):
        steps.show(message)
    steps.end()
    return report(network, saver, thread)


def begun(network: Network[Code], saver: SqliteSaver, thread: str) -> Iterator[Any]:
    """The messages of a new run, on a new copy of the project."""
    repo = copy_project()
    print(f"The tests before: {verdict(repo)}\n")
    issue = (PROJECT / "ISSUE.md").read_text(encoding="utf-8")
    return network.stream(issue, state=Code(repo=str(repo)), checkpointer=saver, thread_id=thread, durability="sync")


def resumed(network: Network[Code], saver: SqliteSaver, thread: str) -> Iterator[Any]:
    """The messages that are still to come of a run that was killed."""
    # A process that was killed holds its thread for a minute at most, so this one waits for its turn.
    return network.stream(None, checkpointer=saver, thread_id=thread, durability="sync", on_busy="enqueue")


def report(network: Network[Code], saver: SqliteSaver, thread: str) -> int:
    """Print the plan, the difference, what the tests say now, and how the network ended."""
    values = network.compile(saver).get_state(thread_id=thread).values
    code = network.state_of(values).data
    repo = Path(code.repo)
    if code.plan is not None:
        print("\nThe plan\n", *plan_lines(code.plan), sep="\n")
    print("\nThe difference\n", *difference(repo), sep="\n")
    print(f"\nThe tests now: {verdict(repo)}")
    print(f"The network ended: {values['stop_reason']}, after {values['call_count']} calls of agents.")
    print(f"The copy lies in {repo}.")
    return 0 if code.done else 1


def verdict(repo: Path) -> str:
    """The last line of what the tests print: `OK`, or how many fail."""
    return run_suite(repo)[1].splitlines()[-1]


if __name__ == "__main__":
    sys.exit(main())
