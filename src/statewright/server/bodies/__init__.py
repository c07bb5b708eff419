"""Bodies of requests: described in the OpenAPI document, and validated strictly."""
