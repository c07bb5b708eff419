"""Shared by the whole service: its context and settings, requests, queries for records, and validation."""
