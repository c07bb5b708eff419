"""The options of `statewright worker --ray`, and the errors about them."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
from tests.unit.cli.conftest import Command

from statewright.cli.console.failure import UsageError
from statewright.cli.workers.fleet.command import relative_target
from statewright.cli.workers.fleet.options import FleetOptions, read_amounts


@pytest.mark.parametrize(
    ("words", "named"),
    [
        (["--min", 1], "--min: only a fleet has this option. Add --ray ADDRESS, or remove it."),
        (["--max", 3, "--num-cpus", 2], "--max, --num-cpus: only a fleet has these options."),
        (["--num-gpus", 1], "--num-gpus"),
        (["--resources", "tpu=1"], "--resources"),
        (["--fleet", "a"], "--fleet"),
        (["--target-age", 3], "--target-age"),
        (["--idle", 3], "--idle"),
        (["--project-path", "."], "--project-path"),
        (["--runtime-env", "{}"], "--runtime-env"),
    ],
)
def test_options_of_a_fleet_are_refused_without_a_cluster(
    flow: Path, statewright: Command, words: list[object], named: str
) -> None:
    refused = statewright("worker", flow, *words)
    assert (refused.code, refused.err.count("\n")) == (2, 1)
    assert refused.err.startswith(f"Error: {named}")


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ([], "--ray needs --max N, the maximum number of workers."),
        (["--min", 4, "--max", 3], "--min is 4, which is more than --max 3."),
        (["--max", 3, "--target-age", 0], "--target-age is 0. Give a number of seconds above 0."),
        (["--max", 3, "--idle", "nan"], "--idle is nan. Give a number of seconds above 0."),
        (["--max", 3, "--resources", "tpu"], "--resources 'tpu' is not valid. Write NAME=AMOUNT"),
        (["--max", 3, "--runtime-env", "[]"], "--runtime-env is not a JSON object."),
        (["--max", 3, "--runtime-env", "{"], "--runtime-env '{' is not valid JSON"),
        (["--max", 3, "--runtime-env", '{"working_dir": "."}'], "--runtime-env sets working_dir"),
    ],
)
def test_wrong_options_are_refused_before_anything_starts(
    flow: Path, statewright: Command, words: list[object], message: str
) -> None:
    refused = statewright("worker", flow, "--ray", "auto", *words)
    assert (refused.code, refused.err.count("\n")) == (2, 1)
    assert refused.err.startswith(f"Error: {message}")
    assert not (flow.parent / ".statewright").exists()


def test_without_ray_the_error_names_the_extra(
    flow: Path, statewright: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "ray", None)  # as if it could not be imported
    refused = statewright("worker", flow, "--ray", "auto", "--max", 3)
    assert (refused.code, refused.err.count("\n")) == (2, 1)
    assert "The option --ray needs the library 'ray', which is not installed" in refused.err
    assert "pip install 'statewright[ray]'" in refused.err


def test_a_worker_needs_one_processor_unless_something_else_is_said() -> None:
    assert FleetOptions().placement().options == {"num_cpus": 1.0, "num_gpus": 0.0, "resources": {}}
    options = FleetOptions(num_cpus=0.5, num_gpus=1, resources=["tpu=2", "memory=1e9"])
    assert options.placement().options == {"num_cpus": 0.5, "num_gpus": 1, "memory": 1e9, "resources": {"tpu": 2.0}}


@pytest.mark.parametrize(
    "value", ["tpu", "=1", "tpu=", "tpu=x", "tpu=0", "tpu=-1", "tpu=inf", "tpu=nan", "CPU=2", "gpu=1"]
)
def test_amounts_that_ray_could_not_use_are_refused(value: str) -> None:
    with pytest.raises(UsageError, match="--resources"):
        read_amounts([value])
    with pytest.raises(UsageError, match="two amounts of 'tpu'"):
        read_amounts(["tpu=1", "tpu=2"])


def test_a_target_is_relative_to_the_folder_that_is_sent(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "flows").mkdir()
    monkeypatch.chdir(tmp_path / "flows")
    assert relative_target(None, tmp_path) is None
    assert relative_target("a.py:graph", tmp_path) == "flows/a.py:graph"
    assert relative_target(str(tmp_path / "b.yaml"), tmp_path) == "b.yaml"
