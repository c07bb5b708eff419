"""Two agents fix a bug in a small project: one plans, one edits, and the state decides whose turn it is.

    python examples/code_network/code_network.py [--model openai:gpt-5]

Without --model it uses a scripted model, but real files and tests. Every step is saved, so that a run that was
killed can be resumed with `--resume`.
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
from show import Steps, diff_lines, plan_lines
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
    parser.add_argument("--model", help="a real model, such as openai:gpt-5; its API key comes from the environment")
    parser.add_argument("--db", type=Path, default=Path("out/code_network.db"), help="path of the database")
    parser.add_argument("--thread", help="id of the thread; a new one by default")
    parser.add_argument("--resume", action="store_true", help="resume a thread whose run was killed")
    parser.add_argument("--pace", type=float, default=0.02, help="seconds per word of the scripted model")
    parser.add_argument("--draw", action="store_true", help="print a drawing of the network, and exit")
    args = parser.parse_args()
    if args.resume and not args.thread:
        parser.error("--resume needs --thread with the id that the killed run has printed")
    return args


def fix(network: Network[Code], saver: SqliteSaver, args: argparse.Namespace) -> int:
    """Run the network, and print its steps and the result."""
    thread = args.thread or uuid4().hex[:8]
    print(f"To resume this run after a kill: --resume --db {args.db} --thread {thread}")
    steps = Steps()
    for message, _ in resume(network, saver, thread) if args.resume else start(network, saver, thread):
        steps.show(message)
    steps.end()
    return report(network, saver, thread)


def start(network: Network[Code], saver: SqliteSaver, thread: str) -> Iterator[Any]:
    """Yield the messages of a new run, on a new copy of the project."""
    repo = copy_project()
    print(f"Tests before: {verdict(repo)}\n")
    issue = (PROJECT / "ISSUE.md").read_text(encoding="utf-8")
    return network.stream(issue, state=Code(repo=str(repo)), checkpointer=saver, thread_id=thread, durability="sync")


def resume(network: Network[Code], saver: SqliteSaver, thread: str) -> Iterator[Any]:
    """Yield the remaining messages of a run that was killed."""
    # The lease of a killed process expires within a minute, so this one waits for its turn.
    return network.stream(None, checkpointer=saver, thread_id=thread, durability="sync", on_busy="enqueue")


def report(network: Network[Code], saver: SqliteSaver, thread: str) -> int:
    """Print the plan, the diff, the test results, and how the network ended."""
    values = network.compile(saver).get_state(thread_id=thread).values
    code = network.state_of(values).data
    repo = Path(code.repo)
    if code.plan is not None:
        print("\nThe plan\n", *plan_lines(code.plan), sep="\n")
    print("\nThe diff\n", *diff_lines(repo), sep="\n")
    print(f"\nTests now: {verdict(repo)}")
    print(f"The network ended after {values['call_count']} agent calls: {values['stop_reason']}.")
    print(f"The copy is in {repo}.")
    return 0 if code.done else 1


def verdict(repo: Path) -> str:
    """Return the last line of the test output: `OK`, or the number of failures."""
    return run_suite(repo)[1].splitlines()[-1]


if __name__ == "__main__":
    sys.exit(main())
