"""Serialization of values: MessagePack, with extension types for registered types."""
