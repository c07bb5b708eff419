"""Safe outbound HTTP: which addresses may be connected to."""

from statewright.http.addresses import Address, Kind, is_public, kind_of, must_be_spelled_out

__all__ = ["Address", "Kind", "is_public", "kind_of", "must_be_spelled_out"]
