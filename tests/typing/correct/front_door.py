"""Functions that are exported by the name of a module: a type checker must see the function."""

from __future__ import annotations

from collections.abc import Callable

import statewright
from statewright import add_messages, append, interrupt, overwrite, request_approval, sleep, task, wait_for_event
from statewright.agents import ask, tool
from statewright.channels import append as channel_append
from statewright.channels import overwrite as channel_overwrite
from statewright.models import closing
from statewright.runtime import get_config, get_store, get_stream_writer
from statewright.runtime import interrupt as runtime_interrupt
from statewright.state import json_schema, stored_types
from statewright.testing import record, replay

FUNCTIONS: list[Callable[..., object]] = [
    add_messages,
    append,
    ask,
    channel_append,
    channel_overwrite,
    closing,
    get_config,
    get_store,
    get_stream_writer,
    interrupt,
    json_schema,
    overwrite,
    record,
    replay,
    request_approval,
    runtime_interrupt,
    sleep,
    statewright.interrupt,
    stored_types,
    task,
    tool,
    wait_for_event,
]


def main() -> None:
    assert all(callable(function) for function in FUNCTIONS)
    assert statewright.__version__.split(".")
