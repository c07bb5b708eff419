"""The adapter to LangChain's chat models, and the conversions that all adapters share."""
