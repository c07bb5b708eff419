"""The options of `statewright worker --ray`: the cluster, the size of the fleet, and the resources of each worker."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Annotated, Any, Final, cast

import typer

from statewright.cli.console.failure import UsageError
from statewright.cli.workers.fleet.scaling import ScalingPolicy
from statewright.cli.workflow.inputs import read_input

DEFAULT_FLEET: Final = "default"
_OWN_OPTIONS: Final = {"cpu": "--num-cpus", "gpu": "--num-gpus"}
"""Resources with an option of their own, in lower case."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Placement:
    """The resources that Ray reserves for each worker."""

    num_cpus: float = 1.0
    num_gpus: float = 0.0
    memory: float | None = None
    """In bytes."""
    resources: Mapping[str, float]
    """Custom resources of the cluster."""

    @property
    def options(self) -> dict[str, Any]:
        """The arguments of `options` of a Ray actor."""
        options: dict[str, Any] = {"num_cpus": self.num_cpus, "num_gpus": self.num_gpus}
        if self.memory is not None:
            options["memory"] = self.memory
        return {**options, "resources": dict(self.resources)}


@dataclass(frozen=True, kw_only=True)
class FleetOptions:
    """The options of a fleet. All are None unless they were given, so that they can be refused without `--ray`."""

    ray: Annotated[
        str | None,
        typer.Option(
            "--ray",
            metavar="ADDRESS",
            help="Run a fleet of workers on this Ray cluster: `auto`, HOST:PORT or ray://HOST:PORT. Needs the extra "
            "`ray`.",
        ),
    ] = None
    min: Annotated[
        int | None, typer.Option("--min", metavar="N", min=0, help="With --ray: at least N workers. Default: 1.")
    ] = None
    max: Annotated[
        int | None, typer.Option("--max", metavar="N", min=1, help="With --ray: at most N workers. Required.")
    ] = None
    num_cpus: Annotated[
        float | None,
        typer.Option("--num-cpus", metavar="N", min=0, help="With --ray: the processors of each worker. Default: 1."),
    ] = None
    num_gpus: Annotated[
        float | None,
        typer.Option("--num-gpus", metavar="N", min=0, help="With --ray: the GPUs of each worker. Default: 0."),
    ] = None
    resources: Annotated[
        list[str] | None,
        typer.Option(
            "--resources",
            metavar="NAME=AMOUNT",
            help="With --ray: other resources of each worker; `memory` is in bytes. Repeatable.",
        ),
    ] = None
    fleet: Annotated[
        str | None,
        typer.Option(
            "--fleet",
            metavar="NAME",
            help=f"With --ray: the name of the fleet, unique on its cluster. Default: {DEFAULT_FLEET}.",
        ),
    ] = None
    target_age: Annotated[
        float | None,
        typer.Option(
            "--target-age",
            metavar="SECONDS",
            help="With --ray: start workers if a run has been due for longer. Default: 5.",
        ),
    ] = None
    idle: Annotated[
        float | None,
        typer.Option(
            "--idle",
            metavar="SECONDS",
            help="With --ray: end workers that have not been needed for this long. Default: 60.",
        ),
    ] = None
    project_path: Annotated[
        str | None,
        typer.Option(
            "--project-path",
            metavar="PATH",
            help="With --ray: the folder of the project on every node. Default: this process sends its own.",
        ),
    ] = None
    runtime_env: Annotated[
        str | None,
        typer.Option(
            "--runtime-env",
            metavar="JSON|@FILE",
            help="With --ray: the runtime environment of the workers, as for `ray.init`.",
        ),
    ] = None

    def check_unused(self) -> None:
        """Raise UsageError if an option was given that has no meaning without `--ray`."""
        flags = [f"--{field.name.replace('_', '-')}" for field in fields(self) if getattr(self, field.name) is not None]
        if flags:
            raise UsageError(
                f"{', '.join(flags)}: only a fleet has {'this option' if len(flags) == 1 else 'these options'}. Add "
                f"--ray ADDRESS, or remove {'it' if len(flags) == 1 else 'them'}."
            )

    def scaling_policy(self, capacity: int) -> ScalingPolicy:
        """Return the limits of the fleet. Raises UsageError."""
        minimum = 1 if self.min is None else self.min
        if self.max is None:
            raise UsageError("--ray needs --max N, the maximum number of workers.")
        if minimum > self.max:
            raise UsageError(f"--min is {minimum}, which is more than --max {self.max}. Swap or change them.")
        defaults = ScalingPolicy(min=minimum, max=self.max, capacity=capacity)
        return ScalingPolicy(
            min=minimum,
            max=self.max,
            capacity=capacity,
            target_age=_read_seconds(self.target_age, "--target-age", defaults.target_age),
            idle=_read_seconds(self.idle, "--idle", defaults.idle),
        )

    def placement(self) -> Placement:
        """Return the resources of each worker. Raises UsageError."""
        amounts = read_amounts(self.resources or ())
        return Placement(
            num_cpus=1.0 if self.num_cpus is None else self.num_cpus,
            num_gpus=self.num_gpus or 0.0,
            memory=amounts.pop("memory", None),
            resources=amounts,
        )

    def read_runtime_env(self) -> dict[str, Any]:
        """Return the runtime environment that was given, or an empty one. Raises UsageError."""
        if self.runtime_env is None:
            return {}
        value = read_input([self.runtime_env], "--runtime-env")
        if not isinstance(value, dict):
            raise UsageError('--runtime-env is not a JSON object. Pass one such as \'{"env_vars": {"NAME": "x"}}\'.')
        environment = cast("dict[str, Any]", value)
        if "working_dir" in environment:
            raise UsageError(
                "--runtime-env sets working_dir, which is always the folder of the project. To use a folder that the "
                "nodes already have, pass --project-path PATH."
            )
        return environment


def read_amounts(values: Sequence[str]) -> dict[str, float]:
    """Return the amounts of resources by name. Raises UsageError."""
    amounts: dict[str, float] = {}
    for value in values:
        name, equals, text = value.partition("=")
        if not equals or not name:
            raise UsageError(f"--resources {value!r} is not valid. Write NAME=AMOUNT, e.g. --resources tpu=1.")
        if name.lower() in _OWN_OPTIONS:
            raise UsageError(f"--resources {value!r}: use {_OWN_OPTIONS[name.lower()]} {text or 'N'} instead.")
        if name in amounts:
            raise UsageError(f"--resources has two amounts of {name!r}. Give one.")
        try:
            amounts[name] = float(text)
        except ValueError:
            amounts[name] = 0.0
        if not 0 < amounts[name] < float("inf"):
            raise UsageError(f"--resources {value!r}: the amount must be a number above 0.")
    return amounts


def _read_seconds(value: float | None, option: str, default: float) -> float:
    if value is None:
        return default
    if not 0 < value < float("inf"):
        raise UsageError(f"{option} is {value:g}. Give a number of seconds above 0.")
    return value
