"""The simulated servers, which start runs and deliver their events."""

from __future__ import annotations

from benchmarks.scale.database import Run
from benchmarks.scale.load import RULES
from benchmarks.scale.processes import Process, Surroundings


class Server(Process):
    """Answers requests, and delivers the events of followed runs."""

    has_followers = True

    def __init__(self, cell: Surroundings) -> None:
        super().__init__(cell)
        self.followed: set[Run] = set()
        self.changed: dict[Run, float] = {}
        """Followed runs that have changed since the last poll, with the time of the first change."""
        self._is_polling = self._may_poll = self._is_rung = False
        self._wait_number = 0

    def post(self, run: Run) -> None:
        """Start a run. A client repeats a request that has failed."""
        run.server = self

        def commit() -> bool:
            self.database.insert(run)
            return True

        def respond(has_succeeded: bool) -> None:
            if not has_succeeded:
                wait = RULES.client_retry * self.simulation.random.uniform(0.5, 1.5)
                self.simulation.after(wait, lambda: self.post(run))
                return
            self.ring(is_due=True)
            self.sweep()
            if run.is_followed:
                self.followed.add(run)
                if not self._is_polling:
                    self._is_polling = True
                    self._poll()

        def insert(has_succeeded: bool) -> None:
            if has_succeeded:
                self.write(self.costs.insert_db_cpu, respond, commit)
            else:
                respond(False)

        # Clients send an idempotency key with every request, and the server looks for an earlier run with it.
        self.compute(self.costs.request_cpu, lambda: self.database.read(self.costs.read_db_cpu, insert))

    # -- followers

    def on_ring(self, is_due: bool) -> None:
        super().on_ring(is_due)
        if not is_due:
            self._is_rung = True
            if self._may_poll:
                self._poll()

    def _poll_again(self, pause: float) -> None:
        """Poll at the first notification after a pause, but at most a second later."""
        self._wait_number += 1
        number = self._wait_number

        def wait() -> None:
            if self._is_rung:
                self._poll()
                return
            self._may_poll = True
            rest = RULES.follow_poll - pause
            self.simulation.after(
                rest, lambda: self._poll() if number == self._wait_number and self._may_poll else None
            )

        self.simulation.after(pause, wait)

    def _poll(self) -> None:
        self._may_poll = self._is_rung = False
        if not self.followed:
            self._is_polling = False
            return
        began, count = self.simulation.now, len(self.followed)
        changed, self.changed = self.changed, {}
        queries = -(-count // RULES.follow_batch)
        reading = queries * self.costs.read_db_cpu + count * self.costs.polled_run_db_cpu

        def deliver(_: bool) -> None:
            # Each changed run costs one more read, of its events. The next poll does not wait for these.
            for run, since in changed.items():
                self.database.read(
                    self.costs.read_db_cpu, lambda _, since=since: self.cell.note_lag(self.simulation.now - since)
                )
                if run.steps_left == 0:
                    self.followed.discard(run)
            self._poll_again(min(RULES.follow_poll, 9 * (self.simulation.now - began)))

        self.compute(count * self.costs.polled_run_cpu, lambda: self.database.read(reading, deliver))
