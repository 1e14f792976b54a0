"""Sessions of the page: a cookie that stands for a key, and is of no use to other web pages."""

from collections.abc import AsyncIterator
from dataclasses import dataclass
from typing import Any

import httpx2
import pytest

from antiphon.caller import ADMIN, READ, SCOPES, WRITE
from antiphon.server.app import App
from antiphon.server.auth import Keys
from antiphon.server.memory import memory_client
from antiphon.server.sessions import COOKIE, LIFETIME_SECONDS, cookie_name
from antiphon.service.keys import Keyring
from tests.server.conftest import never_opened, options, services_of
from tests.service.conftest import MakeCreator

CONFIGURED = "a-key-of-the-settings"


@dataclass
class Page:
    """A browser with the page, and the keys of the server."""

    client: httpx2.AsyncClient
    keys: Keys
    ring: Keyring
    refresh: Any
    now: list[float]
    csrf: str = ""

    async def sign_in(self, key: str) -> httpx2.Response:
        answer = await self.client.post("/v1/session", json={"api_key": key})
        if answer.status_code == 200:
            self.csrf = answer.json()["csrf"]
        return answer

    async def list(self, **headers: str) -> httpx2.Response:
        sent = {"antiphon-csrf": self.csrf} if "antiphon-csrf" not in headers and self.csrf else {}
        headers = {name: value for name, value in {**sent, **headers}.items() if value}
        return await self.client.get("/v1/responses", headers=headers)

    async def new_key(self, *scopes: str, tenant: str = "acme", lifetime: float | None = None) -> str:
        text, key = await self.ring.create("the page", tenant, scopes or SCOPES, lifetime)
        del key
        await self.refresh()
        return text


@pytest.fixture
async def page(make_creator: MakeCreator) -> AsyncIterator[Page]:
    services = services_of(make_creator())
    now = [1000.0]
    keys = Keys([CONFIGURED], pepper=b"pepper", clock=lambda: now[0])
    numbers = iter(range(1, 1000))
    ring = Keyring(
        services.store.keys,
        services.store.signals,
        pepper=b"pepper",
        clock=lambda: now[0],
        entropy=lambda size: next(numbers).to_bytes(size, "big"),
    )
    app = App(never_opened, lambda: "req_1", options(keys=keys, session_secret=b"s" * 32))
    app.mount(services)
    async with memory_client(app) as client:
        yield Page(client, keys, ring, lambda: keys.refresh(services.store.keys), now)


async def test_before_signing_in_the_session_says_that_a_key_is_needed(page: Page) -> None:
    answer = await page.client.get("/v1/session")
    assert answer.json() == {
        "object": "session",
        "signed_in": False,
        "needs_key": True,
        "tenant": None,
        "key_id": None,
        "key_name": None,
        "scopes": [],
        "admin": False,
        "csrf": None,
        "version": "0.1.0",
    }
    assert answer.headers["cache-control"] == "no-store"
    assert (await page.list()).status_code == 401


async def test_signing_in_sets_a_cookie_that_scripts_and_other_sites_cannot_use(page: Page) -> None:
    key = await page.new_key(READ, ADMIN)
    answer = await page.sign_in(key)
    parts = answer.headers["set-cookie"].split("; ")
    assert parts[0].startswith(f"{COOKIE}=")
    assert parts[1:] == ["HttpOnly", "SameSite=Strict", "Path=/", f"Max-Age={LIFETIME_SECONDS}"]
    assert key.split("_")[2] not in answer.headers["set-cookie"]
    session = answer.json()
    assert (session["signed_in"], session["tenant"], session["key_name"]) == (True, "acme", "the page")
    assert (session["scopes"], session["admin"]) == ([READ, ADMIN], True)
    assert (await page.client.get("/v1/session")).json() == session
    assert (await page.list()).status_code == 200


async def test_behind_https_the_cookie_is_secure(page: Page) -> None:
    sent = {"x-forwarded-proto": "https"}
    answer = await page.client.post("/v1/session", json={"api_key": CONFIGURED}, headers=sent)
    assert answer.headers["set-cookie"].endswith("; Secure")


async def test_a_session_has_the_scopes_of_its_key(page: Page) -> None:
    await page.sign_in(await page.new_key(READ))
    body = {"model": "m", "input": "x"}
    headers = {"antiphon-csrf": page.csrf}
    refused = await page.client.post("/v1/responses", json=body, headers=headers)
    assert refused.status_code == 403
    assert WRITE in refused.text
    assert (await page.client.get("/v1/admin/keys", headers=headers)).status_code == 403


