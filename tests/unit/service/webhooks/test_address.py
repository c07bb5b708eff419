"""URLs of webhooks: refused ones, with errors that reveal nothing of the network."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

import pytest

from statewright.errors import InvalidRequest
from statewright.service.webhooks.address import check_url, find_addresses, read_url
from statewright.service.webhooks.settings import WebhookSettings

KNOWN = {
    "hooks.example.com": ["93.184.216.34"],
    "both.example.com": ["93.184.216.34", "2606:4700::1111"],
    "many.example.com": [f"93.184.216.{number}" for number in range(1, 20)],
    "xn--bcher-kva.example": ["93.184.216.34"],
    "inside.example.com": ["10.0.0.5"],
    "mixed.example.com": ["93.184.216.34", "127.0.0.1"],
    "six.example.com": ["::1"],
    "scoped.example.com": ["fe80::1%eth0"],
    "mapped.example.com": ["::ffff:127.0.0.1"],
    "nat64.example.com": ["64:ff9b::7f00:1"],
    "nat64-public.example.com": ["64:ff9b::808:808"],
    "metadata.google.internal": ["169.254.169.254"],
    "carrier.example.com": ["100.64.0.9"],
    "nothing.example.com": [],
    "nonsense.example.com": ["not an address"],
}


async def resolve(host: str, port: int) -> Sequence[str]:
    if host not in KNOWN:
        raise OSError(f"no such host: {host}")
    return KNOWN[host]


SETTINGS = WebhookSettings(resolve=resolve)

HOSTILE = [
    # the machine itself, in all notations that some program understands
    "https://localhost/", "https://LOCALHOST/", "https://app.localhost/", "https://localhost./",
    "https://127.0.0.1/", "https://127.1/", "https://127.0.1/", "https://127.0.0.1./", "https://127.0.0.01/",
    "https://2130706433/", "https://0x7f000001/", "https://0x7f.0.0.1/", "https://0x7f.1/", "https://0x/",
    "https://0177.0.0.1/", "https://017700000001/", "https://127.0.0.0x1/", "https://127.000.000.001/",
    "https://0/", "https://0.0.0.0/", "https://[::1]/", "https://[::]/", "https://[0:0:0:0:0:0:0:1]/",
    "https://[::ffff:127.0.0.1]/", "https://[::ffff:7f00:1]/", "https://[::127.0.0.1]/",
    "https://[64:ff9b::127.0.0.1]/", "https://[64:ff9b:1::7f00:1]/", "https://[2002:7f00:1::]/",
    "https://[2001:0:7f00:1::]/", "https://[::1%25lo]/", "https://[::1%lo]/", "https://[fe80::1%25eth0]/",
    # networks of the house, and of clouds
    "https://10.1.2.3/", "https://172.16.0.1/", "https://192.168.0.1/", "https://100.64.0.1/", "https://[fd00::1]/",
    "https://169.254.169.254/latest/meta-data/", "https://[fd00:ec2::254]/", "https://[::ffff:a9fe:a9fe]/",
    "https://100.100.100.200/", "https://168.63.129.16/", "https://metadata.google.internal/",
    "https://224.0.0.1/", "https://255.255.255.255/", "https://240.1.1.1/", "https://198.18.0.1/",
    "https://[ff02::1]/", "https://[2001:db8::1]/", "https://[fec0::1]/",
    # names that lead there
    "https://inside.example.com/", "https://mixed.example.com/", "https://six.example.com/",
    "https://scoped.example.com/", "https://mapped.example.com/", "https://nat64.example.com/",
    "https://carrier.example.com/", "https://nothing.example.com/", "https://nonsense.example.com/",
    "https://unknown.example.com/", "https://intranet/",
    # texts that are read in different ways
    "https://hooks.example.com@127.0.0.1/", "https://user:secret@hooks.example.com/", "https://@hooks.example.com/",
    "https://hooks.example.com\\@127.0.0.1/", "https://hooks.example.com#@127.0.0.1/", "https:hooks.example.com",
    "https:///hooks.example.com", "//hooks.example.com/", "hooks.example.com", "", " https://hooks.example.com/",
    "https://hooks.example.com/ x", "https://hooks.example.com/\r\nhost: a", "https://hooks.example.com/\t",
    "https://hooks.example.com\x00.evil.example/", "https://①②⑦.⓪.⓪.①/", "https://ｌｏｃａｌｈｏｓｔ/", "https://bücher.example/",
    "https://hooks。example。com/", "https://hooks%2eexample.com/", "https://%31%32%37.0.0.1/", "https://hooks..example.com/",
    "https://.hooks.example.com/", "https://hooks.example.com./", "https://-a.example.com/", "https://hooks.example.com-/",
    "https://[hooks.example.com]/", "https://[::1/", "https://::1/", "https://[]/", "https://[1.2.3.4]/", "https://1.2.3.4.5/",
    "https://1.2.3/", "https://1.2.3.256/", f"https://{'a' * 64}.example.com/", f"https://{'a.' * 130}com/",
    f"https://hooks.example.com/{'a' * 2100}",
    # ports
    "https://hooks.example.com:0/", "https://hooks.example.com:65536/", "https://hooks.example.com:99999/",
    "https://hooks.example.com:/x", "https://hooks.example.com:+443/", "https://hooks.example.com:-1/",
    "https://hooks.example.com:443:443/", "https://hooks.example.com:0x1bb/", "https://hooks.example.com:４４３/",
    "https://hooks.example.com:22/", "https://hooks.example.com:25/", "https://8.8.8.8:53/",
    # other schemes
    "http://hooks.example.com/", "http://8.8.8.8/", "ftp://hooks.example.com/", "file:///etc/passwd",
    "gopher://hooks.example.com/", "javascript:alert(1)", "unix:///run/docker.sock", "https+unix://hooks.example.com/",
]  # fmt: skip

OPEN = {
    "https://hooks.example.com/a?b=c": ("hooks.example.com", 443, "/a?b=c"),
    "HTTPS://Hooks.Example.COM": ("hooks.example.com", 443, "/"),
    "https://hooks.example.com?x=1": ("hooks.example.com", 443, "/?x=1"),
    "https://hooks.example.com:8443/": ("hooks.example.com", 8443, "/"),
    "https://both.example.com/": ("both.example.com", 443, "/"),
    "https://xn--bcher-kva.example/": ("xn--bcher-kva.example", 443, "/"),
    "https://nat64-public.example.com/": ("nat64-public.example.com", 443, "/"),
    "https://8.8.8.8/": ("8.8.8.8", 443, "/"),
    "https://[2606:4700:0::1111]:8443/%C3%BC": ("2606:4700::1111", 8443, "/%C3%BC"),
}


def refusal(url: str, settings: WebhookSettings = SETTINGS) -> str:
    with pytest.raises(InvalidRequest) as caught:
        asyncio.run(check_url(url, settings))
    assert caught.value.details == {"field": "url"}
    return str(caught.value)


def test_the_table_is_long() -> None:
    assert len(set(HOSTILE)) == len(HOSTILE) > 100


@pytest.mark.parametrize("url", HOSTILE)
def test_hostile_urls_are_refused(url: str) -> None:
    told = refusal(url)
    assert told.startswith("The URL of a webhook ")
    assert told.endswith(".")


@pytest.mark.parametrize("url", OPEN)
def test_valid_urls_are_parsed(url: str) -> None:
    asyncio.run(check_url(url, SETTINGS))
    parsed = read_url(url, SETTINGS)
    assert (parsed.host, parsed.port, parsed.target) == OPEN[url]


def test_the_host_header_is_the_host_as_written() -> None:
    assert read_url("https://[2606:4700::1111]:8443/").authority == "[2606:4700::1111]:8443"
    assert read_url("https://hooks.example.com:443/").authority == "hooks.example.com"


@pytest.mark.parametrize("host", ["inside", "mixed", "six", "mapped"])
def test_a_refusal_does_not_reveal_addresses(host: str) -> None:
    assert refusal(f"https://{host}.example.com/") == (
        f"The URL of a webhook has the host '{host}.example.com', which resolves to an address that is not public."
    )


def test_a_refusal_says_what_to_do() -> None:
    assert "Use https://" in refusal("http://hooks.example.com/")
    assert "port 22" in refusal("https://hooks.example.com:22/")
    assert "four decimal numbers" in refusal("https://0x7f.1/")
    assert "is loopback" in refusal("https://127.0.0.1/")
    assert "secret" not in refusal("https://user:secret@hooks.example.com/")


@pytest.mark.parametrize(
    ("allowed", "url"),
    [
        ("localhost", "http://localhost:8080/x"),
        ("127.0.0.1", "http://127.0.0.1/"),
        ("127.0.0.1:25", "http://127.0.0.1:25/"),
        ("[::1]", "https://[::1]:9/"),
        ("::1", "http://[::1]/"),
        ("Inside.Example.com", "http://inside.example.com/"),
        ("inside.example.com:8080", "http://INSIDE.example.com:8080/"),
    ],
)
def test_allowed_hosts_may_have_any_address(allowed: str, url: str) -> None:
    asyncio.run(check_url(url, WebhookSettings(allow_hosts=[allowed], resolve=_like_the_system)))
    with pytest.raises(InvalidRequest):
        asyncio.run(check_url(url, WebhookSettings(allow_hosts=["other.example"], resolve=_like_the_system)))


async def _like_the_system(host: str, port: int) -> Sequence[str]:
    return ["127.0.0.1"] if host == "localhost" else await resolve(host, port)


@pytest.mark.parametrize(
    "url",
    [
        "http://127.0.0.1:81/",
        "http://127.1:80/",
        "http://a@127.0.0.1:80/",
        "http://127.0.0.1.example.com:80/",
        "http://localhost:80/",
        "http://127.0.0.1:80#x",
    ],
)
def test_allowing_a_host_allows_no_other(url: str) -> None:
    refusal(url, WebhookSettings(allow_hosts=["127.0.0.1:80"], resolve=resolve))


def test_allowing_private_networks_allows_nothing_else() -> None:
    settings = WebhookSettings(allow_private=True, resolve=resolve)
    for url in (
        "https://inside.example.com/",
        "https://10.0.0.1/",
        "https://[fd12::1]/",
        "https://carrier.example.com/",
    ):
        asyncio.run(check_url(url, settings))
    for url in (
        "https://127.0.0.1/", "https://six.example.com/", "https://169.254.169.254/", "https://[fe80::1]/",
        "https://[fd00:ec2::254]/", "https://100.100.100.200/", "https://224.0.0.1/", "http://10.0.0.1/",
    ):  # fmt: skip
        refusal(url, settings)


def test_plain_http_can_be_allowed() -> None:
    settings = WebhookSettings(allow_http=True, resolve=resolve)
    asyncio.run(check_url("http://hooks.example.com/", settings))
    refusal("http://inside.example.com/", settings)


def test_all_addresses_are_checked_and_the_first_are_tried() -> None:
    target = read_url("https://many.example.com/", SETTINGS)
    assert asyncio.run(find_addresses(target, SETTINGS)) == ["93.184.216.1", "93.184.216.2", "93.184.216.3"]


def test_an_address_is_not_resolved() -> None:
    async def nobody(host: str, port: int) -> Sequence[str]:
        raise AssertionError(host)

    settings = WebhookSettings(resolve=nobody)
    assert asyncio.run(find_addresses(read_url("https://8.8.8.8/", settings), settings)) == ["8.8.8.8"]
