"""The contract of search engines, over all kinds; and engines that misbehave."""

from collections.abc import AsyncGenerator, Callable

import pytest

from antiphon.errors import BackendBroken, BackendError, BackendTimeout
from antiphon.known_secrets import KNOWN_SECRETS
from antiphon.web.engines import EngineKind, HttpEngine, make_engine
from antiphon.web.port import WebLocation, WebQuery, is_permitted
from tests.web.engine_server import PAGES, ScriptedEngine, running_engine

KINDS: tuple[EngineKind, ...] = ("searxng", "brave", "tavily")
KEY = "a-key-of-the-engine-1234"
Make = Callable[..., HttpEngine]


@pytest.fixture
async def server() -> AsyncGenerator[ScriptedEngine]:
    async with running_engine() as engine:
        yield engine


@pytest.fixture(params=KINDS)
async def engine(request: pytest.FixtureRequest, server: ScriptedEngine) -> AsyncGenerator[HttpEngine]:
    made = make_engine(request.param, server.url, KEY, 5.0)
    yield made
    made.close()


@pytest.mark.requirement("HOSTED/web-engines")
async def test_results_are_the_same_for_every_engine(engine: HttpEngine, server: ScriptedEngine) -> None:
    found = await engine.search(WebQuery(text="why is it blue", limit=2))
    assert [(one.url, one.title, one.text) for one in found] == list(PAGES[:2])
    (sent,) = server.requests
    assert "why is it blue" in str(sent["query"]) + str(sent["body"])
    assert KEY in str(sent["headers"])
    assert KEY not in str(sent["query"]) + str(sent["body"])


@pytest.mark.requirement("HOSTED/web-filters")
async def test_domains_are_filtered(engine: HttpEngine) -> None:
    allowed = await engine.search(WebQuery(text="q", limit=9, allowed_domains=("grass.example",)))
    assert [one.url for one in allowed] == [PAGES[1][0]]
    blocked = await engine.search(WebQuery(text="q", limit=9, blocked_domains=("sky.example",)))
    assert [one.url for one in blocked] == [PAGES[1][0], PAGES[2][0]]


def test_subdomains_belong_to_a_domain() -> None:
    query = WebQuery(text="q", limit=1, allowed_domains=("a.example",))
    urls = ["https://a.example/", "http://b.a.example:8080/x", "https://ba.example/", "ftp://a.example/", "x"]
    assert [is_permitted(url, query) for url in urls] == [True, True, False, False, False]
    assert not is_permitted("http://[", query)


async def test_the_location_is_passed_to_brave(server: ScriptedEngine) -> None:
    engine = make_engine("brave", server.url, KEY, 5.0)
    where = WebLocation(city="Bern", country="ch", region="Köln", timezone="Europe/Zurich")
    await engine.search(WebQuery(text="q" * 900, limit=50, location=where))
    engine.close()
    (sent,) = server.requests
    assert (sent["query"]["country"], sent["query"]["count"], len(sent["query"]["q"])) == ("CH", "20", 400)
    assert sent["headers"]["x-loc-city"] == "bern"
    assert "x-loc-state-name" not in sent["headers"]


@pytest.mark.requirement("HOSTED/web-hostile")
@pytest.mark.parametrize(
    ("media_type", "body"),
    [
        ("text/html", b"<html><body>Too many requests</body></html>"),
        ("application/json", b"<html>"),
        ("application/json", b'{"results": 7, "web": 7}'),
        ("application/json", b"[" * 100_000),
        ("application/json", b'{"results": ["' + b"x" * 10_000_000 + b'"]}'),
    ],
    ids=["html", "no-json", "wrong-type", "deep", "10-mb"],
)
async def test_answers_that_are_none(
    engine: HttpEngine, server: ScriptedEngine, media_type: str, body: bytes
) -> None:
    server.media_type, server.body = media_type, body
    with pytest.raises(BackendBroken) as broken:
        await engine.search(WebQuery(text="q", limit=3))
    assert "search engine" in broken.value.message
    assert len(broken.value.message) < 500
    server.media_type, server.body = "application/json", None
    assert len(await engine.search(WebQuery(text="q", limit=3))) == 3


@pytest.mark.requirement("HOSTED/web-hostile")
async def test_an_engine_that_hangs_or_refuses(server: ScriptedEngine) -> None:
    engine = make_engine("tavily", server.url, KEY, 0.2)
    server.hangs = True
    with pytest.raises(BackendTimeout):
        await engine.search(WebQuery(text="q", limit=3))
    server.hangs, server.status, server.body = False, 401, f"wrong key {KEY}".encode()
    with pytest.raises(BackendError) as refused:
        await engine.search(WebQuery(text="q", limit=3))
    engine.close()
    assert "401" in refused.value.message
    assert KEY not in refused.value.message


@pytest.mark.requirement("HOSTED/web-hostile")
async def test_results_that_echo_a_key_or_are_no_pages(server: ScriptedEngine) -> None:
    KNOWN_SECRETS.add(KEY)
    server.pages = (
        (f"https://a.example/?{KEY}", "t", "x"),
        ("javascript:alert(1)", "t", "x"),
        ("https://a.example/" + "x" * 3000, "t", "x"),
        ("https://a.example/\n", "t", "x"),
        ("https://b.example/", f"a {KEY}", f"b {KEY}" + "y" * 20_000),
    )
    engine = make_engine("searxng", server.url, "", 5.0)
    (found,) = await engine.search(WebQuery(text="q", limit=9))
    engine.close()
    assert (found.url, found.title, len(found.text)) == ("https://b.example/", "a [redacted]", 8_000)
    assert KEY not in found.text
