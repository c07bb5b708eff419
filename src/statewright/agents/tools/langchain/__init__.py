"""LangChain's tools as tools of agents."""
