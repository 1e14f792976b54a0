"""Which addresses of requests are connected to, and downloads from them."""

import asyncio
from collections.abc import AsyncGenerator

import pytest
from aiohttp import web

from antiphon.errors import BackendRefused, InvalidRequest, SettingsError
from antiphon.http.download import Downloader
from antiphon.http.egress import AllowPublic, Destination

PARAM = "input[0].content[0].file_url"


async def permitted(host: str, *allow: str) -> str:
    return await AllowPublic(allow).permit(Destination(host, 80, tls=False))


@pytest.mark.requirement("DOCUMENTS/input-egress")
@pytest.mark.parametrize(
    "host",
    [
        "127.0.0.1",
        "localhost",
        "127.1",
        "2130706433",
        "0x7f000001",
        "0.0.0.0",
        "10.0.0.1",
        "172.16.0.1",
        "192.168.1.1",
        "169.254.169.254",
        "100.64.0.1",
        "224.0.0.1",
        "255.255.255.255",
        "::1",
        "::",
        "fe80::1",
        "fd00::1",
        "ff02::1",
        "::ffff:127.0.0.1",
        "::ffff:10.0.0.1",
        "2002:7f00:1::",
        "64:ff9b::7f00:1",
    ],
)
async def test_addresses_that_are_not_public_are_refused(host: str) -> None:
    with pytest.raises(BackendRefused, match="not permitted: its address is not public") as caught:
        await permitted(host)
    assert (caught.value.code, caught.value.status) == ("egress_not_permitted", 403)


@pytest.mark.requirement("DOCUMENTS/input-egress")
@pytest.mark.parametrize(
    ("host", "allow", "deny"),
    [
        ("8.8.8.8", (), "8.8.8.0/24"),
        ("64:ff9b::808:808", (), "8.8.8.8"),
        ("127.0.0.1", ("127.0.0.1",), "127.0.0.0/8"),
        ("localhost", ("localhost",), "LocalHost."),
        ("localhost", ("localhost", "127.0.0.1", "::1"), "localhost"),
    ],
)
async def test_what_the_operator_denies_is_refused_although_it_is_allowed(
    host: str, allow: tuple[str, ...], deny: str
) -> None:
    with pytest.raises(BackendRefused, match=r"the operator denies them \(egress\.deny\)") as caught:
        await AllowPublic(allow, [deny]).permit(Destination(host, 80, tls=False))
    assert (caught.value.code, caught.value.status) == ("egress_not_permitted", 403)


