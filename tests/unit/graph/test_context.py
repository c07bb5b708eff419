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


class Host:
    """Stands for what the runtime fills in."""

    context = "c"
    store = None
    control = None
    execution_info = info(task_id="key")


def test_a_runtime_shows_what_its_host_has() -> None:
    runtime = Runtime[str](Host())  # type: ignore[arg-type]

    assert (runtime.context, runtime.store, runtime.control) == ("c", None, None)
    assert runtime.execution_info.node == "n"


def test_the_idempotency_key_is_the_id_of_the_task() -> None:
    assert Runtime(Host()).idempotency_key == "key"  # type: ignore[arg-type]


def test_a_run_without_a_control_was_not_asked_to_drain() -> None:
    assert not Runtime(Host()).drain_requested  # type: ignore[arg-type]


def test_execution_info_is_shown_with_all_its_parts() -> None:
    shown = repr(info(step=7))

    assert shown.startswith("ExecutionInfo(attempt=1, checkpoint_id=None, ")
    assert "step=7" in shown


def test_a_node_error_says_which_node_failed_on_what_and_how() -> None:
    error = ValueError("why")
    told = NodeError("n", error, {"x": 1})

    assert (told.node, told.error, told.input) == ("n", error, {"x": 1})
    assert repr(told) == "NodeError(node='n', error=ValueError('why'))"
