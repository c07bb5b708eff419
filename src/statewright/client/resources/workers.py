"""Workers and queues, which all workspaces share."""

from __future__ import annotations

from collections.abc import Sequence

from statewright.api.workers import Queue, Worker
from statewright.client.call import Call, api_path, delete, get, ignore_content, post, put, to_camel_case
from statewright.client.sync_async import F, Namespace, request


class Workers(Namespace[F]):
    """Processes that advance runs.

    The methods need the admin token, `Client(admin_token=...)`, or a key with the scope `workers:read` or
    `workers:manage`.
    """

    @request
    def list(self) -> Call[Sequence[Worker]]:
        """Return the workers, the oldest first, including lost ones whose runs have not been released yet."""
        return get(api_path("workers"), Worker.read_all, as_operator=True)

    @request
    def drain(self, worker_id: str) -> Call[Worker]:
        """Ask a worker to claim no more runs, and to release its own after their current steps."""
        path = api_path("workers", worker_id, "drain")
        return post(path, Worker.from_response, as_operator=True, repeatable=True)


class Queues(Namespace[F]):
    """Queues, from which workers claim runs. The methods need the same permissions as those of `Workers`."""

    @request
    def list(self) -> Call[Sequence[Queue]]:
        """Return the default queue, and those with limits, live workers, unfinished or dead runs, sorted by name."""
        return get(api_path("queues"), Queue.read_all, as_operator=True)

    @request
    def set(self, name: str, *, max_running: int | None = None, starts_per_minute: int | None = None) -> Call[Queue]:
        """Replace both limits of a queue; None for no limit."""
        limits = {"max_running": max_running, "starts_per_minute": starts_per_minute}
        return put(api_path("queues", name), Queue.from_response, to_camel_case(limits), as_operator=True)

    @request
    def remove(self, name: str) -> Call[None]:
        """Remove the limits of a queue. Its runs stay."""
        return delete(api_path("queues", name), ignore_content, as_operator=True)
