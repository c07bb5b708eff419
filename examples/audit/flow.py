"""Run `flow.yaml` from Python, as `statewright run` does.

python examples/audit/flow.py FOLDER
"""

from __future__ import annotations

import sys
from pathlib import Path

from statewright.project import load_project
from statewright.workflow.states import load_workflow

FLOW = Path(__file__).with_name("flow.yaml")


def main() -> int:
    root = sys.argv[1] if len(sys.argv) > 1 else "."
    app = load_workflow(FLOW).compile(project=load_project(FLOW))
    print(app.invoke({"input": {"root": root}})["result"])
    return 0


if __name__ == "__main__":
    sys.exit(main())
