"""Code that the whole service shares: its context and settings, requests, queries for records, and validation."""
