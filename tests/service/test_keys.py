"""Keys: created once, found by their digest, revoked."""

import hashlib
import hmac
import re
import secrets
from typing import Any

import msgspec
import pytest

from antiphon.caller import SCOPES
from antiphon.errors import InvalidRequest, NotFound
from antiphon.service.keys import Keyring
from tests.service.key_store import KeyStore

PEPPER = b"pepper"


@pytest.fixture
def store() -> KeyStore:
    return KeyStore()


@pytest.fixture
def keyring(store: KeyStore) -> Keyring:
    return Keyring(store, store.signals, pepper=PEPPER, clock=lambda: 1000.5, entropy=secrets.token_bytes)


async def test_a_key_contains_its_id_and_32_random_bytes(keyring: Keyring) -> None:
    text, key = await keyring.create()
    found = re.fullmatch(r"ap_([0-9a-f]+)_([0-9a-f]{64})", text)
    assert found is not None
    assert found[1] == key.id
    other, _ = await keyring.create()
    assert other.split("_")[2] != found[2]


async def test_the_store_has_the_hmac_and_never_the_secret(keyring: Keyring, store: KeyStore) -> None:
    text, key = await keyring.create("laptop")
    secret = text.split("_")[2]
    assert key.digest == hmac.new(PEPPER, secret.encode(), hashlib.sha256).hexdigest()
    assert list(await keyring.list()) == [key]
    assert secret.encode() not in msgspec.json.encode(list(store.stored.values()))


async def test_a_key_has_no_expiry_and_all_scopes_by_default(keyring: Keyring) -> None:
    _, key = await keyring.create()
    assert (key.tenant, key.name, key.scopes, key.created_at) == ("default", "", SCOPES, 1000)
    assert (key.expires_at, key.revoked_at) == (None, None)
    _, key = await keyring.create(
        "ci", "acme", ["responses:write", "responses:read", "responses:read"], lifetime=60
    )
    assert (key.tenant, key.name, key.expires_at) == ("acme", "ci", 1060)
    assert key.scopes == ("responses:read", "responses:write")


@pytest.mark.parametrize(
    ("params", "param"),
    [
        ({"tenant": ""}, "tenant"),
        ({"tenant": "a b"}, "tenant"),
        ({"tenant": "a\n"}, "tenant"),
        ({"tenant": "a" * 65}, "tenant"),
        ({"tenant": "ä"}, "tenant"),
        ({"scopes": ["root"]}, "scopes"),
        ({"scopes": []}, "scopes"),
        ({"name": "x" * 101}, "name"),
        ({"name": "a\x1b[2J"}, "name"),
        ({"tools": ["a b"]}, "tools"),
        ({"tools": ["mcp:"]}, "tools"),
        ({"tools": ["file_search:vs_1"]}, "tools"),
        ({"tools": [f"tool_{number}" for number in range(65)]}, "tools"),
        ({"lifetime": 0}, "lifetime"),
        ({"lifetime": -5}, "lifetime"),
        ({"lifetime": 1e30}, "lifetime"),
        ({"lifetime": float("inf")}, "lifetime"),
    ],
)
async def test_invalid_keys_are_rejected(
    keyring: Keyring, store: KeyStore, params: dict[str, Any], param: str
) -> None:
    with pytest.raises(InvalidRequest) as refused:
        await keyring.create(**params)
    assert refused.value.param == param
    assert store.stored == {}


@pytest.mark.parametrize("tenant", ["a", "A-b_c.9", "x" * 64])
async def test_a_tenant_may_be_called(keyring: Keyring, tenant: str) -> None:
    _, key = await keyring.create(tenant=tenant)
    assert key.tenant == tenant


async def test_a_revoked_key_remains_listed(keyring: Keyring) -> None:
    _, key = await keyring.create()
    await keyring.revoke(key.id)
    assert [found.revoked_at for found in await keyring.list()] == [1000]


async def test_an_unknown_key_cannot_be_revoked(keyring: Keyring) -> None:
    with pytest.raises(NotFound):
        await keyring.revoke("nobody")


async def test_every_change_is_signalled(keyring: Keyring, store: KeyStore) -> None:
    with store.signals.subscribe("keys") as changed:
        _, key = await keyring.create()
        assert await changed.wait(1)
        await keyring.revoke(key.id)
        assert await changed.wait(1)
