"""Repair conversations so that every provider accepts them."""
