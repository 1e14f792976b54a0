"""Keys: stored unchanged, and revoked permanently."""

import pytest
from msgspec.structs import replace

from antiphon.errors import NotFound
from antiphon.store.base import ApiKey
from antiphon.store.ports import Stores
from antiphon.store.stats import ResponseStats
from tests.store.values import events, queued

KEY = ApiKey(
    id="key_1",
    tenant="t",
    name="CI, really",
    digest="ab",
    scopes=("responses:read", "responses:write"),
    created_at=2,
)


async def test_keys_are_listed_oldest_first(store: Stores) -> None:
    older = replace(KEY, id="key_2", created_at=1, expires_at=9, scopes=())
    await store.keys.add_key(KEY)
    await store.keys.add_key(older)
    assert await store.keys.list_keys() == [older, KEY]


@pytest.mark.parametrize("tools", [None, (), ("file_search",), ("mcp:[::1]", "mcp:notes")])
async def test_the_tools_of_a_key_are_stored(store: Stores, tools: tuple[str, ...] | None) -> None:
    for scopes in (KEY.scopes, ()):
        key = replace(KEY, id=f"key_{len(scopes)}", tools=tools, scopes=scopes)
        await store.keys.add_key(key)
        assert key in await store.keys.list_keys()


@pytest.mark.parametrize("tools", [None, (), ("file_search", "mcp:notes")])
async def test_the_claim_of_a_response_names_its_key_and_the_tools_of_that_key(
    store: Stores, tools: tuple[str, ...] | None
) -> None:
    await store.keys.add_key(replace(KEY, tools=tools))
    for name, key_id in (("1", KEY.id), ("2", None), ("3", "key_of_nobody")):
        stored = replace(queued(name), stats=ResponseStats(key_id=key_id))
        await store.background.submit("t", stored, b"{}", events(0))
    claims = [await store.background.claim("t", f"resp_{name}") for name in "123"]
    assert [(claim.key_id, claim.key_tools) for claim in claims if claim is not None] == [
        (KEY.id, None if tools is None else frozenset(tools)),
        (None, None),
        ("key_of_nobody", frozenset()),
    ]


async def test_a_revoked_key_keeps_its_first_revocation_time(store: Stores) -> None:
    await store.keys.add_key(KEY)
    await store.keys.revoke_key("key_1", 7)
    await store.keys.revoke_key("key_1", 8)
    assert await store.keys.list_keys() == [replace(KEY, revoked_at=7)]
    with pytest.raises(NotFound, match="key_x"):
        await store.keys.revoke_key("key_x", 7)


async def test_the_first_sealing_key_is_recorded_and_stays_until_it_is_replaced(store: Stores) -> None:
    assert await store.keys.record_seal_key("one") == "one"
    assert await store.keys.record_seal_key("two") == "one"
    await store.keys.replace_seal_key("three")
    assert await store.keys.record_seal_key("two") == "three"


async def test_deleted_keys_are_gone_all_of_them_or_none(store: Stores) -> None:
    keys = [replace(KEY, id=f"key_{number}", created_at=number) for number in range(3)]
    for key in keys:
        await store.keys.add_key(key)
    with pytest.raises(NotFound, match="key_x"):
        await store.keys.delete_keys(["key_0", "key_x"])
    assert await store.keys.list_keys() == keys
    await store.keys.delete_keys(["key_0", "key_2"])
    assert await store.keys.list_keys() == [keys[1]]
