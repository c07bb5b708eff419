"""Lost workers are replaced after a delay that grows, and is reset after a quiet period."""

from __future__ import annotations

from statewright.cli.workers.fleet.restarts import CALM_SECONDS, RestartBackoff


def test_the_delay_doubles_up_to_a_minute() -> None:
    restarts, now, delays = RestartBackoff(), 0.0, []
    for _ in range(9):
        delays.append(restarts.record_loss(now))
        assert not restarts.may_start(now + delays[-1] - 0.1)
        now += delays[-1]
        assert restarts.may_start(now)
    assert delays == [1, 2, 4, 8, 16, 32, 60, 60, 60]


def test_the_delay_is_reset_after_a_quiet_period() -> None:
    restarts = RestartBackoff()
    assert restarts.may_start(0)
    assert [restarts.record_loss(now) for now in (0, 10, 20)] == [1, 2, 4]
    assert restarts.record_loss(20 + CALM_SECONDS - 1) == 8
    assert restarts.record_loss(20 + 2 * CALM_SECONDS) == 1
