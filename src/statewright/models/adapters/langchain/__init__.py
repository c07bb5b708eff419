"""Chat models of LangChain as chat models."""
