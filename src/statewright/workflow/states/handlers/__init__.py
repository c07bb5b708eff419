"""Handlers, which perform states: assistants, tools and scripts. Custom nodes implement the same protocol."""

from statewright.workflow.states.handlers.call import Call, Outcome, StateHandler

__all__ = ["Call", "Outcome", "StateHandler"]
