"""`Runtime`, `ExecutionInfo` and `NodeError`."""

from typing import Any

from statewright import NodeError, Runtime
from statewright.graph import ExecutionInfo


def info(**changes: Any) -> ExecutionInfo:
    defaults = {
        "thread_id": "t",
        "run_id": "r",
        "namespace": "",
        "checkpoint_id": None,
        "step": 1,
        "node": "n",
        "task_id": "x",
    }
    return ExecutionInfo(**{**defaults, **changes})


class Host:
    """A stand-in for the host that the runtime provides."""

    context = "c"
    store = None
    control = None
    execution_info = info(task_id="key")


def test_a_runtime_reads_from_its_host() -> None:
    runtime = Runtime[str](Host())  # type: ignore[arg-type]

    assert (runtime.context, runtime.store, runtime.control) == ("c", None, None)
    assert runtime.execution_info.node == "n"


def test_the_idempotency_key_is_the_id_of_the_task() -> None:
    assert Runtime(Host()).idempotency_key == "key"  # type: ignore[arg-type]


def test_drain_is_not_requested_without_a_control() -> None:
    assert not Runtime(Host()).drain_requested  # type: ignore[arg-type]


def test_the_repr_of_execution_info_shows_its_fields() -> None:
    shown = repr(info(step=7))

    assert shown.startswith("ExecutionInfo(attempt=1, checkpoint_id=None, ")
    assert "step=7" in shown


def test_a_node_error_has_the_node_the_error_and_the_input() -> None:
    error = ValueError("why")
    failure = NodeError("n", error, {"x": 1})

    assert (failure.node, failure.error, failure.input) == ("n", error, {"x": 1})
    assert repr(failure) == "NodeError(node='n', error=ValueError('why'))"
