"""Steps that ask a chat model."""
