"""Databases that keep threads, stores and caches: one package a technology."""
