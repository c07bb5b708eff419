"""Adapters to model libraries, and the conversions that adapters share."""
