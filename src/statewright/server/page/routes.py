"""Routes of the page: its files, and its index for every other address, because the page itself reads the address.

They are not part of the API: they are not in the OpenAPI document, and need no key. What the page shows, it gets from
the API, with the session of the person who has signed in.
"""

from __future__ import annotations

from typing import Final

from fastapi import APIRouter, Request, Response
from starlette.responses import HTMLResponse, RedirectResponse

from statewright.server.context.server_context import server_context_of
from statewright.server.page.api_document import render_api_document
from statewright.server.page.built_files import ASSETS, INDEX, BuiltFile, BuiltFiles
from statewright.server.page.headers import PAGE_HEADERS, static_headers
from statewright.server.page.static_page import STYLE, render_welcome, wants_html, welcome_links

router = APIRouter(include_in_schema=False)
FILES: Final = BuiltFiles()
_METHODS: Final = ["GET", "HEAD"]
_NOT_BUILT: Final = (
    "The web page was not built, so this server has only its API. To build it in a checkout, run <code>make ui</code>, "
    "and load this page again. Installed packages contain it."
)


@router.api_route("/", methods=_METHODS)
async def open_root(request: Request) -> Response:
    """Lead browsers to the page, and answer programs with links to the API."""
    if not wants_html(request.headers.get("accept", "")):
        return welcome_links(request)
    if server_context_of(request).settings.page:
        return RedirectResponse("/ui/", 307, {"vary": "accept"})
    return HTMLResponse(render_welcome(request), headers=static_headers(STYLE) | {"vary": "accept"})


@router.api_route("/docs", methods=_METHODS)
async def open_api_document(request: Request) -> Response:
    """Answer browsers with the API's document as a page, and programs with links to it."""
    if not wants_html(request.headers.get("accept", "")):
        return welcome_links(request)
    return HTMLResponse(render_api_document(request.app), headers=static_headers(STYLE) | {"vary": "accept"})


@router.api_route("/ui", methods=_METHODS)
async def open_page_without_slash(request: Request) -> Response:
    query = f"?{request.url.query}" if request.url.query else ""
    return RedirectResponse(f"/ui/{query}", 307)


@router.api_route("/ui/{path:path}", methods=_METHODS)
async def open_page(request: Request, path: str) -> Response:
    if not server_context_of(request).settings.page:
        return Response("This server does not serve the web page.\n", 404, media_type="text/plain")
    files = FILES.all()
    if not files:
        page = render_welcome(request, notice=_NOT_BUILT)
        return HTMLResponse(page, headers=static_headers(STYLE) | {"cache-control": "no-store"})
    file = files.get(path)
    if file is not None and path != INDEX:
        return _respond(request, file)
    if path.startswith(ASSETS):  # of an earlier build; a page that gets HTML for a script would not say what is wrong
        return Response("This file does not exist (any more). Load the page again.\n", 404, media_type="text/plain")
    return _respond(request, files[INDEX])


def _respond(request: Request, file: BuiltFile) -> Response:
    """Return a file, or 304 if the client has it."""
    headers = {
        **PAGE_HEADERS,
        "cache-control": "public, max-age=31536000, immutable" if file.is_immutable else "no-cache",
        "etag": file.etag,
        "vary": "accept-encoding",
    }
    if file.etag in request.headers.get("if-none-match", ""):
        return Response(None, 304, headers)
    content = file.content
    if file.compressed is not None and _accepts_gzip(request.headers.get("accept-encoding", "")):
        content, headers["content-encoding"] = file.compressed, "gzip"
    headers["content-type"] = file.media_type
    return Response(content, 200, headers)


def _accepts_gzip(header: str) -> bool:
    for part in header.split(","):
        name, _, quality = part.strip().lower().partition(";")
        if name.strip() in ("gzip", "*"):
            return quality.replace(" ", "") not in ("q=0", "q=0.0", "q=0.00", "q=0.000")
    return False
