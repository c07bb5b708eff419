"""Workflows in YAML, with scripted outputs: the cost of the engine itself, without that of models."""

import itertools
import json
import os
import tempfile
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

from benchmarks.figure import Figure, Take
from benchmarks.requirement import AtMost
from benchmarks.timing import per_await, per_call

ITEMS = 1000
STAGES = 3
CONTEXT = 100_000
"""Size of the context in bytes before the items are split."""
_numbers = itertools.count()

THREE_STAGES = """
max_concurrency: 100
enable_summarization_node: false
assistants: [{id: a, system_prompt: Do it.}]
states:
- {id: split, assistant_id: a, task: Split., next: {state_id: first, iter_key: parts}}
- {id: first, assistant_id: a, task: "First {{name}}", next: {state_id: second, iter_key: parts}}
- {id: second, assistant_id: a, task: "Second {{name}} {{one}}", next: {state_id: third, iter_key: parts}}
- {id: third, assistant_id: a, task: "Third {{two}}", next: {state_id: merge}}
- {id: merge, assistant_id: a, task: Merge., next: {state_id: end}}
"""
SCRIPT = {"first": '{"one": "$name"}', "second": '{"two": "$name"}', "third": '{"three": "$name"}', "merge": "done"}


def _app(context: int = 0, **options: Any) -> Any:
    from statewright.workflow.states import load_workflow

    parts = [{"name": f"part {number}"} for number in range(ITEMS)]
    more = {f"key {number}": "x" * 89 for number in range(context // 100)}
    script = {"split": json.dumps({"parts": parts, **more}), **SCRIPT}
    return load_workflow(THREE_STAGES).compile(script=script, **options)


def three_stages() -> Callable[[], Awaitable[object]]:
    app = _app()
    return lambda: app.ainvoke({"input": "go"})


def three_stages_sync() -> Callable[[], object]:
    app = _app()
    return lambda: app.invoke({"input": "go"})


def bytes_committed() -> Take:
    """Return the size of the database after one run over a large context."""
    from statewright.storage.sqlite import SqliteSaver

    def take() -> float:
        path = Path(tempfile.mkdtemp(prefix="statewright-bench-")) / f"{next(_numbers)}.db"
        with SqliteSaver(path) as saver:
            _app(CONTEXT, checkpointer=saver).invoke({"input": "go"}, thread_id="t")
        return os.path.getsize(path) / 1e6

    return take


def many_states() -> str:
    """Return a workflow of 24 states: assistants with schemas, conditions, an iteration, tool states."""
    states = [
        f"- id: state-{number}\n  assistant_id: a\n  task: |\n    Do part {number} of {{{{project}}}} with care.\n"
        f'    Tell what was found.\n  output_schema: |\n    {{"found": true, "part": {number}}}\n  next:\n'
        f'    condition:\n      expression: "found == true and part > {number - 1}"\n'
        f"      then: state-{number + 1}\n      otherwise: end\n    output_key: part_{number}\n"
        for number in range(23)
    ]
    last = "- id: state-23\n  assistant_id: a\n  task: Sum up.\n  next: {state_id: end}\n"
    head = "enable_summarization_node: false\nassistants:\n- {id: a, system_prompt: You are careful.}\nstates:\n"
    return head + "".join(states) + last


def loading() -> Callable[[], object]:
    from statewright.workflow.states import load_workflow

    text = many_states()
    return lambda: load_workflow(text).compile()


FIGURES = (
    Figure(
        name=f"YAML states, {ITEMS} items in {STAGES} stages, async",
        unit="us a state",
        ours=per_await(three_stages, ITEMS * STAGES + 2),
        limit=AtMost(100),
    ),
    Figure(
        name=f"YAML states, {ITEMS} items in {STAGES} stages, sync",
        unit="us a state",
        ours=per_call(three_stages_sync, ITEMS * STAGES + 2),
        limit=AtMost(100),
    ),
    Figure(
        name="YAML states, loading and compiling 24 states",
        unit="us",
        ours=per_call(loading, 1),
        limit=AtMost(30_000),
    ),
    Figure(
        name=f"YAML states, {ITEMS} items over a context of 100 kB in SQLite",
        unit="MB",
        ours=bytes_committed(),
        limit=AtMost(5),
        is_repeated=False,
    ),
)
