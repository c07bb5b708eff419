"""The root of both clients: all resources."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any, Generic, TypeVar

from statewright.api.access import Health
from statewright.client.call import Call
from statewright.client.resources.access import Costs, Keys, Workspaces
from statewright.client.resources.automation import Schedules, Triggers, Webhooks
from statewright.client.resources.definitions import Definitions, Graphs, Threads
from statewright.client.resources.interrupts import Approvals, Events, Interrupts
from statewright.client.resources.runs import Runs
from statewright.client.settings import DEFAULT_URL, ClientSettings
from statewright.client.sync_async import Driver, F, Namespace, request
from statewright.clock import Clock, SystemClock

Transport = TypeVar("Transport")
"""A transport of httpx, synchronous or asynchronous."""


class Root(Namespace[F], ABC, Generic[F, Transport]):
    """All resources of a service."""

    def __init__(
        self,
        base_url: str = DEFAULT_URL,
        api_key: str | None = None,
        timeout: float = 30.0,
        *,
        admin_token: str | None = None,
        retries: int = 3,
        clock: Clock | None = None,
        transport: Transport | None = None,
    ) -> None:
        """Raises InvalidConfig for an invalid address, and MissingLibrary without the extra `client`."""
        settings = ClientSettings(
            base_url=base_url,
            api_key=api_key,
            admin_token=admin_token,
            timeout=timeout,
            retries=retries,
            clock=clock or SystemClock(),
        )
        driver = self._connect(transport, settings)
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

    @abstractmethod
    def _connect(self, transport: Transport | None, settings: ClientSettings) -> Driver:
        """Return the driver of the client, on the given transport or by default on a new one."""

    @request
    def health(self) -> Call[Health]:
        """Return the health of the service, even if it is failing."""
        return Call(method="GET", path="/health", read=Health.from_json, accepted=(503,))

    @request
    def ready(self) -> Call[bool]:
        """Return True if the service accepts requests."""
        return Call(method="GET", path="/ready", read=_is_ready, accepted=(503,))

    @request
    def metrics(self) -> Call[str]:
        """Return the metrics of the service, in the text format of Prometheus."""
        return Call(method="GET", path="/metrics", read=str, repeatable=True, is_text=True)


def _is_ready(answer: Any) -> bool:
    return answer["status"] == "ready"
