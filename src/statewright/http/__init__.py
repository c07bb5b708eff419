"""Safe outbound HTTP: the classification of IP addresses, and exchanges with addresses that were checked."""

from statewright.http.addresses import Address, Kind, is_public, kind_of, must_be_allowed_by_address
from statewright.http.exchange import (
    CertificateError,
    HttpRequest,
    HttpResponse,
    default_certificates,
    retry_after,
    send,
)
from statewright.http.url import PORTS, Url, aresolve_host, look_up, parse_address, url_host

__all__ = [
    "PORTS",
    "Address",
    "CertificateError",
    "HttpRequest",
    "HttpResponse",
    "Kind",
    "Url",
    "aresolve_host",
    "default_certificates",
    "is_public",
    "kind_of",
    "look_up",
    "must_be_allowed_by_address",
    "parse_address",
    "retry_after",
    "send",
    "url_host",
]
