"""Values as bytes and back: MessagePack, with extension types for the types that are registered."""
