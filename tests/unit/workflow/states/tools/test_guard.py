"""The hosts that tools may reach."""

from __future__ import annotations

import pytest

from statewright.errors import ToolError
from statewright.workflow.states.tools.guard import Guard, parse_allowed_host, read_url


@pytest.mark.parametrize(
    ("text", "parts"),
    [
        ("https://Example.com", ("https", "example.com", 443, "/")),
        ("http://example.com.:8080/a?b=c#d", ("http", "example.com", 8080, "/a?b=c")),
        ("https://[2001:db8::1]/x", ("https", "2001:db8::1", 443, "/x")),
        ("https://bücher.example/", ("https", "xn--bcher-kva.example", 443, "/")),
        ("https://example.com?q=1", ("https", "example.com", 443, "/?q=1")),
    ],
)
def test_a_url_is_parsed(text: str, parts: tuple[str, str, int, str]) -> None:
    url = read_url(text)
    assert (url.scheme, url.host, url.port, url.target) == parts


@pytest.mark.parametrize(
    "text",
    [
        "", "example.com", "/path", "ftp://example.com", "file:///etc/passwd", "gopher://example.com", "http://",
        "http://example.com:99999/", "http://[::1", "http://example.com/a b", "http://example.com/\r\nX: y",
        "http://example.com\\@evil.example/", "http://user:pass@example.com/", "http://@example.com/",
        "http://example.com/é", "http://" + "a" * 300 + "/", "http://a..b/",
    ],
)  # fmt: skip
def test_4_1_8_invalid_urls_are_rejected(text: str) -> None:
    with pytest.raises(ToolError):
        read_url(text)


def test_a_password_in_a_url_is_not_quoted() -> None:
    with pytest.raises(ToolError) as caught:
        read_url("http://user:hunter2@example.com/")
    assert "hunter2" not in str(caught.value)


def test_a_url_is_formatted_as_it_was_written() -> None:
    for text in ("https://example.com/a?b=c", "http://example.com:8080/", "https://[2001:db8::1]:444/x"):
        assert str(read_url(text)) == text


@pytest.mark.parametrize(
    ("entry", "url"),
    [
        ("8.8.8.8", "https://8.8.8.8/"),
        ("8.8.8.8", "http://8.8.8.8/"),
        ("*", "http://8.8.8.8/"),
        ("8.8.8.8:8080", "http://8.8.8.8:8080/"),
        ("8.8.8.8:*", "http://8.8.8.8:1234/"),
        ("*:8443", "https://8.8.8.8:8443/"),
        ("*.8.8.8", "http://8.8.8.8/"),
        ("2606:4700::1", "https://[2606:4700::1]/"),
        ("[2606:4700::1]:81", "http://[2606:4700::1]:81/"),
    ],
)
def test_listed_hosts_are_allowed(entry: str, url: str) -> None:
    assert Guard([entry]).resolve(read_url(url)) == [read_url(url).host]


@pytest.mark.parametrize(
    ("entry", "url"),
    [
        ("8.8.4.4", "https://8.8.8.8/"),
        ("8.8.8.8", "http://8.8.8.8:8080/"),
        ("8.8.8.8:8080", "http://8.8.8.8/"),
        ("*.example.com", "https://example.com/"),
        ("*.example.com", "https://badexample.com/"),
        ("example.com", "https://example.com.evil.example/"),
    ],
)
def test_4_1_8_other_hosts_are_rejected(entry: str, url: str) -> None:
    with pytest.raises(ToolError, match=r"is not allowed. To allow it, add it to allow_hosts"):
        Guard([entry]).resolve(read_url(url))


@pytest.mark.parametrize(
    "host",
    [
        "127.0.0.1", "localhost", "0.0.0.0", "10.0.0.1", "172.16.0.1", "192.168.1.1", "100.64.0.1", "169.254.169.254",
        "168.63.129.16", "100.100.100.200", "224.0.0.1", "255.255.255.255", "[::1]", "[::]", "[fe80::1]", "[fc00::1]",
        "[fec0::1]", "[fd00:ec2::254]", "[::ffff:127.0.0.1]", "[::ffff:a9fe:a9fe]", "[64:ff9b::7f00:1]",
        "[2002:7f00:1::]", "2130706433", "0x7f.1", "0177.0.0.1", "127.1",
    ],
)  # fmt: skip
def test_4_1_8_a_wildcard_does_not_allow_private_addresses(host: str) -> None:
    with pytest.raises(ToolError, match="not a public address"):
        Guard(["*"]).resolve(read_url(f"http://{host}/"))


def test_4_1_8_a_private_host_may_be_listed_without_a_wildcard() -> None:
    assert "127.0.0.1" in Guard(["localhost"]).resolve(read_url("http://localhost/"))
    assert Guard(["10.0.0.1:8080"]).resolve(read_url("http://10.0.0.1:8080/")) == ["10.0.0.1"]


def test_4_1_8_metadata_services_are_allowed_only_by_their_exact_address() -> None:
    url = read_url("http://169.254.169.254/")
    assert Guard(["169.254.169.254"]).resolve(url) == ["169.254.169.254"]
    with pytest.raises(ToolError, match="add the exact address"):
        Guard(["*:80"]).resolve(url)


def test_the_origin_of_an_integration_is_allowed() -> None:
    url = read_url("http://127.0.0.1:8123/x")
    guard = Guard([])
    assert guard.with_origin(url).resolve(url) == ["127.0.0.1"]
    with pytest.raises(ToolError):
        guard.resolve(url)
    with pytest.raises(ToolError):
        guard.with_origin(url).resolve(read_url("http://127.0.0.1:8124/"))


def test_an_unknown_host_is_a_connection_error() -> None:
    with pytest.raises(ConnectionError, match="cannot be resolved"):
        Guard(["*"]).resolve(read_url("http://there-is-no-such-host.invalid/"))


@pytest.mark.parametrize(
    "entry",
    ["", "  ", "https://example.com", "example.com/path", "a b", "*.*.com", "ex*mple.com", "*com", "u@h", "h:x"],
)
def test_invalid_entries_are_rejected(entry: str) -> None:
    with pytest.raises(ToolError, match="is not a host"):
        parse_allowed_host(entry)


def test_the_list_is_checked_without_resolving_names() -> None:
    guard = Guard(["api.example.com", "*.example.org"])
    one, below, other = (read_url(f"https://{host}/") for host in ("api.example.com", "a.example.org", "example.net"))
    assert [guard.allows(url) for url in (one, below, other)] == [True, True, False]
    assert [guard.names_exactly(url) for url in (one, below, other)] == [True, False, False]
    assert guard.with_origin(other).names_exactly(other)
