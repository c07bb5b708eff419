"""The web page: its files and headers, its addresses, and the pages that are there without a build."""

from __future__ import annotations

import asyncio
import gzip
import re
from base64 import b64encode
from hashlib import sha256
from pathlib import Path

import httpx
import pytest
from tests.unit.server.serving import serving

from statewright.server.page import routes
from statewright.server.page.built_files import BuiltFiles

BROWSER = {"accept": "text/html,application/xhtml+xml,*/*;q=0.8"}
INDEX = '<!doctype html><script type="module" src="/ui/assets/app-1a2b.js"></script>'
SCRIPT = "console.log('Statewright');" * 50


@pytest.fixture
def built(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with a built page, which the server serves."""
    folder = tmp_path / "built"
    (folder / "assets").mkdir(parents=True)
    (folder / "assets" / "app-1a2b.js").write_text(SCRIPT)
    (folder / "assets" / "app-1a2b.js.map").write_text("{}")
    (folder / "icon.svg").write_text("<svg/>")
    (folder / "index.html").write_text(INDEX)
    (tmp_path / "secret.txt").write_text("confidential")
    monkeypatch.setattr(routes, "FILES", BuiltFiles(folder))
    return folder


@pytest.fixture
def unbuilt(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(routes, "FILES", BuiltFiles(tmp_path / "nowhere"))


def fetch(
    *paths: str, headers: dict[str, str] | None = None, method: str = "GET", **settings: object
) -> list[httpx.Response]:
    async def run() -> list[httpx.Response]:
        async with serving(**settings) as api:
            return [await api.client.request(method, path, headers=headers or BROWSER) for path in paths]

    return asyncio.run(run())


@pytest.mark.usefixtures("built")
def test_every_address_of_the_page_answers_its_index_which_is_never_cached_blindly() -> None:
    for response in fetch("/ui/", "/ui/runs?status=failed", "/ui/runs/run_1/steps/a%2Fb/diff", "/ui/index.html"):
        assert (response.status_code, response.text) == (200, INDEX)
        assert response.headers["cache-control"] == "no-cache"
    (response,) = fetch("/ui?x=1")
    assert (response.status_code, response.headers["location"]) == (307, "/ui/?x=1")


@pytest.mark.usefixtures("built")
def test_assets_are_cached_for_ever_and_sent_compressed() -> None:
    (plain,) = fetch("/ui/assets/app-1a2b.js", headers={"accept-encoding": "br, gzip;q=0"})
    assert plain.text == SCRIPT
    assert plain.headers["cache-control"] == "public, max-age=31536000, immutable"
    assert plain.headers["content-type"] == "text/javascript; charset=utf-8"
    assert "content-encoding" not in plain.headers
    (packed,) = fetch("/ui/assets/app-1a2b.js", headers={"accept-encoding": "gzip"})
    assert (packed.text, packed.headers["content-encoding"]) == (SCRIPT, "gzip")
    assert int(packed.headers["content-length"]) < len(gzip.compress(SCRIPT.encode())) + 30
    (known,) = fetch("/ui/", headers={"if-none-match": fetch("/ui/")[0].headers["etag"]})
    assert (known.status_code, known.content) == (304, b"")
    (head,) = fetch("/ui/assets/app-1a2b.js", method="HEAD")
    assert (head.status_code, head.content) == (200, b"")


@pytest.mark.usefixtures("built")
def test_a_strict_policy_stands_in_every_response() -> None:
    for response in fetch("/ui/", "/ui/assets/app-1a2b.js", "/ui/icon.svg", "/ui/runs"):
        policy = response.headers["content-security-policy"]
        assert "default-src 'none'" in policy
        assert "script-src 'self'" in policy
        assert not re.search("unsafe|https?:|[*]", policy)
        assert response.headers["x-content-type-options"] == "nosniff"
        assert response.headers["referrer-policy"] == "no-referrer"
        assert response.headers["x-frame-options"] == "DENY"


@pytest.mark.usefixtures("built")
@pytest.mark.parametrize(
    "path",
    [
        "/ui/../secret.txt",
        "/ui/..%2fsecret.txt",
        "/ui/%2e%2e/secret.txt",
        "/ui/assets/..%2f..%2f..%2fsecret.txt",
        "/ui/..%5csecret.txt",
        "/ui//etc/passwd",
        "/ui/%2fetc%2fpasswd",
        "/ui/%00",
    ],
)
def test_no_address_leads_out_of_the_folder(path: str) -> None:
    async def run() -> None:
        async with serving() as api:
            request = api.client.build_request("GET", "/", headers=BROWSER)
            request.url = request.url.copy_with(raw_path=path.encode())  # httpx would resolve the dots
            response = await api.client.send(request)
            assert response.text == INDEX or response.status_code == 404
            assert "confidential" not in response.text

    asyncio.run(run())


@pytest.mark.usefixtures("built")
def test_assets_of_an_earlier_build_and_source_maps_are_not_answered_with_the_index() -> None:
    for response in fetch("/ui/assets/app-0000.js", "/ui/assets/app-1a2b.js.map"):
        assert (response.status_code, "<" in response.text) == (404, False)


def test_a_new_build_is_served_without_a_restart(built: Path) -> None:
    async def run() -> None:
        async with serving() as api:
            assert (await api.client.get("/ui/")).text == INDEX
            (built / "assets" / "app-3c4d.js").write_text("new")
            (built / "index.html").write_text("new index")
            assert (await api.client.get("/ui/")).text == "new index"
            assert (await api.client.get("/ui/assets/app-3c4d.js")).text == "new"

    asyncio.run(run())


@pytest.mark.parametrize("auth", ["keys", "none"])
@pytest.mark.usefixtures("unbuilt")
def test_without_a_build_the_page_says_how_to_build_it_and_has_valid_links(auth: str) -> None:
    async def run() -> None:
        async with serving(auth=auth) as api:
            response = await api.client.get("/ui/runs", headers=BROWSER)
            assert response.headers["content-type"] == "text/html; charset=utf-8"
            assert "make ui" in response.text
            assert "statewright runs start GRAPH" in response.text
            links = re.findall(r'href="([^"]*)"', response.text)
            assert links == ["/docs", "/openapi.json", "/health", "/live", "/ready"]
            for link in links:
                assert (await api.client.get(link, headers=BROWSER)).status_code == 200

    asyncio.run(run())


@pytest.mark.usefixtures("unbuilt")
@pytest.mark.parametrize("path", ["/ui/", "/docs"])
def test_pages_without_a_build_load_nothing_and_have_no_scripts(path: str) -> None:
    (response,) = fetch(path)
    (style,) = re.findall("<style>(.*)</style>", response.text)
    policy = response.headers["content-security-policy"]
    assert policy.startswith("default-src 'none'")
    assert b64encode(sha256(style.encode()).digest()).decode() in policy
    assert not re.search("<script|src=|style=|https?://(?!127)", response.text)


def test_the_root_leads_browsers_to_the_page_and_programs_to_the_api() -> None:
    (browser,) = fetch("/")
    assert (browser.status_code, browser.headers["location"], browser.headers["vary"]) == (307, "/ui/", "accept")
    for accept in ("application/json", "*/*"):
        for path in ("/", "/docs"):
            links = fetch(path, headers={"accept": accept})[0].json()["links"]
            assert links["openapi"] == "/openapi.json"
    for path in ("/threads", "/runs", "/assistants", "/store"):  # belong to other APIs
        assert fetch(path)[0].status_code == 404


@pytest.mark.usefixtures("built")
def test_a_server_can_do_without_the_page() -> None:
    root, page, asset = fetch("/", "/ui/", "/ui/assets/app-1a2b.js", page=False)
    assert (root.status_code, page.status_code, asset.status_code) == (200, 404, 404)
    assert "make ui" not in root.text


def test_the_document_of_the_api_lists_every_operation_and_schema() -> None:
    async def run() -> None:
        async with serving() as api:
            page = (await api.client.get("/docs", headers=BROWSER)).text
            document = api.app.openapi()
            for path, item in document["paths"].items():
                assert f">{path}<" in page
                for operation in item.values():
                    assert f'id="{operation["operationId"]}"' in page
            anchors = set(re.findall(r'id="([^"]*)"', page))
            assert set(re.findall(r'href="#([^"]*)"', page)) <= anchors
            assert len(page) < 500_000

    asyncio.run(run())
