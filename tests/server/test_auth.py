"""Authentication: keys of the settings and stored keys."""

import asyncio
import logging
import secrets
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager, suppress

import pytest

from antiphon.caller import OPERATOR, SCOPES, Caller
from antiphon.errors import Forbidden, MissingKey, StoreUnavailable, Unauthorized
from antiphon.server.auth import Keys
from antiphon.service.keys import Keyring
from tests.service.key_store import KeyStore

PEPPER = b"pepper"
EVERYTHING = Caller("default", frozenset(SCOPES))
"""The caller with a key that was created without scopes."""


class Hand:
    """A clock that is set by hand."""

    now = 1000.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Hand:
    return Hand()


@pytest.fixture
def store() -> KeyStore:
    return KeyStore()


@pytest.fixture
def keyring(store: KeyStore, clock: Hand) -> Keyring:
    return Keyring(store, store.signals, pepper=PEPPER, clock=clock, entropy=secrets.token_bytes)


@pytest.fixture
def keys(clock: Hand) -> Keys:
    return Keys((), pepper=PEPPER, clock=clock)


def bearer(key: str) -> bytes:
    return f"Bearer {key}".encode()


@asynccontextmanager
async def watching(keys: Keys, store: KeyStore) -> AsyncGenerator[None, None]:
    task = asyncio.create_task(keys.watch(store, store.signals))
    try:
        yield
    finally:
        task.cancel()
        with suppress(asyncio.CancelledError):
            await task


async def test_without_any_key_everybody_may_do_everything(keys: Keys, store: KeyStore) -> None:
    await keys.refresh(store)
    assert keys.empty
    assert keys.check(b"") == keys.check(b"Bearer whatever") == OPERATOR


def test_a_key_of_the_settings_opens_the_default_tenant() -> None:
    keys = Keys(["right", "ap_looks_stored"])
    assert not keys.empty
    assert keys.check(b"Bearer right") == keys.check(b"bearer  right ") == OPERATOR
    assert keys.check(b"Bearer ap_looks_stored") == OPERATOR


async def test_a_stored_key_opens_its_tenant_with_its_scopes(
    keys: Keys, keyring: Keyring, store: KeyStore
) -> None:
    text, key = await keyring.create(tenant="acme", scopes=["responses:read"])
    await keys.refresh(store)
    assert not keys.empty
    assert keys.check(bearer(text)) == Caller("acme", frozenset({"responses:read"}), key.id)


async def test_both_kinds_of_keys_are_valid_side_by_side(
    keyring: Keyring, store: KeyStore, clock: Hand
) -> None:
    text, _ = await keyring.create(tenant="acme")
    keys = Keys(["static"], pepper=PEPPER, clock=clock)
    await keys.refresh(store)
    assert keys.check(b"Bearer static").tenant == "default"
    assert keys.check(bearer(text)).tenant == "acme"


async def test_all_invalid_keys_get_the_same_error(
    keys: Keys, keyring: Keyring, store: KeyStore, clock: Hand
) -> None:
    good, key = await keyring.create()
    expired, _ = await keyring.create(lifetime=10)
    revoked, gone = await keyring.create()
    await keyring.revoke(gone.id)
    await keys.refresh(store)
    clock.now += 10
    secret = good.split("_")[2]
    wrong = [
        bearer(expired),
        bearer(revoked),
        bearer(f"ap_{key.id}_{secret[:-1]}"),
        bearer(f"ap_{key.id}_"),
        bearer(f"ap_{key.id}"),
        bearer(f"sk_{key.id}_{secret}"),
        bearer(f"ap_{'0' * 16}_{secret}"),
        bearer(f"ap__{secret}"),
        bearer(f"ap_{key.id}_{key.digest}"),
        bearer(f"ap_{key.id}_{secret}_"),
        b"Bearer ap_\xff_\xff\x00",
    ]
    refusals: set[tuple[object, ...]] = set()
    for authorization in wrong:
        with pytest.raises(Unauthorized) as refused:
            keys.check(authorization)
        refusals.add((refused.value.status, *refused.value.to_wire().values()))
    assert len(refusals) == 1
    assert {code for *_, code in refusals} == {"invalid_api_key"}
    assert keys.check(bearer(good)).scopes == EVERYTHING.scopes


async def test_a_request_without_a_key_is_told_apart_from_one_with_a_wrong_key(
    keys: Keys, keyring: Keyring, store: KeyStore
) -> None:
    good, _ = await keyring.create()
    await keys.refresh(store)
    for authorization in (b"", b"Bearer", b"Bearer ", good.encode(), b"Basic " + good.encode()):
        with pytest.raises(MissingKey, match="Authorization: Bearer KEY") as refused:
            keys.check(authorization)
        assert (refused.value.status, refused.value.code) == (401, "missing_api_key")
        assert refused.value.to_wire()["type"] == "invalid_request_error"
        assert good not in refused.value.message


