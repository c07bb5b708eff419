"""The command, its files of costs, and the document with its tables."""

from __future__ import annotations

from dataclasses import fields
from pathlib import Path
from typing import Any

import pytest
from benchmarks import simulate_scale
from benchmarks.scale.costs import DEFAULT_FILE, ORIGINS, Costs, InvalidCosts, load_costs, save_costs
from benchmarks.scale.load import RULES
from benchmarks.scale.scenarios import SCENARIOS, Setting

GUIDE = Path(__file__).parents[3] / "docs/guide/capacity.md"


def test_the_rules_are_those_of_the_service() -> None:
    from statewright.service import ServiceSettings
    from statewright.service.engine import worker
    from statewright.service.following import run_watch
    from statewright.storage import group_commit
    from statewright.storage.postgres import bell, database, writer

    settings = ServiceSettings()
    assert (RULES.lease, RULES.poll, RULES.drain) == (settings.lease, settings.poll_interval, settings.drain)
    assert (RULES.max_claimed, RULES.first_retry) == (worker._MAX_CLAIMED, worker._FIRST_RETRY_DELAY)
    assert (RULES.follow_poll, RULES.follow_batch) == (run_watch.POLL_INTERVAL, run_watch._BATCH_SIZE)
    assert (RULES.max_group, RULES.bell_interval) == (group_commit.MAX_GROUP_SIZE, bell.INTERVAL)
    assert RULES.patience == writer.PATIENCE
    readers = database.PostgresDatabase.__init__.__kwdefaults__["readers"]
    assert RULES.max_readers == readers


# -- costs


def test_every_cost_has_a_value_and_an_origin() -> None:
    costs, origins = load_costs()
    assert all(getattr(costs, field.name) >= 0 for field in fields(Costs))
    assert {origin.kind for origin in origins.values()} <= set(ORIGINS)


def test_costs_that_are_saved_can_be_loaded(tmp_path: Path) -> None:
    costs, origins = load_costs()
    save_costs(tmp_path / "costs.toml", costs, origins, "A head\nof two lines")
    again, origins_again = load_costs(tmp_path / "costs.toml")
    for field in fields(Costs):
        assert getattr(again, field.name) == pytest.approx(getattr(costs, field.name), rel=1e-3)
    assert origins_again == origins


def test_all_problems_of_a_file_of_costs_are_reported_at_once(tmp_path: Path) -> None:
    path = tmp_path / "costs.toml"
    text = (
        DEFAULT_FILE.read_text(encoding="utf-8")
        .replace("[flush]", "[flash]")
        .replace("[run_cpu]\nvalue = ", "[run_cpu]\nvalue = -")
    )
    path.write_text(text, encoding="utf-8")
    with pytest.raises(InvalidCosts) as caught:
        load_costs(path)
    for problem in ("flush is missing", "flash is not a cost", "run_cpu needs a value"):
        assert problem in str(caught.value)


def test_a_missing_file_of_costs_is_reported_with_exit_code_2(tmp_path: Path, capsys: Any) -> None:
    assert simulate_scale.main(["costs", "--costs", str(tmp_path / "none.toml")]) == 2
    assert "Write one with --measure" in capsys.readouterr().err


# -- the command


def test_a_load_is_planned_and_simulated(capsys: Any) -> None:
    assert simulate_scale.main(["--runs-per-second", "20", "--seed", "3"]) == 0
    output = capsys.readouterr().out
    assert "1 database(s)" in output
    assert "| worker processes" in output


def test_a_load_that_makes_no_sense_is_refused(capsys: Any) -> None:
    assert simulate_scale.main(["--runs-per-second", "-1"]) == 2
    assert "above 0" in capsys.readouterr().err


# -- the document


def test_only_the_tables_of_a_document_are_replaced(tmp_path: Path) -> None:
    costs, origins = load_costs()
    path = tmp_path / "guide.md"
    path.write_text("before\n<!-- simulated: costs -->\nold\n<!-- end -->\nafter\n", encoding="utf-8")
    simulate_scale.update(path, Setting(costs), origins)
    text = path.read_text(encoding="utf-8")
    assert text.startswith("before\n<!-- simulated: costs -->\n")
    assert text.endswith("\n<!-- end -->\nafter\n")
    assert "old" not in text
    assert "| `flush` " in text


def test_a_document_with_an_unknown_table_is_left_as_it_is(tmp_path: Path) -> None:
    costs, origins = load_costs()
    path = tmp_path / "guide.md"
    path.write_text("<!-- simulated: weather -->\n<!-- end -->\n", encoding="utf-8")
    with pytest.raises(ValueError, match="unknown table 'weather'"):
        simulate_scale.update(path, Setting(costs), origins)
    assert path.read_text(encoding="utf-8") == "<!-- simulated: weather -->\n<!-- end -->\n"


def test_the_guide_has_the_tables_of_all_scenarios_and_the_current_costs() -> None:
    blocks = {match[2]: match[0] for match in simulate_scale.BLOCK.finditer(GUIDE.read_text(encoding="utf-8"))}
    assert set(blocks) == {simulate_scale.COSTS, *SCENARIOS}
    costs, origins = load_costs()
    table = simulate_scale.table_of(simulate_scale.COSTS, Setting(costs), origins)
    assert table.to_markdown() in blocks[simulate_scale.COSTS]
