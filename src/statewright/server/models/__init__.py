"""What requests and answers look like: the source of the OpenAPI document, and what bodies are checked against."""
