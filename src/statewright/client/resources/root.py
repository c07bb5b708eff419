"""All namespaces together: what both clients have."""

from __future__ import annotations

from typing import Any

from statewright.client.call import Call
from statewright.client.records.standing import Health
from statewright.client.resources.access import Keys, Workspaces
from statewright.client.resources.interrupts import Approvals, Events, Interrupts
from statewright.client.resources.runs import Runs
from statewright.client.resources.served import Costs, Definitions, Graphs, Threads
from statewright.client.resources.standing import Schedules, Triggers, Webhooks
from statewright.client.settings import ClientSettings
from statewright.client.sync_async import Driver, F, Namespace, request


class Root(Namespace[F]):
    """Everything that can be asked of a service."""

    def __init__(self, driver: Driver, settings: ClientSettings) -> None:
        super().__init__(driver, settings)
        self.runs: Runs[F] = Runs(driver, settings)
        self.definitions: Definitions[F] = Definitions(driver, settings)
        self.graphs: Graphs[F] = Graphs(driver, settings)
        self.interrupts: Interrupts[F] = Interrupts(driver, settings)
        self.approvals: Approvals[F] = Approvals(driver, settings)
        self.events: Events[F] = Events(driver, settings)
        self.threads: Threads[F] = Threads(driver, settings)
        self.costs: Costs[F] = Costs(driver, settings)
        self.webhooks: Webhooks[F] = Webhooks(driver, settings)
        self.schedules: Schedules[F] = Schedules(driver, settings)
        self.triggers: Triggers[F] = Triggers(driver, settings)
        self.keys: Keys[F] = Keys(driver, settings)
        self.workspaces: Workspaces[F] = Workspaces(driver, settings)

    @request
    def health(self) -> Call[Health]:
        """How the service is; an answer too if it is not well."""
        return Call(method="GET", path="/health", read=Health.from_json, accepted=(503,))

    @request
    def ready(self) -> Call[bool]:
        """Whether requests should be sent to the service."""
        return Call(method="GET", path="/ready", read=_is_ready, accepted=(503,))

    @request
    def metrics(self) -> Call[str]:
        """The numbers of the service, in the text format of Prometheus."""
        return Call(method="GET", path="/metrics", read=str, repeatable=True, is_text=True)


def _is_ready(answer: Any) -> bool:
    return answer["status"] == "ready"
