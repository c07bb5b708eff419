"""An email to a lead: looked up, drafted, approved by a person, and sent exactly once, even if the process is killed.

    python examples/lead_outreach/lead_outreach.py [--form json] [--decide approved]

Without `--decide` it asks at the terminal. Resume a run that waits, or was killed, with `--run`.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import sys
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Final

import handlers  # noqa: F401  # its functions register themselves  # pyright: ignore[reportUnusedImport]
from graph import graph
from office import mailbox, writer
from show import show_end, show_event
from talk import LATER, decide_approval

from statewright import StatewrightError
from statewright.runs import DEFAULT_WORKSPACE, Run, RunStatus
from statewright.service import Catalog, Service, StartRun
from statewright.storage.sqlite import SqliteDatabase, SqliteLedger, SqliteSaver
from statewright.workflow.steps import registered

STEPS: Final = Path(__file__).parent / "outreach.json"
EXIT_CODES: Final = {RunStatus.COMPLETED: 0, RunStatus.WAITING: 3}
"""Exit code by status; 1 for all others."""


def main() -> int:
    args = arguments()
    os.environ["OUTREACH_FOLDER"], os.environ["OUTREACH_PACE"] = str(args.folder), str(args.pace)
    try:
        return asyncio.run(outreach(args))
    except StatewrightError as error:
        print(error, file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        return 130


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="Send an email to a lead after human approval.")
    parser.add_argument("--form", choices=["python", "json"], default="python", help="the form of the workflow")
    parser.add_argument("--email", default="jane@example.com", help="the address of the lead")
    parser.add_argument(
        "--decide", choices=["approved", "edited", "rejected", LATER], help="the decision; default: ask at the terminal"
    )
    parser.add_argument("--text", help="the edited email, with --decide edited")
    parser.add_argument("--run", help="resume this run, which waits or was killed")
    parser.add_argument("--folder", type=Path, default=Path("out/lead_outreach"), help="folder for all data")
    parser.add_argument("--pace", type=float, default=0.0, help="simulated duration of each external call, in seconds")
    args = parser.parse_args()
    if (args.decide == "edited") != bool(args.text):
        parser.error("--decide edited and --text belong together: give both")
    return args


async def outreach(args: argparse.Namespace) -> int:
    """Start or resume a run, follow it until it ends or the decision is postponed, and print the result."""
    async with serving(args.folder) as service:
        run = await (service.run(DEFAULT_WORKSPACE, args.run) if args.run else start(service, args))
        print(f"To resume this run after a kill: --run {run.id} --folder {args.folder}\n", flush=True)
        async for event in service.follow(DEFAULT_WORKSPACE, run.id):
            show_event(event)
            run = await service.run(DEFAULT_WORKSPACE, run.id)
            is_asking = event.type == "WORKFLOW_PAUSED" and event.seq == run.last_event
            if is_asking and not await decide_approval(service, run, args.decide, args.text):
                break
        run = await service.run(DEFAULT_WORKSPACE, run.id)
        await show_end(service, run, mailbox())
    return EXIT_CODES.get(run.status, 1)


@asynccontextmanager
async def serving(folder: Path) -> AsyncGenerator[Service]:
    """Run a service for all runs of a folder; unfinished ones are resumed at once."""
    catalog = Catalog(handlers=registered, models=lambda _: writer)
    catalog.serve("outreach", graph)
    catalog.serve_steps(STEPS.read_text(encoding="utf-8"))
    folder.mkdir(parents=True, exist_ok=True)
    with SqliteDatabase(folder / "runs.db") as database:
        async with Service(catalog, ledger=SqliteLedger(database), saver=SqliteSaver(database)) as service:
            yield service


async def start(service: Service, args: argparse.Namespace) -> Run:
    """Start a run of the workflow in the form that was chosen."""
    requests = {
        "python": StartRun(graph="outreach", input={"lead_email": args.email}),
        "json": StartRun(graph="outreach-json", input={"leadEmail": args.email}),
    }
    return (await service.start(DEFAULT_WORKSPACE, requests[args.form])).run


if __name__ == "__main__":
    sys.exit(main())