async def test_a_denied_host_denies_its_subdomains_and_no_other_hosts(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async def resolved(*_: object, **__: object) -> list[tuple[object, ...]]:
        return [(None, None, None, "", ("8.8.8.8", 80))]

    monkeypatch.setattr(asyncio.get_running_loop(), "getaddrinfo", resolved, raising=False)
    policy = AllowPublic(deny=["example.com"])
    for host in ("example.com", "www.Example.com", "a.b.example.com."):
        with pytest.raises(BackendRefused):
            await policy.permit(Destination(host, 443, tls=True))
    for host in ("example.org", "notexample.com", "com"):
        assert await policy.permit(Destination(host, 443, tls=True)) == "8.8.8.8"


def test_an_entry_of_deny_that_is_no_host_is_refused() -> None:
    with pytest.raises(SettingsError, match=r"egress\.deny: 'https://example\.com' is neither"):
        AllowPublic(deny=["https://example.com"])


@pytest.mark.parametrize("host", ["8.8.8.8", "2606:4700:4700::1111", "64:ff9b::808:808"])
async def test_public_addresses_are_permitted(host: str) -> None:
    assert await permitted(host) == host


@pytest.mark.parametrize(
    ("host", "allowed"),
    [
        ("127.0.0.1", "127.0.0.1"),
        ("127.0.0.1", "127.0.0.0/8"),
        ("127.0.0.1", "127.0.0.5/8"),
        ("::ffff:10.1.2.3", "10.0.0.0/8"),
        ("fd00::1", "fd00::/8"),
        ("localhost", "LocalHost"),
    ],
)
async def test_what_the_operator_allows_is_permitted(host: str, allowed: str) -> None:
    assert await permitted(host, "10.255.255.255", allowed)


async def test_an_allowed_address_allows_no_other() -> None:
    with pytest.raises(BackendRefused):
        await permitted("127.0.0.2", "127.0.0.1", "localhost")


@pytest.mark.parametrize("entry", ["", "http://x", "10.0.0.0/99", "*.internal", "user@host", "a b"])
def test_an_entry_that_is_neither_host_nor_network_is_rejected(entry: str) -> None:
    with pytest.raises(SettingsError, match=r"egress\.allow"):
        AllowPublic([entry])


class Site:
    """A web server on loopback."""

    def __init__(self) -> None:
        self.url = ""
        self.asked: list[str] = []

    async def answer(self, request: web.Request) -> web.StreamResponse:
        self.asked.append(request.path_qs)
        match request.path:
            case "/a b.txt":
                return web.Response(body=b"Hello")
            case "/once":
                return web.Response(status=302, headers={"location": "/a%20b.txt"})
            case "/again":
                return web.Response(status=301, headers={"location": "/again"})
            case "/away":
                return web.Response(
                    status=307, headers={"location": self.url.replace("127.0.0.1", "127.0.0.2")}
                )
            case "/file":
                return web.Response(status=302, headers={"location": "file:///etc/passwd"})
            case "/large":
                return web.Response(body=bytes(2000))
            case "/slow":
                await asyncio.sleep(30)
            case _:
                pass
        return web.Response(status=404, text="a secret of the site")


@pytest.fixture
async def site() -> AsyncGenerator[Site, None]:
    made, app = Site(), web.Application()
    app.router.add_get("/{path:.*}", made.answer)
    runner = web.AppRunner(app, shutdown_timeout=0.1)
    await runner.setup()
    listening = web.TCPSite(runner, "127.0.0.1", 0)
    await listening.start()
    made.url = f"http://127.0.0.1:{runner.addresses[0][1]}"
    yield made
    await runner.cleanup()


def downloader(*allow: str, seconds: float = 20.0) -> Downloader:
    return Downloader(AllowPublic(allow), 1000, seconds)


@pytest.mark.parametrize("path", ["/a b.txt", "/a%20b.txt?x=ä&y=1", "/once"])
async def test_a_file_is_downloaded(site: Site, path: str) -> None:
    found = await downloader("127.0.0.1").download(site.url + path, PARAM)
    assert (found.data, found.name) == (b"Hello", "a b.txt")


async def test_a_site_that_is_not_allowed_is_never_asked(site: Site) -> None:
    with pytest.raises(InvalidRequest, match="not permitted") as caught:
        await downloader().download(f"{site.url}/once", PARAM)
    assert (caught.value.param, caught.value.code, site.asked) == (PARAM, "egress_not_permitted", [])


@pytest.mark.requirement("DOCUMENTS/input-egress")
async def test_every_hop_is_judged(site: Site) -> None:
    with pytest.raises(InvalidRequest, match=r"'127\.0\.0\.2' are not permitted"):
        await downloader("127.0.0.1").download(f"{site.url}/away", PARAM)


@pytest.mark.parametrize(
    ("path", "why"),
    [
        ("/none", "it answered with status 404"),
        ("/again", "redirected more than 5 times"),
        ("/large", "beyond the size limit"),
        ("/file", "must begin with 'https://' or 'http://'"),
        ("/slow", "more than 1 s"),
    ],
)
async def test_a_file_that_cannot_be_had_says_why(site: Site, path: str, why: str) -> None:
    with pytest.raises(InvalidRequest, match=why) as caught:
        await downloader("127.0.0.1", seconds=1.0 if path == "/slow" else 20.0).download(
            site.url + path, PARAM
        )
    assert caught.value.param == PARAM
    assert "secret" not in caught.value.message


@pytest.mark.parametrize(
    "url", ["", "x", "file:///etc/passwd", "ftp://x/y", "http://u:p@x/", "https://", "http://[::1"]
)
async def test_what_is_no_url_is_rejected(url: str) -> None:
    with pytest.raises(InvalidRequest):
        await downloader().download(url, PARAM)
