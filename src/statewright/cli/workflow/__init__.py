"""Commands that work on a graph or workflow file: run, resume, check, test, draw, init."""
