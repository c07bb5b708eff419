"""The config and the runtime of a call in the form that tools written for LangChain and LangGraph take."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any, Final

from statewright.agents.tools.tool import ToolContext
from statewright.channels import MISSING

_KEYS: Final = ("tags", "metadata", "callbacks", "recursion_limit", "max_concurrency", "configurable")
"""The keys of a RunnableConfig that belong to the run as a whole."""


def config_of(context: ToolContext) -> Any:
    """Return the config of the run as a RunnableConfig; MISSING outside of a run.

    `metadata` has also the ids of the execution, under the names that LangGraph gives them.
    """
    config = context.config
    if config is None or context.runtime is None:
        return MISSING
    info = context.runtime.execution_info
    given: Mapping[str, Any] = config.get("metadata") or {}
    ids = {
        "thread_id": info.thread_id,
        "run_id": config.get("run_id"),
        "langgraph_step": info.step,
        "langgraph_node": info.node,
        "langgraph_checkpoint_ns": info.namespace,
    }
    metadata = {**{name: value for name, value in ids.items() if value is not None}, **given}
    present = {name: config[name] for name in _KEYS if config.get(name) is not None}
    configurable = {name: value for name, value in config["configurable"].items() if value is not None}
    return {"tags": [], "callbacks": None, **present, "metadata": metadata, "configurable": configurable}


def tool_runtime(kind: Any, context: ToolContext) -> Any:
    """Return a ToolRuntime of LangGraph, whose class is the annotation; MISSING outside of a run.

    Fields that another version of the class has, and that mean nothing here, keep their defaults.
    """
    config = config_of(context)
    if config is MISSING:
        return MISSING
    known = {
        "state": context.state,
        "context": context.context,
        "config": config,
        "stream_writer": context.stream_writer,
        "tool_call_id": context.tool_call_id,
        "store": context.store,
        "tools": list(context.tools),
        "execution_info": context.execution_info,
    }
    names = {field.name for field in dataclasses.fields(kind) if field.init}
    return kind(**{name: value for name, value in known.items() if name in names})
