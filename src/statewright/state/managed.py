"""Prebuilt computed fields, which nodes read to see how close the run is to its recursion limit."""

from __future__ import annotations

from typing import Annotated

from statewright.state.fields import Managed

IsLastStep = Annotated[bool, Managed("IsLastStep", lambda step, stop: step >= stop - 1)]
"""True in the last superstep that the recursion limit permits."""
RemainingSteps = Annotated[int, Managed("RemainingSteps", lambda step, stop: stop - step)]
"""The number of supersteps that the recursion limit still permits, including the current one."""
