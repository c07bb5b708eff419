"""Port: work to be done durably."""

from statewright.runs.status import RUN_TRANSITIONS, STEP_TRANSITIONS, RunStatus, StepStatus, check_transition

__all__ = ["RUN_TRANSITIONS", "STEP_TRANSITIONS", "RunStatus", "StepStatus", "check_transition"]
