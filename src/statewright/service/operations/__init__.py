"""Requests of callers: start, stop, signal, answer and approve runs, send events, edit threads."""
