"""Servers that the cases of `service` measure: ours, and what `langgraph dev` serves."""
