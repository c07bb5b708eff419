"""A plugin of pytest: what a test hands to its driver runs inside other graphs, in the form that the environment names.

Used by `tests/integration/test_semantics_nested.py`: the rules hold for a graph wherever it runs. The wrapper of a
graph is made once in a test, so that a thread goes on with the one that it began with.
"""

from __future__ import annotations

import os
from typing import Any

import pytest
from tests.semantics.nested import nest

from statewright import CompiledGraph

FORM = os.environ.get("STATEWRIGHT_NESTED_FORM", "node")
DEPTH = int(os.environ.get("STATEWRIGHT_NESTED_DEPTH", "2"))
THREAD_METHODS = ("get_state", "resume_due", "aresume_due", "send_event", "asend_event")
"""What a test asks of the graph itself, though its thread is that of the wrapper."""


@pytest.fixture(autouse=True)
def graphs_are_nested(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    if "driver" not in request.fixturenames:
        return
    driver = request.getfixturevalue("driver")
    wrappers: dict[int, tuple[Any, Any]] = {}

    def nested(app: Any) -> Any:
        if type(app) is not CompiledGraph:  # an entrypoint has no state that a parent could share
            return app
        known = wrappers.get(id(app))
        if known is None:
            known = wrappers[id(app)] = (app, nest(app, FORM, DEPTH, awaits=driver.name == "async"))
            for method in THREAD_METHODS:
                setattr(app, method, getattr(known[1], method))
        return known[1]

    invoke, batch = driver.invoke, driver.batch
    monkeypatch.setattr(driver, "invoke", lambda app, *args, **options: invoke(nested(app), *args, **options))
    monkeypatch.setattr(driver, "batch", lambda app, *args, **options: batch(nested(app), *args, **options))
