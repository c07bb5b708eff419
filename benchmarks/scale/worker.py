"""The simulated workers, which claim runs and advance them, and release those of lost workers."""

from __future__ import annotations

from benchmarks.scale.database import Run, Write
from benchmarks.scale.kernel import Action
from benchmarks.scale.load import RULES
from benchmarks.scale.processes import Process, Surroundings


class Worker(Process):
    """Claims runs and advances them."""

    def __init__(self, cell: Surroundings) -> None:
        super().__init__(cell)
        self.runs: set[Run] = set()
        """The runs that the worker advances."""
        self.until = self.simulation.now + RULES.lease
        """The end of the lease, as it is stored."""
        self.is_draining = False
        self._unattended: list[tuple[Run, int]] = []
        """Claimed runs that are not advanced, because a commit has failed."""
        self._reserved = 0
        self._is_woken = False
        self._has_claimed_in_vain = False
        self._rest_number = 0
        """The number of the pause that the worker is making; odd while it is making one."""
        self._retry_delay = RULES.first_retry
        self.on_drained: Action | None = None
        self.simulation.after(self.simulation.random.uniform(0.0, RULES.heartbeat), self._beat)
        self.simulation.after(0.0, self._look)

    # -- claiming

    def on_ring(self, is_due: bool) -> None:
        super().on_ring(is_due)
        if is_due:
            self.wake()

    def wake(self) -> None:
        """Look for due runs now, or once more if the worker is looking."""
        self._is_woken = True
        if self._rest_number % 2:
            self._rest_number += 1
            self._look()

    @property
    def _free(self) -> int:
        return self.cell.deployment.capacity - len(self.runs) - self._reserved

    def _look(self) -> None:
        self._is_woken = False
        self._claim()

    def _claim(self) -> None:
        if not self.is_alive or self.is_draining:
            return
        free = self._free
        if free <= 0:
            self._rest()
            return
        limit = min(free, max(1, free // 2), RULES.max_claimed)
        self._reserved += limit
        picked: list[Run] = []

        def give_back() -> None:
            for run in picked:
                self.database.release(run)
            picked.clear()

        def choose() -> float:
            give_back()  # after a failure, the claim is repeated
            self.database.claim_count += 1
            picked.extend(self.database.pick(limit, self))
            claim_seconds = self.database.vary(self.costs.claimed_run_db_cpu) * len(picked)
            return write.seconds + claim_seconds

        def end(has_succeeded: bool) -> None:
            if not has_succeeded:
                give_back()
            self._has_claimed_in_vain = not picked
            if picked:
                self._retry_delay = RULES.first_retry
                # The lease is checked before the runs are begun.
                self.database.read(self.costs.read_db_cpu, lambda _: begin())
            else:
                self._reserved -= limit
                self._rest()

        def begin() -> None:
            self._reserved -= limit
            for run in picked:
                self._begin(run)
            if len(picked) < limit:  # whether a run has become due since the claim is read
                self._rest()
            else:
                self._claim()

        write = Write(self.database.vary(self.costs.claim_db_cpu), end, lambda: True)
        write.begin = choose
        self.compute(self.costs.claim_cpu, lambda: self.writer.submit(write))

    def _rest(self) -> None:
        """Wait until the worker is woken, or it is time to poll."""

        def wait(_: bool) -> None:
            has_claimed_in_vain, self._has_claimed_in_vain = self._has_claimed_in_vain, False
            may_claim = bool(self.database.due) and self._free > 0
            if self._is_woken or (may_claim and not has_claimed_in_vain):
                self._look()
                return
            pause = RULES.poll
            if may_claim:  # another worker was faster
                self._retry_delay = min(self._retry_delay * 2, RULES.poll)
                pause = self._retry_delay * self.simulation.random.uniform(0.5, 1.0)
            else:
                self._retry_delay = RULES.first_retry
            self._rest_number += 1
            number = self._rest_number
            self.simulation.after(pause, lambda: self.wake() if self._rest_number == number else None)

        self.database.read(self.costs.read_db_cpu, wait)

    # -- advancing

    def _begin(self, run: Run) -> None:
        if not self.is_alive:
            return
        self.runs.add(run)
        claim = run.claim
        assert claim is not None

        def begin() -> None:
            # The first commit has the input. The thread is new, and not read.
            self._commit(run, claim, lambda: None, lambda: self._execute(run, claim))

        self.compute(self.costs.run_cpu, begin)

    def _execute(self, run: Run, claim: int) -> None:
        if not self.is_alive:
            return
        self.cell.note_node(run)
        has_freed = False

        def end_node() -> None:
            if self.is_alive and run in self.runs:
                self.compute(self.costs.superstep_cpu, lambda: self._commit(run, claim, apply, continue_))

        def apply() -> None:
            nonlocal has_freed
            run.steps_left -= 1
            self.cell.note_step(run)
            if run.steps_left == 0:
                has_freed = self.database.end(run)
                self.cell.note_end(run)
            elif self.is_draining:
                self.database.release(run)

        def continue_() -> None:
            if run.steps_left and run.claim == claim:
                self._execute(run, claim)
                return
            if run.steps_left:
                self.ring(is_due=True)
            self._leave(run, has_freed)

        seconds = self.cell.load.node_seconds
        if seconds:
            self.simulation.after(self.simulation.random.expovariate(1 / seconds), end_node)
        else:
            end_node()

    def _commit(self, run: Run, claim: int, apply: Action, then: Action) -> None:
        """Commit a superstep, guarded by the claim. `apply` changes the records."""

        def commit() -> bool:
            if run.claim != claim:
                return False
            apply()
            return True

        def end(is_accepted: bool) -> None:
            if not self.is_alive:
                return
            if is_accepted:
                self.ring(is_due=False)
                then()
                return
            if run.claim == claim and run.worker is self:  # the database was away
                self._unattended.append((run, claim))
            self._leave(run)

        self.write(self.costs.superstep_db_cpu, end, commit)

    def _leave(self, run: Run, has_freed: bool = False) -> None:
        was_full = len(self.runs) >= self.cell.deployment.capacity
        self.runs.discard(run)
        if was_full or has_freed:
            self.wake()
        if self.is_draining and not self.runs and self.on_drained is not None:
            on_drained, self.on_drained = self.on_drained, None
            on_drained()

    # -- heartbeats

    def _beat(self) -> None:
        """Renew the lease, release the runs of lost workers, and those that this worker does not advance."""
        if not self.is_alive:
            return
        database, costs = self.database, self.costs
        reading = costs.heartbeat_db_cpu + len(database.claimed) * costs.heartbeat_run_db_cpu
        reading += len(self.cell.workers) * costs.heartbeat_worker_db_cpu

        def renew() -> bool:
            self.until = self.simulation.now + RULES.lease
            return True

        def look(has_renewed: bool) -> None:
            if has_renewed:
                database.read(reading, release_lost)
            else:
                self.simulation.after(RULES.poll, self._beat)

        def release_lost(_: bool) -> None:
            now = self.simulation.now
            lost = {worker for worker in self.cell.workers if worker is not self and worker.until <= now}
            runs = [(run, run.claim) for run in database.claimed if run.worker in lost] if lost else []
            # In the order in which they began: a set of objects has a different order in each process.
            runs.sort(key=lambda pair: pair[0].created)
            unattended, self._unattended = self._unattended, []
            self._release_each([*runs, *unattended], has_released=False)

        self.write(costs.read_db_cpu, look, renew)

    def _release_each(self, runs: list[tuple[Run, int | None]], has_released: bool) -> None:
        """Release runs one after another, each in a transaction, and send the next heartbeat afterwards."""
        if not runs or not self.is_alive:
            if has_released:
                self.wake()
            self.simulation.after(RULES.heartbeat, self._beat)
            return
        (run, claim), *others = runs

        def commit() -> bool:
            if run.claim != claim or claim is None:
                return False
            self.database.release(run)
            return True

        def end(is_released: bool) -> None:
            self._release_each(others, has_released or is_released)

        self.write(self.costs.insert_db_cpu, end, commit)

    # -- ending

    def die(self) -> None:
        """End at once, as by SIGKILL. Its record stays until others release its runs."""
        self.is_alive = False
        self.writer.discard()
        self.cell.processes.remove(self)

    def drain(self, on_drained: Action) -> None:
        """Claim no more, and release each run after its superstep, but all of them after some time."""
        self.is_draining = True
        self.on_drained = on_drained

        def abandon() -> None:
            for run in sorted(self.runs, key=lambda run: run.created):
                if run.claim is not None and run.worker is self:
                    self.database.release(run)
                    self.ring(is_due=True)
                self._leave(run)

        if not self.runs:
            self._leave(Run(0.0, 0))
        self.simulation.after(RULES.drain, abandon)

    def end(self) -> None:
        """End after it has drained."""
        self.is_alive = False
        self.cell.processes.remove(self)
        self.cell.workers.remove(self)
