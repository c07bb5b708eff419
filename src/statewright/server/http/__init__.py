"""The HTTP layer: routes and their parameters, strict decoding, encoding, errors, middleware, OpenAPI."""
