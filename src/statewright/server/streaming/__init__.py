"""Server-sent event streams: their encoding, delivery and limits."""
