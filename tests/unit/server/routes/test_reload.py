"""The state of the files of a development server."""

from __future__ import annotations

import asyncio

from tests.unit.server.serving import serving

from statewright.server.context.reload_status import LoadFailure, LoadProblem, ReloadStatus
from statewright.server.context.server_context import ServerContext


def test_a_production_server_watches_no_files() -> None:
    async def run() -> None:
        async with serving() as api:
            state = await api.get("/reload")
            assert (state["watches"], state["problems"], state["texts"]) == (False, [], {})

    asyncio.run(run())


def test_the_problems_of_a_newer_version_are_shown_with_the_text_of_their_file() -> None:
    async def run() -> None:
        async with serving() as api:
            context: ServerContext = api.app.state.context
            now = api.service.clock.now()
            context.reload_status = ReloadStatus(now)
            state = await api.get("/reload")
            assert (state["watches"], state["failedAt"], state["problems"]) == (True, None, [])
            problem = LoadProblem(file="flow.py", line=3, code="NameError", message="NameError: x")
            context.reload_status.failed = (LoadFailure(problems=[problem], texts={"flow.py": "x"}), now)
            state = await api.get("/reload")
            assert (state["failedAt"] == state["loadedAt"], state["texts"]) == (True, {"flow.py": "x"})
            (shown,) = state["problems"]
            assert (shown["file"], shown["line"], shown["column"]) == ("flow.py", 3, None)

    asyncio.run(run())
