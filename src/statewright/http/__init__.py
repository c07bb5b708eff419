"""Safe outbound HTTP: the classification of IP addresses, and HTTP exchanges with addresses that were checked."""

from statewright.http.addresses import Address, Kind, classify_address, is_public, must_be_allowed_by_address
from statewright.http.exchange import (
    CertificateError,
    HttpRequest,
    HttpResponse,
    default_certificates,
    retry_after,
    send,
)
from statewright.http.url import PORTS, Url, aresolve_host, parse_address, resolve_host, url_host

__all__ = [
    "PORTS",
    "Address",
    "CertificateError",
    "HttpRequest",
    "HttpResponse",
    "Kind",
    "Url",
    "aresolve_host",
    "classify_address",
    "default_certificates",
    "is_public",
    "must_be_allowed_by_address",
    "parse_address",
    "resolve_host",
    "retry_after",
    "send",
    "url_host",
]
