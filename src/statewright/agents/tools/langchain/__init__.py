"""Tools of LangChain as tools of agents."""
