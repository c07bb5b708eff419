"""`statewright run`: run a graph and print where it came to rest."""

from __future__ import annotations

import sys
import traceback
from typing import Annotated, Any, NoReturn, cast

import typer

from statewright.cli.failure import CANCELLED, FAILED, WAITING, WRONG_USE, end


def run(
    target: Annotated[
        str, typer.Argument(metavar="FILE.py[:GRAPH]", help="The file, and the name of the graph in it.")
    ],
    given: Annotated[
        list[str] | None, typer.Option("--input", "-i", help="JSON, @FILE, or KEY=VALUE; several are merged.")
    ] = None,
    json: Annotated[bool, typer.Option("--json", help="Print the state as one JSON document.")] = False,
    recursion_limit: Annotated[int | None, typer.Option(help="How many supersteps the run may take.")] = None,
    max_concurrency: Annotated[int | None, typer.Option(help="How many tasks may be in flight.")] = None,
    show_traceback: Annotated[bool, typer.Option("--traceback", help="Show where a node failed.")] = False,
) -> None:
    """Run a graph to rest. Exits with 0 when it is done, 3 when it waits, 1 when a node failed, 2 on wrong use."""
    from statewright.cli.given import read_input
    from statewright.cli.load import load_graph
    from statewright.cli.show import print_state
    from statewright.errors import InvalidConfig

    app = load_graph(target)
    start = read_input(given or ["{}"])
    limits = {"recursion_limit": recursion_limit, "max_concurrency": max_concurrency}
    config = {name: value for name, value in limits.items() if value is not None}
    try:
        state, questions = _follow(app, start, config)
    except KeyboardInterrupt:
        end("Cancelled.", CANCELLED)
    except InvalidConfig as error:
        end(f"Error: {error}", WRONG_USE)
    except Exception as error:
        _fail(error, show_traceback=show_traceback)
    print_state(state, json_wanted=json)
    if questions:
        _ask(questions)


def _follow(app: Any, start: Any, config: dict[str, Any]) -> tuple[Any, tuple[Any, ...]]:
    """Run the graph with progress; its last state, and the questions that it waits for."""
    from statewright.cli.terminal import Progress

    if app.checkpointer is not None:
        config = {**config, "thread_id": "cli"}
    state: Any = None
    questions: tuple[Any, ...] = ()
    with Progress() as progress:
        for mode, part in app.stream(start, config, stream_mode=["tasks", "values"]):
            if mode == "tasks":
                progress.take(part)
            elif isinstance(part, dict) and "__interrupt__" in part:
                questions = cast(dict[str, Any], part)["__interrupt__"]
            else:
                state = cast(Any, part)
    return state, questions


def _ask(questions: tuple[Any, ...]) -> None:
    lines = [f"  {question.id}  {question.value!r}" for question in questions]
    end("\n".join(["The run waits for answers:", *lines]), WAITING)


def _fail(error: Exception, *, show_traceback: bool) -> NoReturn:
    """Say what failed and where; an input that the graph refuses is wrong use."""
    from statewright.errors import EmptyInputError, InvalidUpdateError

    places = [note for note in getattr(error, "__notes__", ()) if note.startswith("in node")]
    if isinstance(error, EmptyInputError | InvalidUpdateError) and not places:
        end(f"Error: {error}", WRONG_USE)
    if show_traceback:
        traceback.print_exception(error, file=sys.stderr)
    where = f" ({places[0]})" if places else ""
    end(f"Error: {type(error).__name__}: {error}{where}", FAILED)
