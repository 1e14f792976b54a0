"""Pages of the web as text: over a real connection, through the egress policy and a child process."""

import asyncio
import time
from collections.abc import AsyncGenerator

import pytest

from antiphon.documents.reader import DEFAULT_LIMITS, DocumentReader
from antiphon.errors import InvalidRequest
from antiphon.http.download import Downloader
from antiphon.http.egress import AllowPublic
from antiphon.isolated.pool import IsolatedPool
from antiphon.web.page_text import MAX_PAGE_CHARACTERS
from antiphon.web.pages import WebPageReader
from antiphon.web.port import DomainRules, WebPage
from tests.documents.pdf_file import pdf_file
from tests.http.raw_upstream import Script, Wire, answering, complete_response, raw_upstream

ANY = DomainRules()
HTML = "text/html; charset=utf-8"
PAGE = b"<html><head><title>The sky</title></head><body><p>It is blue.</p></body></html>"
MAX_BYTES = 200_000


@pytest.fixture
async def documents() -> AsyncGenerator[DocumentReader, None]:
    pool = IsolatedPool(DEFAULT_LIMITS)
    yield DocumentReader(pool)
    await pool.aclose()


def reader(documents: DocumentReader, *allow: str, seconds: float = 20.0) -> WebPageReader:
    return WebPageReader(Downloader(AllowPublic(allow or ("127.0.0.1",)), MAX_BYTES, seconds), documents)


def page(body: bytes, media: str = HTML) -> Script:
    return answering(complete_response(200, body, media=media))


def redirect(location: str) -> Script:
    return answering(complete_response(302, b"", f"Location: {location}"))


async def opened(documents: DocumentReader, *scripts: Script, seconds: float = 20.0) -> WebPage:
    async with raw_upstream(*scripts) as site:
        return await reader(documents, seconds=seconds).open("t", f"{site.url}/page#part", ANY)


async def refusal(documents: DocumentReader, *scripts: Script, seconds: float = 20.0) -> str:
    with pytest.raises(InvalidRequest) as refused:
        await opened(documents, *scripts, seconds=seconds)
    return refused.value.message


@pytest.mark.requirement("HOSTED/web-pages")
async def test_a_page_is_text_with_a_title(documents: DocumentReader) -> None:
    found = await opened(documents, page(PAGE))
    assert (found.title, found.text, found.is_cut) == ("The sky", "# The sky\n\nIt is blue.", False)
    assert found.url.endswith("/page")


@pytest.mark.requirement("HOSTED/web-pages")
@pytest.mark.parametrize(
    ("body", "media", "text"),
    [
        (b'{"sky": "blue"}', "application/json", "blue"),
        ("# Himmel\n\nBläulich".encode(), "text/markdown", "Bläulich"),
        (b"Only text.", "", "Only text."),
    ],
)
async def test_other_texts_are_read_too(
    documents: DocumentReader, body: bytes, media: str, text: str
) -> None:
    assert text in (await opened(documents, page(body, media))).text


async def test_a_pdf_is_read_page_by_page(documents: DocumentReader) -> None:
    pytest.importorskip("pypdfium2")
    found = await opened(documents, page(pdf_file("First", "Second"), "application/pdf"))
    assert "[page 2]\nSecond" in found.text


@pytest.mark.requirement("HOSTED/web-pages-hostile")
@pytest.mark.parametrize(
    ("body", "media"),
    [
        ("<html><p>Bläulich Ж</p></html>".encode(), "text/html; charset=latin-1x"),
        ("<html><p>Bläulich Ж</p></html>".encode(), "text/html; charset=us-ascii"),
        ("<html><meta charset=latin-1><p>Bläulich Ж</p></html>".encode(), HTML),
        ("<html><p>Bläulich Ж</p></html>".encode("utf-16"), "text/html; charset=utf-8"),
        ("<html><meta charset=utf-8><p>Ж</p></html>".encode("cp1251"), "text/html; charset=windows-1251"),
    ],
)
async def test_a_wrong_encoding_is_found_out(documents: DocumentReader, body: bytes, media: str) -> None:
    assert "Ж" in (await opened(documents, page(body, media))).text


@pytest.mark.requirement("HOSTED/web-pages-hostile")
async def test_no_hop_leads_to_an_address_that_is_not_public(documents: DocumentReader) -> None:
    message = await refusal(documents, redirect("http://169.254.169.254/latest/meta-data/"))
    assert "Connections to '169.254.169.254' are not permitted" in message
    async with raw_upstream(page(PAGE)) as site:
        with pytest.raises(InvalidRequest, match="are not permitted"):
            await reader(documents, "10.0.0.0/8").open("t", site.url, ANY)
        assert site.connections == 0


async def test_a_redirect_is_followed_and_the_last_address_is_cited(documents: DocumentReader) -> None:
    found = await opened(documents, redirect("/elsewhere?a=1#b"), page(PAGE))
    assert found.url.endswith("/elsewhere?a=1")
    assert "more than 5 times" in await refusal(documents, redirect("/again"))
    assert "must begin with 'https://'" in await refusal(documents, redirect("file:///etc/passwd"))


