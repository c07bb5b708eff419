"""The frame of pages without scripts, and the welcome page: links to the API, and how to start a run."""

from __future__ import annotations

from html import escape
from typing import Final

from fastapi import Request
from starlette.responses import Response

from statewright.server.http.encode import JsonResponse

_LINKS: Final = {
    "docs": ("/docs", "The API: its operations and their data"),
    "openapi": ("/openapi.json", "OpenAPI document of the API"),
    "health": ("/health", "Health of the service"),
    "live": ("/live", "Liveness of the process"),
    "ready": ("/ready", "Readiness of the server"),
}
STYLE: Final = (
    ":root{color-scheme:light dark;--line:light-dark(#e3e6ea,#262b32);--quiet:light-dark(#606773,#9299a5);"
    "--link:light-dark(#1c54c2,#8ab0ff);--chrome:light-dark(#f5f6f8,#0e1013)}"
    "body{font:15px/1.6 ui-sans-serif,system-ui,sans-serif;max-width:52rem;margin:2.5rem auto;padding:0 1rem;"
    "color:light-dark(#15181e,#e9ebee);background:light-dark(#fff,#15181c)}"
    "h1{font-size:1.5rem}h2{font-size:1.15rem;margin-top:2.5rem}h3{font-size:1rem}a{color:var(--link)}"
    "code,pre,.mono{font-family:ui-monospace,Menlo,monospace;font-size:.87em}"
    "pre{padding:.75rem 1rem;overflow-x:auto;border:1px solid var(--line);border-radius:6px;background:var(--chrome)}"
    "details{border-top:1px solid var(--line);padding:.4rem 0}summary{cursor:pointer}"
    "summary b{display:inline-block;min-width:4.5rem}table{border-collapse:collapse;width:100%;font-size:.93em}"
    "th,td{text-align:left;vertical-align:top;padding:.25rem .75rem .25rem 0;border-top:1px solid var(--line)}"
    "th{font-weight:500;color:var(--quiet)}.quiet{color:var(--quiet)}nav a{margin-right:1rem}"
    ".notice{border-left:3px solid var(--link);padding:.25rem 1rem;background:var(--chrome)}"
)
"""The style sheet of these pages, which has to be permitted by its hash."""


def wants_html(accept: str) -> bool:
    """Return whether a header `Accept` asks for HTML, as browsers do."""
    return any(part.partition(";")[0].strip().lower() == "text/html" for part in accept.split(","))


def render_frame(title: str, body: str) -> str:
    """Return an HTML page. `title` is text, `body` is HTML."""
    return (
        '<!doctype html><html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width,initial-scale=1">'
        f"<title>{escape(title)}</title><style>{STYLE}</style></head><body>{body}</body></html>\n"
    )


def welcome_links(request: Request) -> Response:
    """Answer a program with links to the API. This is public, so it reveals no runs."""
    paths = {name: path for name, (path, _) in _LINKS.items()}
    links = {**paths, "api": "/api/v1"}
    content = {"title": request.app.title, "version": request.app.version, "links": links}
    return JsonResponse(content, headers={"vary": "accept"})


def render_welcome(request: Request, notice: str = "") -> str:
    """Return the page that browsers get instead of the web page. `notice` is HTML, which is shown at the top."""
    title, version = str(request.app.title), str(request.app.version)
    url = str(request.base_url).rstrip("/")
    links = "".join(f'<li><a href="{path}">{escape(text)}</a></li>' for path, text in _LINKS.values())
    start = escape(f"statewright runs start GRAPH --input '{{}}' --wait --url {url}")
    curl = escape(
        f"curl '{url}/api/v1/workflow-runs?wait=60' -H 'content-type: application/json' "
        f"""-d '{{"graph": "GRAPH", "input": {{}}}}'"""
    )
    return render_frame(
        title,
        f"<h1>{escape(title)}</h1>"
        + (f'<p class="notice">{notice}</p>' if notice else "")
        + f"<p>Statewright {escape(version)}: durable workflow runs over HTTP.</p><ul>{links}</ul>"
        f"<h2>Start a run</h2><pre>{start}</pre><p>or</p><pre>{curl}</pre>"
        f"<p>If the server requires a key, send it in the header <code>x-api-key</code>; "
        f"<code>statewright keys create NAME</code> creates one.</p>",
    )