@pytest.mark.parametrize("key", ["wrong", "", "ap_1_2", "ap_x", "ü"])
async def test_a_wrong_key_opens_no_session(page: Page, key: str) -> None:
    answer = await page.sign_in(key)
    assert answer.status_code == 401
    assert "set-cookie" not in answer.headers


@pytest.mark.parametrize(
    ("body", "param"),
    [
        (b"{}", "api_key"),
        (b'{"api_key": 1}', "api_key"),
        (b"[]", None),
        (b"", None),
        (b"{", None),
        (b'{"api_key": "ap_\xff"}', None),
        (b'{"api_key": "\\ud800"}', None),
    ],
)
async def test_a_request_to_sign_in_needs_a_key(page: Page, body: bytes, param: str | None) -> None:
    answer = await page.client.post("/v1/session", content=body, headers={"content-type": "application/json"})
    assert (answer.status_code, answer.json()["error"]["param"]) == (400, param)


@pytest.mark.parametrize("sent", ["", "wrong", "ü"])
async def test_a_request_without_the_token_of_the_session_is_refused(page: Page, sent: str) -> None:
    await page.sign_in(CONFIGURED)
    answer = await page.client.get(
        "/v1/responses", headers=[(b"antiphon-csrf", sent.encode())] if sent else []
    )
    assert (answer.status_code, answer.json()["error"]["code"]) == (403, "csrf_token_required")


async def test_two_tokens_are_no_token(page: Page) -> None:
    await page.sign_in(CONFIGURED)
    token = (b"antiphon-csrf", page.csrf.encode())
    assert (await page.client.get("/v1/responses", headers=[token, token])).status_code == 403


@pytest.mark.requirement("PAGE/security-csrf")
@pytest.mark.parametrize("method", ["GET", "POST", "DELETE"])
async def test_other_web_pages_can_neither_use_nor_change_a_session(page: Page, method: str) -> None:
    await page.sign_in(CONFIGURED)
    foreign = {"origin": "http://evil.example", "antiphon-csrf": page.csrf}
    answer = await page.client.request(
        method, "/v1/session", headers={**foreign, "content-type": "application/json"}
    )
    assert (answer.status_code, answer.json()["error"]["code"]) == (403, "forbidden_origin")
    assert (await page.list(origin="http://evil.example")).status_code == 403
    assert (await page.list()).status_code == 200


async def test_the_page_of_this_server_may_send_its_origin(page: Page) -> None:
    await page.sign_in(CONFIGURED)
    host = page.client.base_url.netloc.decode()
    assert (await page.list(origin=f"http://{host}")).status_code == 200


async def test_a_session_ends_with_its_key(page: Page) -> None:
    await page.sign_in(await page.new_key())
    assert (await page.list()).status_code == 200
    [key] = await page.ring.list()
    await page.ring.revoke(key.id)
    await page.refresh()
    assert (await page.list()).status_code == 401
    assert (await page.client.get("/v1/session")).json()["signed_in"] is False


async def test_a_session_ends_when_its_key_expires(page: Page) -> None:
    await page.sign_in(await page.new_key(lifetime=60))
    page.now[0] += 61
    assert (await page.list()).status_code == 401


async def test_a_session_ends_after_half_a_day(page: Page) -> None:
    await page.sign_in(CONFIGURED)
    page.now[0] += LIFETIME_SECONDS - 1
    assert (await page.list()).status_code == 200
    page.now[0] += 1
    assert (await page.list()).status_code == 401


async def test_a_cookie_that_was_changed_is_no_cookie(page: Page) -> None:
    await page.sign_in(CONFIGURED)
    value = page.client.cookies[COOKIE]
    content, _, signature = value.partition(".")
    page.client.cookies.clear()
    changed = [
        content,
        f"{content}.",
        f"{content}.{signature[:-1]}{'0' if signature[-1] != '0' else '1'}",
        f"A{content[1:]}.{signature}" if content[0] != "A" else f"B{content[1:]}.{signature}",
        f".{signature}",
        "x" * 2000,
        f"{value}; {COOKIE}={value}",
    ]
    for each in changed:
        assert (await page.list(cookie=f"{COOKIE}={each}")).status_code == 401, each
    assert (await page.list(cookie=f"other=1; {COOKIE}={value}")).status_code == 200


