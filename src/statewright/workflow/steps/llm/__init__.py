"""Steps that call a chat model."""
