"""The root of the server: links to the API, as a page for browsers and as JSON for programs."""

from __future__ import annotations

from base64 import b64encode
from hashlib import sha256
from html import escape
from typing import Final

from fastapi import APIRouter, Request, Response
from starlette.responses import HTMLResponse

from statewright.server.http.encode import JsonResponse

router = APIRouter()
_LINKS: Final = {
    "openapi": ("/openapi.json", "OpenAPI document of the API"),
    "health": ("/health", "Health of the service"),
    "live": ("/live", "Liveness of the process"),
    "ready": ("/ready", "Readiness of the server"),
}
_STYLE: Final = (
    ":root{color-scheme:light dark}"
    "body{font:16px/1.5 system-ui,sans-serif;max-width:42rem;margin:3rem auto;padding:0 1rem}"
    "pre{padding:.75rem 1rem;overflow-x:auto;border:1px solid;border-radius:.4rem}"
)
_STYLE_HASH: Final = b64encode(sha256(_STYLE.encode()).digest()).decode()
_HEADERS: Final = {
    "content-security-policy": f"default-src 'none'; style-src 'sha256-{_STYLE_HASH}'; base-uri 'none'; "
    "form-action 'none'; frame-ancestors 'none'",
    "referrer-policy": "no-referrer",
    "x-content-type-options": "nosniff",
    "vary": "accept",
}
_HEAD: Final = '<!doctype html><html lang="en"><head><meta charset="utf-8">'


@router.get("/", include_in_schema=False)
@router.get("/docs", include_in_schema=False)
async def welcome(request: Request) -> Response:
    """Answer with a page if the request accepts HTML, or else with JSON. It is public, so it reveals no runs."""
    title, version = request.app.title, request.app.version
    if not _wants_html(request.headers.get("accept", "")):
        paths = {name: path for name, (path, _) in _LINKS.items()}
        return JsonResponse(
            {"title": title, "version": version, "links": {**paths, "api": "/api/v1"}}, headers=_HEADERS
        )
    return HTMLResponse(_page(title, version, str(request.base_url).rstrip("/")), headers=_HEADERS)


def _wants_html(accept: str) -> bool:
    return any(part.partition(";")[0].strip().lower() == "text/html" for part in accept.split(","))


def _page(title: str, version: str, url: str) -> str:
    links = "".join(f'<li><a href="{path}">{escape(text)}</a></li>' for path, text in _LINKS.values())
    start = escape(f"statewright runs start GRAPH --input '{{}}' --wait --url {url}")
    curl = escape(
        f"curl '{url}/api/v1/workflow-runs?wait=60' -H 'content-type: application/json' "
        f"""-d '{{"graph": "GRAPH", "input": {{}}}}'"""
    )
    return (
        f'{_HEAD}<meta name="viewport" content="width=device-width">'
        f"<title>{escape(title)}</title><style>{_STYLE}</style></head><body><h1>{escape(title)}</h1>"
        f"<p>Statewright {escape(version)}: durable workflow runs over HTTP.</p><ul>{links}</ul>"
        f"<h2>Start a run</h2><pre>{start}</pre><p>or</p><pre>{curl}</pre>"
        f"<p>If the server requires a key, send it in the header <code>x-api-key</code>; "
        f"<code>statewright keys create NAME</code> creates one.</p></body></html>\n"
    )
