"""What does the work of a state: a script, an assistant, a tool, or a node of a kind of its own."""

from statewright.workflow.states.handlers.call import Call, Outcome, StateHandler

__all__ = ["Call", "Outcome", "StateHandler"]
