"""Fleets that are planned."""

from __future__ import annotations

from dataclasses import replace

import pytest
from benchmarks.scale.cell import Cell
from benchmarks.scale.costs import load_costs
from benchmarks.scale.load import Load
from benchmarks.scale.plan import divided, plan, utilisations

COSTS, _ = load_costs()
LOAD = Load(runs_per_second=100, node_seconds=1.0)


@pytest.mark.parametrize("rate", [1, 100, 3000])
def test_no_resource_of_a_planned_fleet_is_busier_than_the_target(rate: float) -> None:
    load = replace(LOAD, runs_per_second=rate)
    fleet = plan(load, COSTS, target=0.6, max_connections=300)
    assert max(fleet.utilisation.values()) <= 0.6 + 1e-6
    assert fleet.utilisation == utilisations(divided(load, fleet.shards), fleet.deployment, COSTS)
    assert fleet.connections <= 300
    assert fleet.in_flight * fleet.shards == pytest.approx(rate * 3)


def test_a_larger_load_needs_no_smaller_fleet() -> None:
    fleets = [plan(replace(LOAD, runs_per_second=rate), COSTS) for rate in (10, 100, 1000, 10_000)]
    assert [fleet.shards for fleet in fleets] == sorted(fleet.shards for fleet in fleets)
    assert [fleet.workers for fleet in fleets] == sorted(fleet.workers for fleet in fleets)


def test_a_planned_fleet_keeps_up() -> None:
    fleet = plan(LOAD, COSTS)
    cell = Cell(divided(LOAD, fleet.shards), fleet.deployment, COSTS)
    cell.run(10)
    observed = cell.run(10)
    assert observed.completed > 0.9 * observed.started
    assert max(observed.utilisation.values()) < 0.8


def test_a_load_that_no_fleet_can_have_is_refused_with_advice() -> None:
    with pytest.raises(ValueError, match="Raise the capacity of workers"):
        plan(replace(LOAD, runs_per_second=0.5, node_seconds=1e6), COSTS, capacity=1)
    with pytest.raises(ValueError, match="between 0 and 1"):
        plan(LOAD, COSTS, target=1.0)
