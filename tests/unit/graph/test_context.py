"""What a node may ask for."""

from typing import Any

from statewright import NodeError, Runtime
from statewright.graph import ExecutionInfo


def info(**changes: Any) -> ExecutionInfo:
    given = {
        "thread_id": "t",
        "run_id": "r",
        "namespace": "",
        "checkpoint_id": None,
        "step": 1,
        "node": "n",
        "task_id": "x",
    }
    return ExecutionInfo(**{**given, **changes})


def test_execution_info_is_worked_out_when_it_is_asked_for() -> None:
    calls: list[int] = []

    def make() -> ExecutionInfo:
        calls.append(1)
        return info()

    runtime = Runtime(context="c", store=None, stream_writer=calls.append, info=make)

    assert (runtime.context, runtime.store, calls) == ("c", None, [])
    assert runtime.execution_info.node == "n"
    assert calls == [1]


def test_execution_info_is_shown_with_all_its_parts() -> None:
    shown = repr(info(step=7))

    assert shown.startswith("ExecutionInfo(attempt=1, checkpoint_id=None, ")
    assert "step=7" in shown


def test_a_runtime_may_be_annotated_with_its_context() -> None:
    runtime = Runtime[int](context=3, store=None, stream_writer=print, info=info)

    assert runtime.context == 3


def test_a_node_error_says_which_node_failed_on_what_and_how() -> None:
    error = ValueError("why")
    told = NodeError("n", error, {"x": 1})

    assert (told.node, told.error, told.input) == ("n", error, {"x": 1})
    assert repr(told) == "NodeError(node='n', error=ValueError('why'))"
