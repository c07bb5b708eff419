"""Tests that every ledger passes."""
