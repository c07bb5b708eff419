"""A simulated Postgres database: cores, the log, the lock of claims, the runs, and the writing session of a process.

A transaction of a process needs processor time for itself and for each write in it, then a flush of the log, which all
transactions that wait for it share. A claim holds the lock of claims from its turn in the transaction to the end of the
transaction, flush included; the writes of the same process that are queued behind it wait, as they do in
`storage/group_commit.py`. Advisory locks of threads are not simulated: no two processes write to the same thread.

While the database is down, transactions are interrupted, and repeated if it returns within the patience of the
processes. Otherwise they fail.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from math import log

from benchmarks.scale.costs import Costs
from benchmarks.scale.kernel import Action, BatchDevice, Mutex, Simulation, Station
from benchmarks.scale.load import RULES

MILLISECOND = 1e-3


class Run:
    """A run and its record."""

    __slots__ = (
        "claim", "claims", "created", "executed_at", "executed_step", "is_followed", "is_hot", "server", "steps_left",
        "thread", "worker",
    )  # fmt: skip

    def __init__(self, created: float, supersteps: int) -> None:
        self.created = created
        self.steps_left = supersteps
        self.claims = 0
        """The number of claims so far."""
        self.claim: int | None = None
        """The number of the current claim; None if no worker has claimed the run."""
        self.worker: object = None
        self.thread: str | None = None
        """The name of the thread if other runs use it too."""
        self.is_hot = False
        """True for a run of the hot workspace."""
        self.is_followed = False
        self.server: object = None
        """The server on which it was started."""
        self.executed_step = -1
        """The value of `steps_left` when a node was begun last."""
        self.executed_at = 0.0
        """The time at which it was begun."""


class Write:
    """A write of a process: the processor time that it needs, and what it does when it is committed."""

    def __init__(self, seconds: float, done: Callable[[bool], object], commit: Callable[[], bool]) -> None:
        self.seconds = seconds
        self.commit = commit
        """Changes the records. Returns False if it is refused."""
        self.done = done
        """Called with whether it was committed; see `Failure` for a database that was away."""
        self.begin: Callable[[], float] | None = None
        """For a claim: chooses runs while the lock is held, and returns the processor time for them."""
        self.fail: Action = lambda: done(False)
        """Called if the database was away for too long."""


class Database:
    """The records, and what transactions wait for."""

    def __init__(self, simulation: Simulation, costs: Costs, cores: int, workspace_limit: int | None = None) -> None:
        self.simulation = simulation
        self.costs = costs
        self.core_count = cores
        self.cores = Station(simulation, cores)
        self.log = BatchDevice(simulation, costs.flush * MILLISECOND)
        self.claim_lock = Mutex(simulation)
        self.writers: list[Writer] = []
        self.due: deque[Run] = deque()
        self.claimed: set[Run] = set()
        self._threads: dict[str, deque[Run]] = {}
        """The waiting runs of each shared thread that is in use."""
        self._workspace_limit = workspace_limit
        self._hot_claimed = 0
        self._hot_held: deque[Run] = deque()
        self._reads: dict[int, tuple[float, Callable[[bool], object]]] = {}
        self._read_number = 0
        self.epoch = 0
        """The number of failures."""
        self.down_since: float | None = None
        self.claim_count = 0
        """Claims by workers, those that found nothing included."""
        self.transactions = 0
        self.refused = 0
        """Writes that were refused, because another process was faster."""

    def vary(self, milliseconds: float) -> float:
        """Return a random demand in seconds with this mean: half of it is fixed, and half exponentially distributed."""
        return milliseconds * MILLISECOND * (0.5 - 0.5 * log(1.0 - self.simulation.random.random()))

    # -- the records

    def insert(self, run: Run) -> None:
        """Add a run, which is due unless another run uses its thread."""
        if run.thread is not None:
            waiting = self._threads.get(run.thread)
            if waiting is not None:
                waiting.append(run)
                return
            self._threads[run.thread] = deque()
        self.due.append(run)

    def pick(self, limit: int, worker: object) -> list[Run]:
        """Claim due runs, the first ones. Runs of a workspace that is full are held back."""
        picked: list[Run] = []
        while self.due and len(picked) < limit:
            run = self.due.popleft()
            if run.is_hot and self._workspace_limit is not None:
                if self._hot_claimed >= self._workspace_limit:
                    self._hot_held.append(run)
                    continue
                self._hot_claimed += 1
            run.claims += 1
            run.claim, run.worker = run.claims, worker
            self.claimed.add(run)
            picked.append(run)
        return picked

    def release(self, run: Run) -> None:
        """End the claim on a run, which is due again."""
        self._end_claim(run)
        self.due.append(run)

    def end(self, run: Run) -> bool:
        """End a run. Return True if another run of its thread or workspace has become due by that."""
        self._end_claim(run)
        before = len(self.due)
        if self._hot_held and run.is_hot:
            self.due.append(self._hot_held.popleft())
        if run.thread is not None:
            waiting = self._threads[run.thread]
            if waiting:
                self.due.append(waiting.popleft())
            else:
                del self._threads[run.thread]
        return len(self.due) > before

    def _end_claim(self, run: Run) -> None:
        run.claim = run.worker = None
        self.claimed.discard(run)
        if run.is_hot and self._workspace_limit is not None:
            self._hot_claimed -= 1

    @property
    def held_count(self) -> int:
        """The number of runs that wait for another run of their thread or workspace."""
        return len(self._hot_held) + sum(map(len, self._threads.values()))

    # -- reads

    def read(self, milliseconds: float, done: Callable[[bool], object]) -> None:
        """Read, and call `done` with whether that was possible."""
        self._read_number += 1
        number = self._read_number
        self._reads[number] = milliseconds, done
        if self.down_since is None:
            self._start_read(number, milliseconds)
        elif not self.is_waited_for:
            self._end_read(number, False)

    def _start_read(self, number: int, milliseconds: float) -> None:
        epoch = self.epoch

        def end() -> None:
            if epoch == self.epoch:
                self.simulation.after(self.costs.round_trip * MILLISECOND, lambda: self._end_read(number, True))

        self.cores.serve(self.vary(milliseconds), end)

    def _end_read(self, number: int, has_succeeded: bool) -> None:
        entry = self._reads.pop(number, None)
        if entry is not None:
            entry[1](has_succeeded)

    # -- failures

    @property
    def is_waited_for(self) -> bool:
        """True while processes still wait for a database that is down."""
        return self.down_since is not None and self.simulation.now < self.down_since + RULES.patience

    def go_down(self) -> None:
        """Interrupt all transactions."""
        self.epoch += 1
        self.down_since = self.simulation.now
        cores, log, lock = self.cores, self.log, self.claim_lock
        self.cores = Station(self.simulation, self.core_count)
        self.log = BatchDevice(self.simulation, self.costs.flush * MILLISECOND)
        self.claim_lock = Mutex(self.simulation)
        self.cores.busy_seconds, self.log.busy_seconds = cores.busy_seconds, log.busy_seconds
        self.claim_lock.held_seconds = lock.held_seconds
        for writer in self.writers:
            writer.interrupt()
        self.simulation.after(RULES.patience, self._lose_patience)

    def _lose_patience(self) -> None:
        if self.down_since is None:
            return
        for number in tuple(self._reads):
            self._end_read(number, False)
        for writer in self.writers:
            writer.fail_all()

    def come_up(self) -> None:
        """Accept transactions again."""
        self.down_since = None
        for number, (milliseconds, _) in tuple(self._reads.items()):
            self._start_read(number, milliseconds)
        for writer in self.writers:
            writer.begin_next()


class Writer:
    """The writing session of a process. Writes that arrive during a transaction share the next one."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._queue: deque[Write] = deque()
        self._group: Sequence[Write] = ()
        """The writes of the current transaction."""
        self._is_committed = False
        """True while the response to its commit is on its way."""
        database.writers.append(self)

    def submit(self, write: Write) -> None:
        """Write as soon as the current transaction has ended."""
        database = self._database
        if database.down_since is not None and not database.is_waited_for:
            write.fail()
            return
        self._queue.append(write)
        self.begin_next()

    def begin_next(self) -> None:
        """Begin the next transaction, if there is none and anything to write."""
        if self._group or not self._queue or self._database.down_since is not None:
            return
        queue = self._queue
        group = [queue.popleft() for _ in range(min(len(queue), RULES.max_group))]
        self._group = group
        database, epoch = self._database, self._database.epoch
        database.transactions += 1
        claim = next((index for index, write in enumerate(group) if write.begin is not None), None)
        transaction = database.vary(database.costs.transaction_db_cpu)
        if claim is None:
            seconds = transaction + sum(write.seconds for write in group)
            database.cores.serve(seconds, lambda: self._flush(epoch, None, True))
            return

        def take_lock() -> None:
            if epoch == database.epoch:
                lock = database.claim_lock
                lock.acquire(lambda: choose(lock))

        def choose(lock: Mutex) -> None:
            begin = group[claim].begin
            assert begin is not None
            # A claim that finds nothing writes nothing, and neither does a transaction with nothing else.
            chosen = begin()
            writes = len(group) > 1 or bool(chosen > group[claim].seconds)
            seconds = chosen + sum(write.seconds for write in group[claim + 1 :])
            database.cores.serve(seconds, lambda: self._flush(epoch, lock, writes))

        database.cores.serve(transaction + sum(write.seconds for write in group[:claim]), take_lock)

    def _flush(self, epoch: int, lock: Mutex | None, writes: bool) -> None:
        database = self._database
        if epoch != database.epoch:
            return
        if writes:
            database.log.serve(lambda: self._commit(epoch, lock))
        else:
            self._commit(epoch, lock)

    def _commit(self, epoch: int, lock: Mutex | None) -> None:
        database = self._database
        if epoch != database.epoch:
            return
        group, self._is_committed = self._group, True
        results = [write.commit() for write in group]
        database.refused += results.count(False)
        if lock is not None:
            lock.release()

        def respond() -> None:
            self._group, self._is_committed = (), False
            self.begin_next()
            for write, result in zip(group, results, strict=True):
                write.done(result)

        database.simulation.after(database.costs.round_trip * MILLISECOND, respond)

    def interrupt(self) -> None:
        """Have the current transaction repeated later, unless it was committed: the process looks that up."""
        if not self._is_committed:
            self._queue.extendleft(reversed(self._group))
            self._group = ()

    def fail_all(self) -> None:
        """Fail all writes that wait."""
        queue, self._queue = self._queue, deque()
        for write in queue:
            write.fail()

    def discard(self) -> None:
        """Forget the writes that wait, because the process has ended."""
        self._queue.clear()