async def test_after_the_last_key_is_deleted_loopback_needs_none_again_and_says_so(
    keys: Keys, keyring: Keyring, store: KeyStore, caplog: pytest.LogCaptureFixture
) -> None:
    _, one = await keyring.create()
    _, two = await keyring.create()
    await keyring.revoke(one.id)
    await keys.refresh(store)
    await keyring.delete([two.id])
    await keys.refresh(store)
    with pytest.raises(Unauthorized):
        keys.check(b"")
    assert caplog.messages == []
    await keyring.delete([one.id])
    await keys.refresh(store)
    await keys.refresh(store)
    assert keys.check(b"") == OPERATOR
    assert caplog.messages == ["the last key was deleted: requests need no key from now on"]


async def test_beyond_loopback_no_caller_is_accepted_after_the_last_key_is_deleted(
    keyring: Keyring, store: KeyStore, clock: Hand, caplog: pytest.LogCaptureFixture
) -> None:
    keys = Keys((), pepper=PEPPER, clock=clock, required=True)
    text, key = await keyring.create()
    await keys.refresh(store)
    assert keys.check(bearer(text))
    await keyring.delete([key.id])
    await keys.refresh(store)
    assert keys.needed
    for authorization in (b"", bearer(text)):
        with pytest.raises(Unauthorized):
            keys.check(authorization)
    assert caplog.messages == []


async def test_a_key_expires_while_its_copy_is_in_use(
    keys: Keys, keyring: Keyring, store: KeyStore, clock: Hand
) -> None:
    text, _ = await keyring.create(lifetime=10)
    await keys.refresh(store)
    clock.now += 9
    assert keys.check(bearer(text))
    clock.now += 1
    with pytest.raises(Unauthorized):
        keys.check(bearer(text))


async def test_another_pepper_makes_other_keys(keyring: Keyring, store: KeyStore, clock: Hand) -> None:
    text, _ = await keyring.create()
    keys = Keys((), pepper=b"other", clock=clock)
    await keys.refresh(store)
    with pytest.raises(Unauthorized):
        keys.check(bearer(text))


async def test_after_the_last_key_is_revoked_all_requests_are_rejected(
    keys: Keys, keyring: Keyring, store: KeyStore
) -> None:
    _, key = await keyring.create()
    await keyring.revoke(key.id)
    await keys.refresh(store)
    assert not keys.empty
    with pytest.raises(Unauthorized):
        keys.check(b"")


def test_a_missing_scope_is_reported() -> None:
    caller = Caller("acme", frozenset({"responses:read"}))
    caller.require("responses:read")
    with pytest.raises(Forbidden, match="'responses:delete'") as refused:
        caller.require("responses:delete")
    assert (refused.value.status, refused.value.code) == (403, "insufficient_scope")


async def test_a_signal_makes_a_new_key_valid_and_a_revoked_one_not(
    keys: Keys, keyring: Keyring, store: KeyStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("antiphon.server.auth.REFRESH_SECONDS", 60)
    async with watching(keys, store):
        await asyncio.sleep(0)
        waiting = asyncio.create_task(store.wait_for_reads(1))
        await asyncio.sleep(0)
        text, key = await keyring.create()
        await waiting
        assert keys.check(bearer(text))
        waiting = asyncio.create_task(store.wait_for_reads(1))
        await asyncio.sleep(0)
        await keyring.revoke(key.id)
        await waiting
        with pytest.raises(Unauthorized):
            keys.check(bearer(text))


async def test_a_change_without_a_signal_is_seen_too(
    keys: Keys, keyring: Keyring, store: KeyStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("antiphon.server.auth.REFRESH_SECONDS", 0.01)
    async with watching(keys, store):
        text, key = await keyring.create()
        await store.wait_for_reads(2)
        assert keys.check(bearer(text))
        await store.revoke_key(key.id, 1000)
        await store.wait_for_reads(2)
        with pytest.raises(Unauthorized):
            keys.check(bearer(text))


async def test_an_unreadable_database_keeps_the_last_keys_valid_and_is_logged_once(
    keys: Keys,
    keyring: Keyring,
    store: KeyStore,
    caplog: pytest.LogCaptureFixture,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("antiphon.server.auth.REFRESH_SECONDS", 0.01)
    caplog.set_level(logging.INFO, "antiphon.server.auth")
    text, _ = await keyring.create()
    await keys.refresh(store)
    async with watching(keys, store):
        store.readable = False
        await store.wait_for_reads(3)
        assert keys.check(bearer(text)).scopes == EVERYTHING.scopes
        with pytest.raises(Unauthorized):
            keys.check(b"")
        store.readable = True
        later, _ = await keyring.create()
        await store.wait_for_reads(3)
        assert keys.check(bearer(later)).scopes == EVERYTHING.scopes
    assert [record.levelname for record in caplog.records] == ["WARNING", "INFO"]
    assert text.split("_")[2] not in caplog.text


async def test_the_first_copy_must_succeed(keys: Keys, store: KeyStore) -> None:
    store.readable = False
    with pytest.raises(StoreUnavailable):
        await keys.refresh(store)
