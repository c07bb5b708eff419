"""LangChain's chat models as chat models of Statewright."""