@pytest.mark.requirement("HOSTED/web-pages-hostile")
async def test_a_page_that_is_too_large_is_not_read_to_its_end(documents: DocumentReader) -> None:
    sent = 0

    async def declared(wire: Wire) -> None:
        head = f"HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nContent-Length: {100 * 2**20}\r\n\r\n"
        await wire.send(head.encode())
        await endless(wire, chunked=False)

    async def endless(wire: Wire, *, chunked: bool = True) -> None:
        nonlocal sent
        piece = b"<p>more</p>" * 1000
        if chunked:
            await wire.send(
                b"HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nTransfer-Encoding: chunked\r\n\r\n"
            )
        for _ in range(9000):
            await wire.send(b"%x\r\n%b\r\n" % (len(piece), piece) if chunked else piece)
            sent += len(piece)

    for script in (declared, endless):
        sent = 0
        assert "beyond the size limit" in await refusal(documents, script)
        assert sent < 20 * 2**20


@pytest.mark.requirement("HOSTED/web-pages-hostile")
async def test_a_page_that_hangs_costs_its_time(documents: DocumentReader) -> None:
    async def hang(wire: Wire) -> None:
        await wire.until_cut_off()

    async def drip(wire: Wire) -> None:
        await wire.send(b"HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nContent-Length: 1000\r\n\r\n")
        while True:
            await wire.send(b"x")
            await asyncio.sleep(0.05)

    for script in (hang, drip):
        began = time.monotonic()
        assert "more than 0.5 s" in await refusal(documents, script, seconds=0.5)
        assert time.monotonic() - began < 5


@pytest.mark.requirement("HOSTED/web-pages-hostile")
@pytest.mark.parametrize(
    ("body", "media", "why"),
    [
        (bytes(range(256)) * 100, "text/html", "binary file"),
        (b"\x89PNG\r\n\x1a\n", "text/html", "image (PNG)"),
        (b"GIF89a", "image/gif", "'image/gif', which has no text"),
        (b"", "text/html", "empty"),
        (b"<html><script>x()</script></html>", HTML, "contains no text"),
    ],
)
async def test_what_has_no_text_says_so(documents: DocumentReader, body: bytes, media: str, why: str) -> None:
    assert why in await refusal(documents, page(body, media))


@pytest.mark.requirement("HOSTED/web-pages-hostile")
async def test_nested_html_costs_no_more_than_its_limits(documents: DocumentReader) -> None:
    bomb = b"<html>" + b"<div><table><tr><td>" * 9_000 + b"deep"
    assert "deep" in (await opened(documents, page(bomb))).text
    entities = b"<html>" + b"&lt;" * 40_000
    assert (await opened(documents, page(entities))).text.startswith("<<<")


async def test_an_error_of_the_site_is_named_without_its_text(documents: DocumentReader) -> None:
    message = await refusal(documents, answering(complete_response(404, b"a secret of the site")))
    assert "The page at '127.0.0.1' cannot be opened: it answered with status 404" in message
    assert "/page" not in message
    assert "secret" not in message


@pytest.mark.requirement("HOSTED/web-page-filters")
async def test_filters_hold_for_pages_and_for_redirects(documents: DocumentReader) -> None:
    async with raw_upstream(redirect("http://other.example/"), page(PAGE)) as site:
        only = DomainRules(allowed_domains=("127.0.0.1",))
        with pytest.raises(InvalidRequest, match=r"'other\.example' are not permitted by the filters"):
            await reader(documents).open("t", site.url, only)
        with pytest.raises(InvalidRequest, match="by the filters"):
            await reader(documents).open("t", site.url, DomainRules(blocked_domains=("127.0.0.1",)))
        assert len(site.wires) == 1


@pytest.mark.requirement("HOSTED/web-page-filters")
async def test_a_page_in_memory_is_no_way_around_filters_or_tenants(documents: DocumentReader) -> None:
    async with raw_upstream(page(PAGE)) as site:
        pages = reader(documents)
        await pages.open("t", site.url, ANY)
        await pages.open("t", site.url, ANY)
        assert len(site.wires) == 1
        with pytest.raises(InvalidRequest, match="by the filters"):
            await pages.open("t", site.url, DomainRules(blocked_domains=("127.0.0.1",)))
        await pages.open("u", site.url, ANY)
        assert len(site.wires) == 2


@pytest.mark.parametrize("url", ["", "ftp://x/y", "http://u:p@x/", "https://", "http://[::1", "x" * 3000])
async def test_what_is_no_address_is_refused(documents: DocumentReader, url: str) -> None:
    with pytest.raises(InvalidRequest) as refused:
        await reader(documents).open("t", url, ANY)
    assert len(refused.value.message) < 600


async def test_the_end_of_a_very_long_text_is_left_out(documents: DocumentReader) -> None:
    body = b"word " * (MAX_PAGE_CHARACTERS // 5 + 10)
    async with raw_upstream(page(body, "text/plain")) as site:
        large = WebPageReader(Downloader(AllowPublic(["127.0.0.1"]), 2 * len(body), 20.0), documents)
        found = await large.open("t", site.url, ANY)
    assert (len(found.text), found.is_cut) == (MAX_PAGE_CHARACTERS, True)