async def test_a_cookie_of_another_server_is_refused(page: Page, make_creator: MakeCreator) -> None:
    await page.sign_in(CONFIGURED)
    other = App(never_opened, lambda: "req_1", options(keys=Keys([CONFIGURED], clock=lambda: 1000.0)))
    other.mount(services_of(make_creator()))
    headers = {"cookie": f"{COOKIE}={page.client.cookies[COOKIE]}", "antiphon-csrf": page.csrf}
    async with memory_client(other) as client:
        assert (await client.get("/v1/responses", headers=headers)).status_code == 401


async def test_servers_on_two_ports_of_a_host_keep_their_sessions(make_creator: MakeCreator) -> None:
    # Browsers send the cookies of a host to all of its ports, as this client does.
    jar: dict[str, str] = {}
    csrf: dict[int, str] = {}

    async def call(
        port: int, method: str, path: str, body: object = None, token: str = ""
    ) -> httpx2.Response:
        headers = {"host": f"localhost:{port}", "cookie": "; ".join(f"{n}={v}" for n, v in jar.items())}
        if token:
            headers["antiphon-csrf"] = token
        async with memory_client(apps[port]) as client:
            answer = await client.request(method, path, json=body, headers=headers)
        if set_cookie := answer.headers.get("set-cookie"):
            name, _, value = set_cookie.partition(";")[0].partition("=")
            jar[name] = value
        return answer

    apps: dict[int, App] = {}
    for port in (8080, 8081):
        keys = Keys([f"key-of-{port}"], clock=lambda: 1000.0)
        apps[port] = App(never_opened, lambda: "req_1", options(keys=keys))
        apps[port].mount(services_of(make_creator()))
        answer = await call(port, "POST", "/v1/session", {"api_key": f"key-of-{port}"})
        csrf[port] = answer.json()["csrf"]
    assert sorted(jar) == [f"{COOKIE}_8080", f"{COOKIE}_8081"]
    for port in apps:
        assert (await call(port, "GET", "/v1/session")).json()["signed_in"] is True
        assert (await call(port, "GET", "/v1/responses", token=csrf[port])).status_code == 200
    await call(8081, "DELETE", "/v1/session", token=csrf[8081])
    assert [(await call(port, "GET", "/v1/session")).json()["signed_in"] for port in apps] == [True, False]


@pytest.mark.parametrize(
    ("host", "name"),
    [
        ("localhost:8080", f"{COOKIE}_8080"),
        ("[::1]:80", f"{COOKIE}_80"),
        ("[::1]", COOKIE),
        ("antiphon.example", COOKIE),
        ("antiphon.example:", COOKIE),
    ],
)
def test_the_name_of_the_cookie_contains_the_port(host: str, name: str) -> None:
    assert cookie_name([host]) == name


async def test_a_key_wins_over_a_session(page: Page) -> None:
    await page.sign_in(CONFIGURED)
    assert (await page.list(authorization="Bearer wrong")).status_code == 401
    key = await page.new_key(READ, tenant="other")
    answer = await page.list(authorization=f"Bearer {key}", **{"antiphon-csrf": ""})
    assert answer.status_code == 200


async def test_signing_out_clears_the_cookie_and_needs_the_token(page: Page) -> None:
    await page.sign_in(CONFIGURED)
    assert (await page.client.delete("/v1/session")).status_code == 403
    answer = await page.client.delete("/v1/session", headers={"antiphon-csrf": page.csrf})
    assert answer.headers["set-cookie"].startswith(f"{COOKIE}=; HttpOnly")
    assert "Max-Age=0" in answer.headers["set-cookie"]
    assert answer.json()["signed_in"] is False


async def test_a_server_without_keys_needs_no_session(make_creator: MakeCreator) -> None:
    app = App(never_opened, lambda: "req_1", options())
    app.mount(services_of(make_creator()))
    async with memory_client(app) as client:
        session = (await client.get("/v1/session")).json()
        assert (session["signed_in"], session["needs_key"], session["admin"]) == (True, False, True)
        assert session["csrf"] is None
        answer = await client.post("/v1/session", json={"api_key": "anything"})
        assert answer.json() == session
        assert "set-cookie" not in answer.headers
        assert (await client.get("/v1/responses")).status_code == 200
