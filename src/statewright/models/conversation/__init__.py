"""Repair conversations and files in them, so that every provider accepts them."""
