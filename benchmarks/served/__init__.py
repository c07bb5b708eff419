"""Servers that the cases of `service` measure: ours, and `langgraph dev`."""
