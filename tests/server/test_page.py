"""The files of the page, and the headers that confine it."""

from pathlib import Path

import httpx2
import pytest

from antiphon.server.app import App
from antiphon.server.auth import Keys
from antiphon.server.memory import memory_client
from antiphon.server.page.bundle import load_bundle
from antiphon.server.page.routes import PageRoutes
from antiphon.server.routing import RouteTable
from tests.server.conftest import never_opened, options, services_of
from tests.service.conftest import MakeCreator

SCRIPT = b"export const a = 1;"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A page as the build writes it."""
    folder = tmp_path / "bundle"
    (folder / "assets").mkdir(parents=True)
    (folder / "index.html").write_bytes(b"<!doctype html><title>x</title>")
    (folder / "assets" / "app-1a2b.js").write_bytes(SCRIPT)
    (folder / "assets" / "app-1a2b.js.br").write_bytes(b"brotli")
    (folder / "assets" / "app-1a2b.js.gz").write_bytes(b"gzip")
    (folder / "assets" / "logo.svg").write_bytes(b"<svg/>")
    (tmp_path / "secret.txt").write_bytes(b"not for the page")
    return folder


def open_app(make_creator: MakeCreator, folder: Path | None = None, *, page: bool = True) -> App:
    app = App(never_opened, lambda: "req_1", options(keys=Keys(["right"]), page=page))
    app.mount(services_of(make_creator()))
    if folder is not None:
        app.routes = RouteTable([PageRoutes(load_bundle(folder))])
    return app


async def fetch(app: App, path: str, **headers: str) -> httpx2.Response:
    async with memory_client(app) as client:
        return await client.get(path, headers={"accept-encoding": "identity", **headers})


async def test_the_document_needs_no_key_and_is_asked_for_again(
    make_creator: MakeCreator, folder: Path
) -> None:
    answer = await fetch(open_app(make_creator, folder), "/")
    assert (answer.status_code, answer.headers["content-type"]) == (200, "text/html; charset=utf-8")
    assert answer.headers["cache-control"] == "no-cache"
    assert answer.content.startswith(b"<!doctype html>")


@pytest.mark.requirement("PAGE/security-headers")
@pytest.mark.parametrize("path", ["/", "/assets/app-1a2b.js"])
async def test_the_headers_confine_the_page_to_this_server(
    make_creator: MakeCreator, folder: Path, path: str
) -> None:
    headers = (await fetch(open_app(make_creator, folder), path)).headers
    policy = dict(part.split(" ", 1) for part in headers["content-security-policy"].split("; "))
    assert policy["default-src"] == policy["frame-ancestors"] == policy["base-uri"] == "'none'"
    assert policy["form-action"] == "'none'"
    assert policy["script-src"] == policy["style-src"] == policy["connect-src"] == "'self'"
    assert policy["require-trusted-types-for"] == "'script'"
    assert "unsafe" not in headers["content-security-policy"]
    assert headers["x-content-type-options"] == "nosniff"
    assert headers["referrer-policy"] == "no-referrer"
    assert headers["cross-origin-opener-policy"] == "same-origin"
    assert headers["cross-origin-resource-policy"] == "same-origin"


async def test_an_asset_is_cached_for_ever_because_its_name_has_its_hash(
    make_creator: MakeCreator, folder: Path
) -> None:
    answer = await fetch(open_app(make_creator, folder), "/assets/app-1a2b.js")
    assert answer.headers["cache-control"] == "public, max-age=31536000, immutable"
    assert answer.headers["content-type"] == "text/javascript; charset=utf-8"
    assert answer.content == SCRIPT


@pytest.mark.parametrize(
    ("accepted", "encoding"),
    [
        ("br, gzip", "br"),
        ("gzip", "gzip"),
        ("GZIP;q=0.5", "gzip"),
        ("br;q=0, gzip", "gzip"),
        ("br;q=0.0", None),
        ("deflate", None),
        ("", None),
    ],
)
async def test_an_asset_is_sent_as_the_client_accepts_it(
    make_creator: MakeCreator, folder: Path, accepted: str, encoding: str | None
) -> None:
    file = load_bundle(folder).assets["app-1a2b.js"]
    assert file.best(accepted).encoding == encoding
    app = open_app(make_creator, folder)
    async with (
        memory_client(app) as client,
        client.stream("GET", "/assets/app-1a2b.js", headers={"accept-encoding": accepted}) as answer,
    ):
        assert answer.headers.get("content-encoding") == encoding
        assert answer.headers["vary"] == "accept-encoding"


@pytest.mark.parametrize(
    "path",
    [
        "/assets/../index.html",
        "/assets/..%2f..%2fsecret.txt",
        "/assets/%2e%2e/secret.txt",
        "/assets/app-1a2b.js.br",
        "/assets/unknown.js",
        "/assets/",
        "/assets",
        "/index.html",
    ],
)
async def test_nothing_but_the_files_of_the_page_is_served(
    make_creator: MakeCreator, folder: Path, path: str
) -> None:
    answer = await fetch(open_app(make_creator, folder), path, authorization="Bearer right")
    assert answer.status_code == 404
    assert b"not for the page" not in answer.content
    assert answer.json()["error"]["code"] == "unknown_url"


async def test_a_page_that_was_not_built_says_how_to_build_it(
    make_creator: MakeCreator, tmp_path: Path
) -> None:
    answer = await fetch(open_app(make_creator, tmp_path), "/")
    assert answer.status_code == 200
    assert "make web" in answer.text


async def test_a_server_without_the_page_serves_neither_it_nor_its_sessions(
    make_creator: MakeCreator,
) -> None:
    app = open_app(make_creator, page=False)
    for path in ("/", "/v1/session"):
        assert (await fetch(app, path, authorization="Bearer right")).status_code == 404
