"""The adapter to LangChain's chat models."""
