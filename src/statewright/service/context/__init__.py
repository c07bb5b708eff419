"""Shared parts of the service: context, settings, requests, reading of records, validation, JSON."""
