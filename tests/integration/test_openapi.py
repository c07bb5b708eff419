"""A live server answers every request as its OpenAPI document says, and never with an internal error."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest
import schemathesis
from hypothesis import HealthCheck, Phase, given, settings
from schemathesis.checks import not_a_server_error
from schemathesis.specs.openapi.checks import (
    content_type_conformance,
    negative_data_rejection,
    response_headers_conformance,
    response_schema_conformance,
    status_code_conformance,
    unsupported_method,
)
from tests.integration.test_server import GUARD, Server
from tests.integration.test_server import serving as serving_process
from tests.unit.server.serving import BROKEN, LEAD, PAYMENT, REVIEW, catalog
from tests.work import FULL

from statewright.server.app import create_app
from statewright.server.settings import ServerSettings
from statewright.service import Service

CHECKS = [
    not_a_server_error,
    status_code_conformance,
    content_type_conformance,
    response_schema_conformance,
    response_headers_conformance,
    unsupported_method,
]
DOCUMENT = schemathesis.openapi.from_dict(
    create_app(Service(catalog()), settings=ServerSettings(auth="none")).openapi()
).exclude(path="/api/v1/workflow-runs/stream")  # has no end
BOUNDED = settings(
    max_examples=12 if FULL else 4,
    deadline=None,
    derandomize=True,
    database=None,
    phases=[Phase.explicit, Phase.generate],
    suppress_health_check=list(HealthCheck),
)


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    with serving_process(tmp_path_factory.mktemp("openapi") / "runs.db") as server:
        yield server


@pytest.fixture(scope="module")
def existing(server: Server) -> dict[str, list[str]]:
    """Ids and names that exist on the server, by the part of the path that names their kind."""
    completed, failed, waiting = server.start(LEAD), server.start(BROKEN), server.start(PAYMENT)
    reviewed = server.start(REVIEW)
    approvals = server.client.get("/api/v1/approval-requests").json()["data"]
    schedule = {"name": "yearly", "cron": "0 0 1 1 *", "graph": "lead"}
    return {
        "workflow-runs": [completed["id"], failed["id"], waiting["id"], reviewed["id"]],
        "ended": [completed["id"]],
        "threads": [completed["threadId"], waiting["threadId"]],
        "approval-requests": [approvals[0]["id"]],
        "workflow-definitions": [completed["definitionId"]],
        "graphs": ["lead", "greeter"],
        "schedules": [server.post("/schedules", schedule, 201)["id"]],
        "triggers": [server.post("/triggers", {"event": "x", "graph": "lead"}, 201)["id"]],
        "workspaces": ["default"],
    }


OPERATIONS = {operation.ok().label: operation.ok() for operation in DOCUMENT.get_all_operations()}


def for_every_operation(test: Callable[..., None]) -> Callable[..., None]:
    """Send requests to every operation: a few, or with STATEWRIGHT_FULL=1 all that Schemathesis generates.

    Schemathesis generates its own while tests are collected, which takes long.
    """
    if FULL:
        return DOCUMENT.parametrize()(BOUNDED(test))

    @pytest.mark.sampled(2)
    @pytest.mark.parametrize("operation", OPERATIONS)
    def draw(operation: str, server: Server, existing: dict[str, list[str]]) -> None:
        sending = given(case=OPERATIONS[operation].as_strategy())(lambda case: test(case, server, existing))
        BOUNDED(sending)()

    return draw


def every_answer_matches_the_document(case: Any, server: Server, existing: dict[str, list[str]]) -> None:
    response = case.call(base_url=str(server.client.base_url), timeout=GUARD)
    case.validate_response(response, checks=[*CHECKS, negative_data_rejection])


def every_answer_about_existing_ids_matches_the_document(
    case: Any, server: Server, existing: dict[str, list[str]]
) -> None:
    _use_existing_ids(case, existing)
    response = case.call(base_url=str(server.client.base_url), timeout=GUARD)
    case.validate_response(response, checks=CHECKS)


test_every_answer_matches_the_document = for_every_operation(every_answer_matches_the_document)
test_every_answer_about_existing_ids_matches_the_document = for_every_operation(
    every_answer_about_existing_ids_matches_the_document
)


def _use_existing_ids(case: Any, existing: dict[str, list[str]]) -> None:
    """Replace ids and names, which no generated value would match, with some that exist."""
    if "id" in (case.path_parameters or {}) and case.method != "DELETE":
        kind = case.path.split("/")[3]
        ids = existing.get("ended" if case.path.endswith("/stream") else kind, ["none"])
        case.path_parameters["id"] = ids[len(str(case.body)) % len(ids)]
    if isinstance(case.body, dict) and {"graph", "definitionId"} & case.body.keys():
        case.body.pop("definitionId", None)
        case.body["graph"] = "greeter"
    if "wait" in (case.query or {}):
        case.query["wait"] = 1
