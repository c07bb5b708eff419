"""The size of a fleet follows the age of its queue, within its limits and without flapping."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from statewright.cli.workers.fleet.scaling import MAX_PATIENCE, Demand, ScalingPolicy, SizePlan, plan_size

POLICY = ScalingPolicy(min=1, max=8, capacity=10)


def demand(oldest: float = 0.0, depth: int = 0, claimed: int = 0, lost: int = 0) -> Demand:
    return Demand(oldest=oldest, depth=depth, lost=lost, claims={"wrk_1": claimed})


DEMANDS = st.builds(demand, st.floats(0, 1000), st.integers(0, 10_000), st.integers(0, 500), st.integers(0, 500))


@st.composite
def policies(draw: st.DrawFn) -> ScalingPolicy:
    minimum = draw(st.integers(0, 10))
    return ScalingPolicy(
        min=minimum,
        max=draw(st.integers(max(1, minimum), 50)),
        capacity=draw(st.integers(1, 200)),
        target_age=draw(st.floats(0.5, 60)),
        idle=draw(st.floats(1, 600)),
    )


@dataclass
class SimulatedQueue:
    """A queue whose runs take some seconds, and a fleet whose workers take some seconds to start.

    A worker completes at most `speed` runs a second, however many it has claimed: its processor has no more to give.
    """

    policy: ScalingPolicy
    duration: int
    speed: int
    start_delay: int
    plan: SizePlan = field(init=False)
    sizes: list[int] = field(default_factory=list)
    """The planned size at each second."""
    ages: list[float] = field(default_factory=list)
    now: int = 0
    due: deque[int] = field(default_factory=deque)
    """The times since when runs have been due."""
    ends: deque[int] = field(default_factory=deque)
    """The times when the claimed runs end, in their order."""
    ready: list[int] = field(default_factory=list)
    """The times when workers have started."""

    def __post_init__(self) -> None:
        self.plan = SizePlan(size=self.policy.min)
        self.ready = [0] * self.policy.min

    def tick(self, arrivals: int) -> None:
        """Let a second pass: runs end and arrive, workers claim, and the fleet gets its new size."""
        self.now += 1
        self.due.extend([self.now] * arrivals)
        working = sum(ready <= self.now for ready in self.ready)
        for _ in range(working * self.speed):
            if self.ends and self.ends[0] <= self.now:
                self.ends.popleft()
        for _ in range(min(len(self.due), max(0, working * self.policy.capacity - len(self.ends)))):
            self.due.popleft()
            self.ends.append(self.now + self.duration)
        oldest = float(self.now - self.due[0]) if self.due else 0.0
        self.plan = plan_size(
            self.policy, demand(oldest, len(self.due), len(self.ends)), working, self.plan, float(self.now)
        )
        del self.ready[self.plan.size :]
        self.ready += [self.now + self.start_delay] * (self.plan.size - len(self.ready))
        self.sizes.append(self.plan.size)
        self.ages.append(oldest)

    @property
    def highest_rate(self) -> float:
        """The runs that the largest fleet can complete in a second."""
        return self.policy.max * min(self.policy.capacity / self.duration, self.speed)

    def run(self, arrivals: Iterator[int] | Sequence[int]) -> None:
        for count in arrivals:
            self.tick(count)


def changes(sizes: Sequence[int]) -> list[tuple[int, int]]:
    """Return the changes of the size, with their times."""
    pairs = pairwise(sizes)
    return [(second, after - before) for second, (before, after) in enumerate(pairs, 1) if after != before]


QUEUES = st.builds(
    SimulatedQueue,
    st.builds(ScalingPolicy, min=st.integers(0, 2), max=st.integers(20, 40), capacity=st.integers(1, 20)),
    duration=st.integers(1, 30),
    speed=st.integers(1, 10),
    start_delay=st.integers(0, 40),
)


# -- limits


@given(policies(), st.lists(st.tuples(DEMANDS, st.integers(0, 60), st.floats(0.1, 100)), max_size=50))
def test_the_size_is_always_within_the_limits(policy: ScalingPolicy, inputs: list[tuple[Demand, int, float]]) -> None:
    plan, now = SizePlan(size=0), 0.0
    for each, working, seconds in inputs:
        now += seconds
        plan = plan_size(policy, each, working, plan, now)
        assert policy.min <= plan.size <= policy.max


@given(policies(), DEMANDS, st.integers(0, 60), st.integers(0, 60))
def test_a_step_at_most_doubles_the_working_fleet_and_takes_no_more_than_a_quarter(
    policy: ScalingPolicy, each: Demand, working: int, size: int
) -> None:
    plan = SizePlan(size=min(max(size, policy.min), policy.max), quiet_since=-1e6)
    after = plan_size(policy, each, working, plan, 0.0).size
    assert after <= max(plan.size, 1, 2 * working)
    assert after >= plan.size - max(1, plan.size // 4)


# -- growing


@given(QUEUES, st.integers(1, 500))
def test_a_burst_is_worked_off_and_the_fleet_returns_to_its_minimum(queue: SimulatedQueue, burst: int) -> None:
    queue.run([burst, *[0] * 4000])
    assert not queue.due
    assert not queue.ends
    assert queue.plan.size == queue.policy.min


@given(QUEUES, st.floats(0.1, 0.9))
def test_a_steady_load_gets_enough_workers(queue: SimulatedQueue, load: float) -> None:
    """The greatest possible fleet could bear the load, so after a while runs are claimed in about the target time."""
    rate = load * queue.highest_rate
    queue.run(steady(rate, 4000))
    patience = queue.policy.target_age + queue.start_delay + 2 * queue.duration
    late = [age for age in queue.ages[2000:] if age > 2 * patience]
    assert len(late) <= len(queue.ages[2000:]) // 20


def test_the_fleet_doubles_while_runs_are_too_old_and_workers_are_busy() -> None:
    plan, sizes = SizePlan(size=1), []
    for second in range(0, 15, 3):
        plan = plan_size(POLICY, demand(9, 1000, 10 * plan.size), plan.size, plan, second)
        sizes.append(plan.size)
    assert sizes == [2, 4, 8, 8, 8]
    assert "a run has been due for 9.0 s, and the target is 5 s" in plan.reason


def test_the_fleet_has_no_more_workers_than_runs_need() -> None:
    assert plan_size(POLICY, demand(9, 11, 40), 4, SizePlan(size=4), 0).size == 6


@given(policies(), st.integers(0, 10_000), st.integers(0, 8))
def test_workers_that_cannot_be_placed_are_not_multiplied(policy: ScalingPolicy, depth: int, working: int) -> None:
    plan = SizePlan(size=policy.min)
    for second in range(1000):
        claimed = policy.capacity * working
        plan = plan_size(policy, demand(1000 + second, depth, claimed), working, plan, second)
    assert plan.size <= max(policy.min, 1, 2 * working)


@given(policies(), st.floats(0, 1e6), st.integers(0, 10_000))
def test_runs_that_free_workers_do_not_claim_start_no_workers(policy: ScalingPolicy, oldest: float, depth: int) -> None:
    """They wait for a limit, or for another run."""
    working = max(policy.min, 1)
    plan = SizePlan(size=min(working, policy.max))
    few = (policy.capacity * working - 1) // 2
    assert plan_size(policy, demand(oldest, depth, few), working, plan, 100).size <= plan.size


def test_an_empty_fleet_starts_a_worker_for_a_run_that_is_too_old() -> None:
    policy = ScalingPolicy(min=0, max=3, capacity=1)
    assert plan_size(policy, demand(4.9, 5), 0, SizePlan(size=0), 0).size == 0
    assert plan_size(policy, demand(5.0, 5), 0, SizePlan(size=0), 0).size == 1


def test_an_empty_fleet_starts_a_worker_to_release_the_runs_of_lost_workers() -> None:
    policy = ScalingPolicy(min=0, max=3, capacity=1)
    plan = plan_size(policy, demand(lost=3), 0, SizePlan(size=0), 0)
    assert (plan.size, plan.reason.partition(";")[0]) == (
        1,
        "3 runs of lost workers wait for a worker that releases them",
    )
    assert plan_size(policy, demand(lost=3), 1, SizePlan(size=1), 10).size == 1


# -- shrinking


@given(QUEUES, st.floats(0.1, 0.9))
def test_the_fleet_does_not_flap(queue: SimulatedQueue, load: float) -> None:
    """Under a steady load it shrinks after a time that grows, if it had to grow again the last time."""
    rate = load * queue.highest_rate
    seconds = 4000
    queue.run(steady(rate, seconds))
    shrinks = [second for second, change in changes(queue.sizes) if change < 0]
    for grown, change in changes(queue.sizes):
        following = [second for second in shrinks if second > grown]
        assert change < 0 or not following or following[0] - grown >= queue.policy.idle
    returns = count_returns(queue.sizes)
    # The times until the fleet shrinks add up: 1, 2, 4, 8, 16 times `idle`, and 16 times from then on.
    assert returns <= 6 + seconds // (MAX_PATIENCE * queue.policy.idle)


def count_returns(sizes: Sequence[int]) -> int:
    """Return how often the fleet grew after it had shrunk."""
    signs = [change > 0 for _, change in changes(sizes)]
    return sum(after and not before for before, after in pairwise(signs))


def test_the_fleet_shrinks_only_if_it_was_quiet_without_interruption() -> None:
    plan = SizePlan(size=4)
    for second in range(55):
        plan = plan_size(POLICY, demand(claimed=0), 4, plan, second)
    plan = plan_size(POLICY, demand(claimed=40), 4, plan, 55)
    for second in range(56, 116):
        plan = plan_size(POLICY, demand(claimed=0), 4, plan, second)
        assert plan.size == 4
    plan = plan_size(POLICY, demand(claimed=0), 4, plan, 116)
    assert (plan.size, plan.shrunk_at) == (3, 116)


@pytest.mark.parametrize(("claimed", "size"), [(0, 6), (30, 6), (31, 7), (35, 7), (36, 8), (80, 8)])
def test_half_of_the_places_of_the_smaller_fleet_stay_free(claimed: int, size: int) -> None:
    plan = SizePlan(size=8, quiet_since=0)
    assert plan_size(POLICY, demand(claimed=claimed), 8, plan, 60).size == size


def test_a_shrink_that_had_to_be_undone_doubles_the_time_until_the_next_one() -> None:
    plan = SizePlan(size=2, shrunk_at=100)
    times: list[float] = []
    for _ in range(7):
        plan = plan_size(POLICY, demand(9, 100, 20), 2, SizePlan(size=2, shrunk_at=100, patience=plan.patience), 110)
        times.append(plan.patience)
    assert times == [120, 240, 480, 960, 960, 960, 960]
    later = plan_size(POLICY, demand(9, 100, 20), 2, SizePlan(size=2, shrunk_at=100, patience=120), 1061)
    assert later.patience == 0


def steady(rate: float, seconds: int) -> Iterator[int]:
    """Yield the numbers of runs that arrive in each second."""
    total = 0
    for second in range(1, seconds + 1):
        yield int(rate * second) - total
        total = int(rate * second)
