"""The adapter for LangChain tools."""
